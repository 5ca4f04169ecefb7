"""The look of a chat: from values to text that fits a narrow terminal as well as a wide one. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clew.cli.chat.session import Participant
from clew.cli.chat.wrap import LineWrapper
from clew.cli.render.memory import entry_text
from clew.cli.render.values import WidthRenderable, clean, quantity, shorten, utc_time
from clew.core.messages.plain import PlainMessage
from clew.core.values import ThreadSummary
from clew.runtime.memory.learn.finalizer import EpisodeMemory
from clew.runtime.memory.recall.render import sentence_of
from clew.runtime.memory.values import Arc, Fact, MemoryEntry, MemoryProfile, Rule
from clew.runtime.search import Hit
from clew.runtime.sessions.status import SessionStatus

PROMPT_MARK, INDENT = "› ", "  "
USAGE_HINT = "Type a message, or /help. Ctrl-C stops an answer, Ctrl-D leaves."
GUEST_NOTE = "You are a guest: nothing you say is written to disk, and all of it is gone when you leave."
GUEST_END_NOTE = "The session has ended, and nothing of it is kept. The next message begins another."
LEARNING_NOTE = "What it leaves behind is made in the background; /memory shows it then."
CUT_OFF_NOTE = "The last answer was cut off. /resume has it finished; or just go on."
LEAST_ID_LETTERS = 6
"""How many letters of an id are shown at least."""


def opening(participant: Participant, model: str, notices: Sequence[str]) -> RenderableType:
    """The first lines of a chat."""
    facts = " · ".join(
        filter(None, ("Clew", clean(participant.thread), clean(participant.user or ""), clean(model)))
    )
    all_notices = [*notices, *([GUEST_NOTE] if participant.is_guest else [])]
    lines = [Text(clean(notice), style="yellow") for notice in all_notices]
    return Group(Text(facts, style="bold"), Text(USAGE_HINT, style="dim"), *lines)


def welcome(
    status: SessionStatus, messages: Sequence[PlainMessage], catch_up: Sequence[str]
) -> list[RenderableType]:
    """A summary of what came before: on this thread or, if it is new, in the user's last session."""
    if messages:
        parts: list[RenderableType] = [
            Text(f"\n{_session_line(status)}", style="dim"),
            conversation(messages),
        ]
        return [
            *parts,
            *([Text(f"\n{CUT_OFF_NOTE}", style="yellow")] if status.status == "interrupted" else []),
        ]
    return [Text(f"\n{clean(line)}", style="dim") for line in catch_up]


def _session_line(status: SessionStatus) -> str:
    episode = status.episode
    if episode is None:
        return "Here you left off:"
    turns = quantity(episode.turns, "turn")
    if status.status == "ended":
        return f"The last session had {turns} and has ended. It ended with:"
    return f"This session is still open, with {turns}. Here you left off:"


def conversation(messages: Iterable[PlainMessage]) -> RenderableType:
    """Messages as they looked when they were said."""
    parts: list[RenderableType] = []
    for message in messages:
        if message.role == "user" and parts:
            parts.append(Text())
        parts += _message_parts(message)
    return Group(*parts) if parts else Text("Nothing has been said yet.")


def _message_parts(message: PlainMessage) -> list[RenderableType]:
    if message.role == "user":
        return [WidthRenderable(lambda width: _user_text(message.text, width))]
    body = [WidthRenderable(lambda width: Text(wrap_text(message.text, width)))] if message.text else []
    return [*body, *(Text(f"  · {clean(call.name)}", style="dim") for call in message.calls)]


def _user_text(text: str, width: int) -> Text:
    return Text.assemble((PROMPT_MARK, "bold cyan"), wrap_text(text, width).removeprefix(INDENT))


def wrap_text(text: str, width: int) -> str:
    """A text in lines of a width, each indented."""
    lines = LineWrapper(width, INDENT)
    return (lines.add(clean(text)) + lines.end()).removesuffix("\n")


