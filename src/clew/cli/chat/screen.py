"""How a chat looks: from values to text that fits a narrow terminal as well as a wide one. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clew.cli.chat.session import Who
from clew.cli.chat.wrap import Wrapping
from clew.cli.render.memory import says
from clew.cli.render.values import Fitted, clean, short, some, when
from clew.companion.memory.control import sentence_of
from clew.companion.values import LIMITS
from clew.core.messages.plain import PlainMessage
from clew.core.values import Summary
from clew.runtime.memory.learn.finalizer import Kept
from clew.runtime.memory.values import Arc, Fact, Profile, Rule
from clew.runtime.search import Hit
from clew.runtime.sessions.status import SessionStatus

Entry = Fact | Arc | Rule
MARK, INDENT = "› ", "  "
HINT = "Type a message, or /help. Ctrl-C stops an answer, Ctrl-D leaves."
GUEST = "You are a guest: nothing you say is written to disk, and all of it is gone when you leave."
GUEST_ENDED = "The session has ended, and nothing of it is kept. The next message begins another."
IN_THE_BACKGROUND = "What it leaves behind is made in the background; /memory shows it then."
CUT_OFF = "The last answer was cut off. /resume has it finished; or just go on."
SHORTEST = 6
"""How many letters of an id are shown at least."""


def opening(who: Who, model: str) -> RenderableType:
    """The first lines of a chat."""
    facts = " · ".join(filter(None, ("Clew", clean(who.thread), clean(who.user or ""), clean(model))))
    lines = [Text(facts, style="bold"), Text(HINT, style="dim"), Text(LIMITS, style="yellow")]
    return Group(*lines, *([Text(GUEST, style="yellow")] if who.is_guest else []))


def welcome(
    status: SessionStatus, said: Sequence[PlainMessage], catch_up: Sequence[str]
) -> list[RenderableType]:
    """What came before: on this thread, or for somebody known on a new one in the session before."""
    if said:
        parts: list[RenderableType] = [Text(f"\n{_standing(status)}", style="dim"), conversation(said)]
        return [*parts, *([Text(f"\n{CUT_OFF}", style="yellow")] if status.status == "interrupted" else [])]
    return [Text(f"\n{clean(line)}", style="dim") for line in catch_up]


def _standing(status: SessionStatus) -> str:
    episode = status.episode
    if episode is None:
        return "Here you left off:"
    turns = some(episode.turns, "turn")
    if status.status == "ended":
        return f"The last session had {turns} and has ended. It ended with:"
    return f"This session is still open, with {turns}. Here you left off:"


def conversation(said: Iterable[PlainMessage]) -> RenderableType:
    """Messages as they looked when they were said."""
    parts: list[RenderableType] = []
    for message in said:
        if message.role == "user" and parts:
            parts.append(Text())
        parts += _message(message)
    return Group(*parts) if parts else Text("Nothing has been said yet.")


def _message(message: PlainMessage) -> list[RenderableType]:
    if message.role == "user":
        return [Fitted(lambda width: _asked(message.text, width))]
    said = [Fitted(lambda width: Text(wrapped(message.text, width)))] if message.text else []
    return [*said, *(Text(f"  · {clean(call.name)}", style="dim") for call in message.calls)]


def _asked(text: str, width: int) -> Text:
    return Text.assemble((MARK, "bold cyan"), wrapped(text, width).removeprefix(INDENT))


def wrapped(text: str, width: int) -> str:
    """A text in lines of a width, each indented."""
    lines = Wrapping(width, INDENT)
    return (lines.add(clean(text)) + lines.end()).removesuffix("\n")


def pairs(rows: Mapping[str, str]) -> Table:
    """Names and values."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in rows.items():
        shown.add_row(name, Text(clean(value)))
    return shown


def status(who: Who, model: str, store: str, found: SessionStatus) -> RenderableType:
    """Where a chat stands."""
    alone = "none; what is learned stays with this thread"
    rows = {
        "thread": who.thread,
        "user": "none, as a guest" if who.is_guest else who.user or alone,
        "mode": f"{who.mode}, nothing is kept" if who.is_guest else str(who.mode),
        "session": _session(found),
        "model": model,
        "store": store,
        "next": found.advice if found.status != "interrupted" else CUT_OFF,
    }
    return pairs(rows)


def _session(found: SessionStatus) -> str:
    if found.episode is None:
        return found.status
    words = [found.status, some(found.episode.turns, "turn"), f"since {when(found.episode.started)} UTC"]
    if found.expires_at is not None:
        words.append(f"ends by itself at {when(found.expires_at)[11:16]} UTC")
    return ", ".join(words)


def threads(found: Sequence[Summary], current: str) -> RenderableType:
    """Threads one below the other."""
    if not found:
        return Text("There are no threads yet.")
    lines = []
    for each in found:
        here = " · you are here" if each.id == current else ""
        about = f" · {some(each.items, 'message')} · {when(each.updated)[:16]} UTC{here}"
        named = f" · {short(each.title, 30)}" if each.title else ""
        lines.append(Text.assemble((clean(each.id), "bold"), named, (about, "dim")))
    return Group(*lines, Text("\n/resume ID goes on with one of them.", style="dim"))


