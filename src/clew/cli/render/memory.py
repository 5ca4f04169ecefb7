"""Views of memory: each entry with its id, its words and its source. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.render.values import clean, quantity, shorten, utc_time
from clew.runtime.memory.values import (
    Arc,
    Fact,
    ForgetResult,
    ForgetTarget,
    MemoryEntry,
    MemorySource,
    PendingForget,
    Rule,
)

MOST_LETTERS = 400
UNDO_OUTCOMES = {
    "Learn": "what was learned is not known any more",
    "CloseEpisode": "what that session left is not known any more",
    "Correct": "what was corrected is as it was",
    "Forget": "what was forgotten is known again",
    "SetRecall": "recall is as it was",
    "Undo": "what had been taken back is there again",
}


class MemoryOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a memory. ``next`` is where the next page of a list begins, if it has one."""

    owner: str | None
    thread: str
    version: int
    recall: bool
    pending: PendingForget | None
    rules: Sequence[Rule]
    facts: Sequence[Fact]
    arcs: Sequence[Arc]
    next: Mapping[str, int | None]


def overview_detail(page: MemoryOverview) -> RenderableType:
    """A page of what is known: rules, facts and arcs, each with where it comes from."""
    parts: list[RenderableType] = [_title(page)]
    for name, entries in (("Rules", page.rules), ("Facts", page.facts), ("Earlier sessions", page.arcs)):
        if entries:
            parts += [Text(f"\n{name}", style="bold"), _entry_grid(entries)]
    if len(parts) == 1:
        parts.append(Text("\nNothing is remembered here."))
    if page.pending is not None:
        ids = ", ".join(target.id for target in page.pending.targets)
        parts.append(Text(f"\nWaits for a yes, to be forgotten: {clean(ids)}", style="yellow"))
    more = {kind: place for kind, place in page.next.items() if place is not None}
    lines = [f"\nMore {kind}: --kind {kind} --before {place}" for kind, place in more.items()]
    return Group(*parts, *(Text(line, style="dim") for line in lines))


def _title(page: MemoryOverview) -> Text:
    recall = "recall is on" if page.recall else "recall is off"
    owner = page.owner or page.thread
    return Text.assemble((clean(owner), "bold"), (f"  {recall} · version {page.version}", "dim"))


def _entry_grid(entries: Iterable[MemoryEntry]) -> Table:
    grid = _empty_grid()
    for entry in entries:
        grid.add_row(Text(clean(entry.id)), Text(entry_text(entry)))
        grid.add_row(Text(), Text(_source_line(entry), style="dim"))
    return grid


def _empty_grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column(overflow="fold")
    return grid


def entry_text(entry: MemoryEntry) -> str:
    """An entry in a line."""
    if isinstance(entry, Rule):
        return clean(entry.text)
    if isinstance(entry, Arc):
        themes = f" ({', '.join(entry.themes)})" if entry.themes else ""
        return clean(f"{entry.summary}{themes}")
    return clean(f"{entry.subject} {entry.predicate_text} {entry.object}")


def _source_line(entry: MemoryEntry) -> str:
    """The words that an entry comes from, and their place."""
    quote = entry.evidence[-1] if isinstance(entry, Rule) and entry.evidence else ""
    quote = entry.quote if isinstance(entry, Fact) else quote
    parts = [f"“{shorten(quote, MOST_LETTERS)}”"] if quote else []
    return " · ".join([*parts, _source_words(entry), *_time_words(entry)])


def _source_words(entry: MemoryEntry) -> str:
    if entry.source is None:
        return "from a correction" if not isinstance(entry, Arc) and entry.how == "user" else "no source"
    at = f" at version {entry.source.version}" if entry.source.version else ""
    return f"session {clean(entry.source.thread)}{at}"


def _time_words(entry: MemoryEntry) -> list[str]:
    """The time when it was learned, and how often it was said if more than once."""
    if isinstance(entry, Arc):
        return [utc_time(entry.ended)[:10]] if entry.ended else []
    repeats = [f"said {entry.times} times"] if entry.times > 1 else []
    return [*([utc_time(entry.learned)[:10]] if entry.learned else []), *repeats]


