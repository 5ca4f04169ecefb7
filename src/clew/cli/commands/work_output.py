"""Output of work at the workbench: the opening, the progress, and the outcome."""

import shlex
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from clew.cli.chat.answer import ReplyWriter
from clew.cli.render.values import clean, empty_table, shorten, utc_time
from clew.core.errors import RepositoryFailed
from clew.runtime.model.messages import CALL
from clew.runtime.records.events import Event, MessageAdded
from clew.runtime.records.runs import NATURAL
from clew.workbench.agent.agent import WorkResult
from clew.workbench.agent.tools import render_outputs
from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Output,
    OverflowOutput,
    StopOutput,
    StreamOutput,
)
from clew.workbench.session.attachment import InterpreterSnapshot
from clew.workbench.session.session import OpenResult

DIM_STYLE, ERROR_STYLE = "dim", "bold red"


def opening_text(open_result: OpenResult) -> Text:
    """The opening of a session, in a few lines."""
    lines = [f"Session {clean(open_result.session)}: {open_result.restored.how.value}."]
    for change in open_result.changes:
        reason = f" ({change.reason.value})" if change.reason is not None else ""
        lines.append(f"Interpreter {change.transition.value}{reason}.")
    for path, error in open_result.problems.items():
        lines.append(f"Document {clean(path)} is not loaded: {clean(error)}")
    checkout = open_result.repository
    if checkout is not None and checkout.commit is not None:
        lines.append(f"Repository {clean(checkout.url)} at {checkout.commit[:12]}.")
        lines += [f"Context {clean(path)}: {clean(each)}." for path, each in checkout.problems.items()]
    text = Text("\n".join(lines), style=DIM_STYLE)
    for problem in opening_problems(open_result):
        text.append(f"\n{clean(problem)}", style=ERROR_STYLE)
    return text


def opening_problems(open_result: OpenResult) -> list[str]:
    """The problems of opening a session, in sentences."""
    problem, checkout = open_result.restored.problem or open_result.saved.problem, open_result.repository
    problems = [] if problem is None else [problem]
    if checkout is not None and checkout.reason is not None:
        error = RepositoryFailed(checkout.url, checkout.reason, checkout.problem or "")
        problems.append(str(error))
    return problems


def is_success(result: WorkResult) -> bool:
    """Return whether the task ended as it should, and its manifest is on the volume."""
    is_saved = result.saved is None or result.saved.code is None
    return result.termination == NATURAL and not result.waiting and is_saved


def outcome_text(result: WorkResult, *, was_streamed: bool) -> Text:
    """The outcome of a task: its text, or how to go on if the text was streamed."""
    resume_hint = f"To go on: clew work --thread-id {shlex.quote(result.session)} …"
    text = Text(clean(resume_hint), style=DIM_STYLE) if was_streamed else Text(clean(result.text))
    notes = [f"{each.tool} waits: {shorten(each.question, 200)}" for each in result.waiting]
    if result.termination != NATURAL:
        notes.append(
            f"It ended as {result.termination}{': ' if result.problem else ''}{result.problem or ''}."
        )
    if result.saved is not None and result.saved.problem is not None:
        notes.append(result.saved.problem)
    for note in notes:
        text.append(f"{chr(10) if text.plain else ''}{clean(note)}", style=ERROR_STYLE)
    return text


class WorkWriter:
    """Writes what an agent says, the code that it runs and what that gives, while it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._reply_writer = ReplyWriter(console, {})

    def show_event(self, event: Event | Output) -> None:
        """Show one thing."""
        if isinstance(event, StreamOutput):
            self._console.print(Text(clean(event.text), style=DIM_STYLE), end="")
        elif isinstance(event, DisplayOutput | ErrorOutput | StopOutput | OverflowOutput):
            self._console.print(Text(clean(render_outputs([event])), style=DIM_STYLE))
        else:
            self._reply_writer.show_event(event)
            if isinstance(event, MessageAdded) and event.message.kind == CALL:
                self._console.print(Text(_code_lines(event.message.arguments), style=DIM_STYLE))

    def end(self) -> None:
        """Finish the line."""
        self._reply_writer.end()


def _code_lines(arguments: object) -> str:
    code = arguments.get("code") if isinstance(arguments, dict) else None
    lines = str(code if code is not None else shorten(arguments, 200)).splitlines()
    return "\n".join(f"    {clean(line)}" for line in lines)


def sandbox_table(snapshots: Sequence[InterpreterSnapshot]) -> RenderableType:
    """Snapshots, one line each."""
    if not snapshots:
        return Text("There are no interpreters on record here.")
    table = empty_table(
        "time (UTC)", "session", "what", "reason", "provider", "interpreter", "volume", fold=("session",)
    )
    for each in snapshots:
        reason = each.reason.value if each.reason is not None else ""
        cells = (utc_time(each.time), each.session, each.transition.value, reason, each.provider)
        table.add_row(*(Text(clean(cell)) for cell in (*cells, each.sandbox or "", each.volume or "")))
    return table