def memory(
    profile: Profile,
    facts: Sequence[Fact],
    arcs: Sequence[Arc],
    ids: Mapping[str, str],
    *,
    noted: Sequence[str] = (),
    more: bool,
) -> RenderableType:
    """What is known, each with the shortest id that names it, and what was noted and is kept later."""
    parts: list[RenderableType] = []
    for name, entries in (
        ("How you want to be answered", profile.rules),
        ("What is known", facts),
        ("Earlier sessions", arcs),
    ):
        if entries:
            parts += [Text(name, style="bold"), *(_known(entry, ids) for entry in entries), Text()]
    recall = "may be brought up" if profile.recall else "is brought up only if you ask"
    hint = f"What is known {recall}; /memory recall {'off' if profile.recall else 'on'} changes that."
    if noted:
        said = [Padding(Text(clean(line)), (0, 0, 0, 2)) for line in noted]
        parts += [Text("Noted in this session, and kept when it ends", style="bold"), *said, Text()]
    if not parts:
        parts.append(Text("Nothing is remembered yet. What is worth it is kept when a session ends."))
    elif ids:
        parts.append(Text(f"{hint} /forget ID forgets.", style="dim"))
    return Group(*parts, *([Text("There is more: clew memory list.", style="dim")] if more else []))


def _known(entry: Entry, ids: Mapping[str, str]) -> RenderableType:
    source = entry.source.thread if entry.source is not None else "a correction"
    line = Text.assemble(says(entry), (f"  {clean(ids[entry.id])} · from {clean(source)}", "dim"))
    return Padding(line, (0, 0, 0, 2))


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """For each id the shortest beginning that no other has."""
    found: dict[str, str] = {}
    for id in ids:
        length = id.rfind("-") + 1 + SHORTEST
        while length < len(id) and any(other.startswith(id[:length]) for other in ids if other != id):
            length += 1
        found[id] = id[:length]
    return found


def targets(found: Sequence[str]) -> RenderableType:
    """What would be forgotten, numbered as the answer may choose."""
    shown = Table.grid(padding=(0, 1, 0, 0))
    for number, said in enumerate(found, 1):
        shown.add_row(f"  {number}.", Text(short(said, 300)))
    return Group(Text("This would be forgotten:", style="bold"), shown)


def hits(found: Sequence[Hit], query: str) -> RenderableType:
    """What a search found, with the searched words marked."""
    if not found:
        return Text(f"Nothing found for “{clean(query)}”. Try fewer or other words.")
    parts: list[RenderableType] = []
    for hit in found:
        line = Text(clean(hit.text))
        for start, end in hit.marks:
            line.stylize("bold yellow", start, end)
        who = {"user": "you", "assistant": "answer"}.get(hit.role, hit.kind.removesuffix("s"))
        where = hit.thread if hit.kind == "items" else "memory"
        place = f"{clean(where)} · {who} · {when(hit.time)[:16]} UTC"
        parts += [Padding(line, (0, 0, 0, 2)), Padding(Text(place, style="dim"), (0, 0, 0, 2)), Text()]
    return Group(*parts[:-1])


def ended(turns: int, kept: Kept, ids: Mapping[str, str], *, is_made: bool) -> RenderableType:
    """What a session left behind: itself in a line, what is still open, and each thing learned."""
    arc = kept.arc
    loops = f"Still open: {'; '.join(arc.open_loops)}" if arc is not None and arc.open_loops else ""
    told = ["" if arc is None else arc.summary, loops] if is_made else [IN_THE_BACKGROUND]
    parts: list[RenderableType] = [Text(f"The session has ended after {some(turns, 'turn')}.")]
    parts += [
        Padding(Text(_sentence(line), style="dim"), (0, 0, 0, 2), expand=False) for line in told if line
    ]
    learned: list[Fact | Rule] = [*kept.rules, *kept.facts]
    parts += [Text("What is remembered of it", style="bold")] if learned else []
    parts += [Padding(_learned(entry, ids), (0, 0, 0, 2), expand=False) for entry in learned]
    parts += [Text("Nothing new is remembered.")] if is_made and not learned else []
    forget = "/forget ID has it forgotten. " if learned else ""
    return Group(*parts, Text(f"{forget}Your next message begins another session.", style="dim"))


def _sentence(text: str) -> str:
    said = clean(f"{text[0].upper()}{text[1:]}")
    return said if said[-1] in ".!?…”" else f"{said}."


def _learned(entry: Fact | Rule, ids: Mapping[str, str]) -> Text:
    return Text.assemble(clean(sentence_of(entry)), (f"  {clean(ids.get(entry.id, entry.id))}", "dim"))


def markdown(thread: str, said: Iterable[PlainMessage]) -> str:
    """A conversation as a document."""
    names = {"user": "You", "assistant": "Answer"}
    parts = [f"# {thread}"]
    parts += [f"**{names.get(each.role, each.role)}:** {each.text}" for each in said if each.text]
    return "\n\n".join(parts) + "\n"