def pair_table(rows: Mapping[str, str]) -> Table:
    """Names and values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(clean(value)))
    return table


def context_panel(sections: Mapping[str, Sequence[str]]) -> RenderableType:
    """The context of an answer: titles and their lines, one below the other."""
    rows = {title: "\n".join(lines) for title, lines in sections.items() if lines}
    table = Padding(pair_table(rows), (0, 0, 0, 2), expand=False)
    return Group(Text("What this answer was made with", style="bold"), table)


def skill_list(texts: Mapping[str, str], agent: str, *, is_used: bool) -> RenderableType:
    """Skills by name, each with its first line."""
    if not is_used:
        return Text(f"The agent {clean(agent)} uses no skills.")
    if not texts:
        return Text("No skills are installed. clew chat --skills FOLDER installs those of a folder.")
    first_lines = {name: text.splitlines()[0].lstrip("# ") for name, text in texts.items()}
    return Group(Text("Every answer is made with these skills", style="bold"), pair_table(first_lines))


def status_table(
    participant: Participant,
    model: str,
    store: str,
    session: SessionStatus,
    options: Mapping[str, str],
) -> RenderableType:
    """The status of a chat, as a table."""
    no_user = "none; what is learned stays with this thread"
    rows = {
        "thread": participant.thread,
        "user": "none, as a guest" if participant.is_guest else participant.user or no_user,
        "mode": f"{participant.mode}, nothing is kept" if participant.is_guest else str(participant.mode),
        "session": _session_words(session),
        "model": model,
        **options,
        "store": store,
        "next": session.advice if session.status != "interrupted" else CUT_OFF_NOTE,
    }
    return pair_table({name.replace("_", " "): value for name, value in rows.items() if value})


def _session_words(session: SessionStatus) -> str:
    if session.episode is None:
        return session.status
    words = [
        session.status,
        quantity(session.episode.turns, "turn"),
        f"since {utc_time(session.episode.started)} UTC",
    ]
    if session.expires_at is not None:
        words.append(f"ends by itself at {utc_time(session.expires_at)[11:16]} UTC")
    return ", ".join(words)


def thread_lines(summaries: Sequence[ThreadSummary], current: str) -> RenderableType:
    """Threads one below the other."""
    if not summaries:
        return Text("There are no threads yet.")
    lines = []
    for each in summaries:
        here = " · you are here" if each.id == current else ""
        about = f" · {quantity(each.items, 'message')} · {utc_time(each.updated)[:16]} UTC{here}"
        title = f" · {shorten(each.title, 30)}" if each.title else ""
        lines.append(Text.assemble((clean(each.id), "bold"), title, (about, "dim")))
    return Group(*lines, Text("\n/resume ID goes on with one of them.", style="dim"))


def memory_overview(
    profile: MemoryProfile,
    facts: Sequence[Fact],
    arcs: Sequence[Arc],
    ids: Mapping[str, str],
    *,
    candidates: Sequence[str] = (),
    has_more: bool,
) -> RenderableType:
    """The entries of a memory, each with its shortest unique id, and the candidates that are stored later."""
    parts: list[RenderableType] = []
    for name, entries in (
        ("How you want to be answered", profile.rules),
        ("What is known", facts),
        ("Earlier sessions", arcs),
    ):
        if entries:
            parts += [
                Text(name, style="bold"),
                *(_entry_with_source(entry, ids) for entry in entries),
                Text(),
            ]
    recall = "may be brought up" if profile.recall else "is brought up only if you ask"
    hint = f"What is known {recall}; /memory recall {'off' if profile.recall else 'on'} changes that."
    if candidates:
        lines = [Padding(Text(clean(line)), (0, 0, 0, 2)) for line in candidates]
        parts += [Text("Noted in this session, and kept when it ends", style="bold"), *lines, Text()]
    if not parts:
        parts.append(Text("Nothing is remembered yet. What is worth it is kept when a session ends."))
    elif ids:
        parts.append(Text(f"{hint} /forget ID forgets.", style="dim"))
    return Group(*parts, *([Text("There is more: clew memory list.", style="dim")] if has_more else []))


def _entry_with_source(entry: MemoryEntry, ids: Mapping[str, str]) -> RenderableType:
    source = entry.source.thread if entry.source is not None else "a correction"
    line = Text.assemble(entry_text(entry), (f"  {clean(ids[entry.id])} · from {clean(source)}", "dim"))
    return Padding(line, (0, 0, 0, 2))


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """For each id the shortest beginning that no other has."""
    prefixes: dict[str, str] = {}
    for id in ids:
        length = id.rfind("-") + 1 + LEAST_ID_LETTERS
        while length < len(id) and any(other.startswith(id[:length]) for other in ids if other != id):
            length += 1
        prefixes[id] = id[:length]
    return prefixes


def forget_preview(texts: Sequence[str]) -> RenderableType:
    """The entries that would be forgotten, with the numbers by which an answer may choose."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for number, text in enumerate(texts, 1):
        table.add_row(f"  {number}.", Text(shorten(text, 300)))
    return Group(Text("This would be forgotten:", style="bold"), table)


