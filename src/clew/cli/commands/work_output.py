"""How work at the workbench looks: what was opened, what happens meanwhile, and what it came to."""

import shlex
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from clew.cli.chat.answer import LiveAnswer
from clew.cli.render.values import clean, short, table, when
from clew.runtime.model.messages import CALL
from clew.runtime.records.events import Event, MessageAdded
from clew.runtime.records.runs import NATURAL
from clew.workbench.agent.agent import Worked
from clew.workbench.agent.tools import rendered
from clew.workbench.interpreter.port import Dropped, Output, Printed, Raised, Shown, Stopped
from clew.workbench.session.attachment import Snapshot
from clew.workbench.session.session import Opened

DIM, BAD = "dim", "bold red"


def opening(opened: Opened) -> Text:
    """How a session was opened, in a few lines."""
    lines = [f"Session {clean(opened.session)}: {opened.restored.how.value}."]
    for change in opened.changes:
        reason = f" ({change.reason.value})" if change.reason is not None else ""
        lines.append(f"Interpreter {change.transition.value}{reason}.")
    for path, wrong in opened.problems.items():
        lines.append(f"Document {clean(path)} is not loaded: {clean(wrong)}")
    problem = opened.restored.problem or opened.saved.problem
    found = Text("\n".join(lines), style=DIM)
    return found if problem is None else found.append(f"\n{clean(problem)}", style=BAD)


def is_well(done: Worked) -> bool:
    """Whether the task ended as it should, and its manifest is on the volume."""
    saved = done.saved is None or done.saved.code is None
    return done.termination == NATURAL and not done.waiting and saved


def outcome(done: Worked, *, is_told: bool) -> Text:
    """What a task came to: its text, or how to go on if that was told while it came."""
    go_on = f"To go on: clew work --thread-id {shlex.quote(done.session)} …"
    shown = Text(clean(go_on), style=DIM) if is_told else Text(clean(done.text))
    notes = [f"{each.tool} waits: {short(each.question, 200)}" for each in done.waiting]
    if done.termination != NATURAL:
        notes.append(f"It ended as {done.termination}{': ' if done.problem else ''}{done.problem or ''}.")
    if done.saved is not None and done.saved.problem is not None:
        notes.append(done.saved.problem)
    for note in notes:
        shown.append(f"{chr(10) if shown.plain else ''}{clean(note)}", style=BAD)
    return shown


class LiveWork:
    """Writes what an agent says, the code that it runs and what that gives, while it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._answer = LiveAnswer(console, {})

    def hear(self, event: Event | Output) -> None:
        """Show one thing."""
        if isinstance(event, Printed):
            self._console.print(Text(clean(event.text), style=DIM), end="")
        elif isinstance(event, Shown | Raised | Stopped | Dropped):
            self._console.print(Text(clean(rendered([event])), style=DIM))
        else:
            self._answer.hear(event)
            if isinstance(event, MessageAdded) and event.message.kind == CALL:
                self._console.print(Text(_code(event.message.arguments), style=DIM))

    def end(self) -> None:
        """Finish the line."""
        self._answer.end()


def _code(arguments: object) -> str:
    code = arguments.get("code") if isinstance(arguments, dict) else None
    lines = str(code if code is not None else short(arguments, 200)).splitlines()
    return "\n".join(f"    {clean(line)}" for line in lines)


def sandboxes(found: Sequence[Snapshot]) -> RenderableType:
    """Snapshots, one line each."""
    if not found:
        return Text("There are no interpreters on record here.")
    shown = table(
        "time (UTC)", "session", "what", "reason", "provider", "interpreter", "volume", fold=("session",)
    )
    for each in found:
        reason = each.reason.value if each.reason is not None else ""
        cells = (when(each.time), each.session, each.transition.value, reason, each.provider)
        shown.add_row(*(Text(clean(cell)) for cell in (*cells, each.sandbox or "", each.volume or "")))
    return shown