def entry_detail(entry: MemoryEntry, message: str | None, history: Sequence[Fact]) -> RenderableType:
    """One thing that is known, with everything about it."""
    details = Table.grid(padding=(0, 2))
    details.add_column(style="dim", no_wrap=True)
    details.add_column(overflow="fold")
    for name, value in {
        **_entry_fields(entry),
        **_source_fields(entry.source),
        "message": message or "",
    }.items():
        if value:
            details.add_row(name, Text(clean(value)))
    parts: list[RenderableType] = [Text(clean(entry.id), style="bold"), details]
    earlier = [fact for fact in history if fact != entry]
    if earlier:
        parts += [Text("\nWhat it said before", style="bold")]
        parts += [Text(f"  {entry_text(fact)}  {_source_line(fact)}") for fact in earlier]
    return Group(*parts)


def _entry_fields(entry: MemoryEntry) -> dict[str, str]:
    if isinstance(entry, Arc):
        return {
            "about": entry_text(entry),
            "mood": " → ".join(filter(None, (entry.mood_opened, entry.mood_closed))),
            "left open": "; ".join(entry.open_loops),
            "approach": ": ".join(filter(None, (entry.approach, entry.approach_context))),
            "from": utc_time(entry.began) if entry.began else "",
            "until": f"{utc_time(entry.ended)} UTC" if entry.ended else "",
        }
    quotes = entry.evidence if isinstance(entry, Rule) else (entry.quote,)
    return {
        "says": entry_text(entry),
        "kind": entry.category if isinstance(entry, Fact) else "rule",
        "quote": "\n".join(f"“{quote}”" for quote in quotes if quote),
        "sure": f"{entry.confidence:.0%}" if isinstance(entry, Fact) else "",
        "how": {"stated": "stated plainly", "model": "noticed by a model", "user": "put right by hand"}.get(
            entry.how, entry.how
        ),
        "learned": f"{utc_time(entry.learned)} UTC" if entry.learned else "",
        "said": quantity(entry.times, "time"),
    }


def _source_fields(source: MemorySource | None) -> dict[str, str]:
    if source is None:
        return {}
    return {
        "session": source.thread,
        "turn": source.run or "",
        "version": str(source.version) if source.version else "",
        "item": source.item or "",
        "see it": f"clew show {source.thread} --at {source.version}" if source.version else "",
    }


def correction_lines(before: MemoryEntry, after: MemoryEntry) -> RenderableType:
    """The result of a correction."""
    id_note = [Text(f"Its id is now {clean(after.id)}.")] if before.id != after.id else []
    return Group(
        Text(f"- {entry_text(before)}", style="red"), Text(f"+ {entry_text(after)}", style="green"), *id_note
    )


def forget_targets(targets: Iterable[ForgetTarget]) -> RenderableType:
    """The entries that would be forgotten."""
    grid = _empty_grid()
    for target in targets:
        grid.add_row(Text(clean(target.id)), Text(shorten(target.text, MOST_LETTERS)))
    return Group(Text("This would be forgotten:\n", style="bold"), grid)


def forget_result(result: ForgetResult, targets: Iterable[ForgetTarget]) -> RenderableType:
    """The entries that were forgotten, and those that stayed."""
    texts = {target.id: target.text for target in targets}
    lines = [Text(f"- {shorten(texts[id], MOST_LETTERS)}", style="red") for id in result.ids]
    warnings = [Text(f"{clean(id)} changed meanwhile, and stays.", style="yellow") for id in result.changed]
    undo_hint = [Text(f"Forgotten. To have it back: clew memory undo {result.version}")] if lines else []
    return Group(*lines, *warnings, *undo_hint)


def undo_text(version: int, current_version: int, reason: str) -> Text:
    """The change that was undone, and how to redo it."""
    outcome = UNDO_OUTCOMES.get(reason, "it is as it was")
    return Text(
        f"Change {version} is undone: {outcome}. To go back on that: clew memory undo {current_version}"
    )