def hit_list(hits: Sequence[Hit], query: str) -> RenderableType:
    """The hits of a search, with the searched words marked."""
    if not hits:
        return Text(f"Nothing found for “{clean(query)}”. Try fewer or other words.")
    parts: list[RenderableType] = []
    for hit in hits:
        line = Text(clean(hit.text))
        for start, end in hit.marks:
            line.stylize("bold yellow", start, end)
        speaker = {"user": "you", "assistant": "answer"}.get(hit.role, hit.kind.removesuffix("s"))
        source = hit.thread if hit.kind == "items" else "memory"
        caption = f"{clean(source)} · {speaker} · {utc_time(hit.time)[:16]} UTC"
        parts += [Padding(line, (0, 0, 0, 2)), Padding(Text(caption, style="dim"), (0, 0, 0, 2)), Text()]
    return Group(*parts[:-1])


def session_end(
    turns: int, episode_memory: EpisodeMemory, ids: Mapping[str, str], *, is_complete: bool
) -> RenderableType:
    """The end of a session: its summary in a line, its open questions, and each entry that it added."""
    arc = episode_memory.arc
    open_loops = f"Still open: {'; '.join(arc.open_loops)}" if arc is not None and arc.open_loops else ""
    lines = ["" if arc is None else arc.summary, open_loops] if is_complete else [LEARNING_NOTE]
    parts: list[RenderableType] = [Text(f"The session has ended after {quantity(turns, 'turn')}.")]
    parts += [
        Padding(Text(_as_sentence(line), style="dim"), (0, 0, 0, 2), expand=False) for line in lines if line
    ]
    entries: list[Fact | Rule] = [*episode_memory.rules, *episode_memory.facts]
    parts += [Text("What is remembered of it", style="bold")] if entries else []
    parts += [Padding(_entry_sentence(entry, ids), (0, 0, 0, 2), expand=False) for entry in entries]
    parts += [Text("Nothing new is remembered.")] if is_complete and not entries else []
    forget_hint = "/forget ID has it forgotten. " if entries else ""
    return Group(*parts, Text(f"{forget_hint}Your next message begins another session.", style="dim"))


def _as_sentence(text: str) -> str:
    sentence = clean(f"{text[0].upper()}{text[1:]}")
    return sentence if sentence[-1] in ".!?…”" else f"{sentence}."


def _entry_sentence(entry: Fact | Rule, ids: Mapping[str, str]) -> Text:
    return Text.assemble(clean(sentence_of(entry)), (f"  {clean(ids.get(entry.id, entry.id))}", "dim"))


def markdown(thread: str, messages: Iterable[PlainMessage]) -> str:
    """A conversation as a document."""
    names = {"user": "You", "assistant": "Answer"}
    parts = [f"# {thread}"]
    parts += [f"**{names.get(each.role, each.role)}:** {each.text}" for each in messages if each.text]
    return "\n\n".join(parts) + "\n"
