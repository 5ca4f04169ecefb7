"""How what is remembered looks: each with its id, its words and its source. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.render.values import clean, short, some, when
from clew.runtime.memory.values import Arc, Fact, Forgotten, Pending, Rule, Source, Target

Entry = Fact | Arc | Rule
WIDE = 400
UNDONE = {
    "Learn": "what was learned is not known any more",
    "CloseEpisode": "what that session left is not known any more",
    "Correct": "what was corrected is as it was",
    "Forget": "what was forgotten is known again",
    "SetRecall": "recall is as it was",
    "Undo": "what had been taken back is there again",
}


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a memory. ``next`` is where the next page of a list begins, if it has one."""

    owner: str | None
    thread: str
    version: int
    recall: bool
    pending: Pending | None
    rules: Sequence[Rule]
    facts: Sequence[Fact]
    arcs: Sequence[Arc]
    next: Mapping[str, int | None]


def known(page: Known) -> RenderableType:
    """A page of what is known: rules, facts and arcs, each with where it comes from."""
    parts: list[RenderableType] = [_title(page)]
    for name, entries in (("Rules", page.rules), ("Facts", page.facts), ("Earlier sessions", page.arcs)):
        if entries:
            parts += [Text(f"\n{name}", style="bold"), _entries(entries)]
    if len(parts) == 1:
        parts.append(Text("\nNothing is remembered here."))
    if page.pending is not None:
        waiting = ", ".join(target.id for target in page.pending.targets)
        parts.append(Text(f"\nWaits for a yes, to be forgotten: {clean(waiting)}", style="yellow"))
    more = {kind: place for kind, place in page.next.items() if place is not None}
    lines = [f"\nMore {kind}: --kind {kind} --before {place}" for kind, place in more.items()]
    return Group(*parts, *(Text(line, style="dim") for line in lines))


def _title(page: Known) -> Text:
    recall = "recall is on" if page.recall else "recall is off"
    whose = page.owner or page.thread
    return Text.assemble((clean(whose), "bold"), (f"  {recall} · version {page.version}", "dim"))


def _entries(entries: Iterable[Entry]) -> Table:
    shown = _grid()
    for entry in entries:
        shown.add_row(Text(clean(entry.id)), Text(says(entry)))
        shown.add_row(Text(), Text(_source_line(entry), style="dim"))
    return shown


def _grid() -> Table:
    shown = Table.grid(padding=(0, 2))
    shown.add_column(no_wrap=True, style="cyan")
    shown.add_column(overflow="fold")
    return shown


def says(entry: Entry) -> str:
    """What is known, in a line."""
    if isinstance(entry, Rule):
        return clean(entry.text)
    if isinstance(entry, Arc):
        themes = f" ({', '.join(entry.themes)})" if entry.themes else ""
        return clean(f"{entry.summary}{themes}")
    return clean(f"{entry.subject} {entry.worded} {entry.object}")


def _source_line(entry: Entry) -> str:
    """The words that something comes from, and where they stand."""
    quote = entry.evidence[-1] if isinstance(entry, Rule) and entry.evidence else ""
    quote = entry.quote if isinstance(entry, Fact) else quote
    parts = [f"“{short(quote, WIDE)}”"] if quote else []
    return " · ".join([*parts, _place(entry), *_told(entry)])


def _place(entry: Entry) -> str:
    if entry.source is None:
        return "told by a correction" if not isinstance(entry, Arc) and entry.how == "user" else "no source"
    at = f" at version {entry.source.version}" if entry.source.version else ""
    return f"session {clean(entry.source.thread)}{at}"


def _told(entry: Entry) -> list[str]:
    """When it was learned, and how often it was said if more than once."""
    if isinstance(entry, Arc):
        return [when(entry.ended)[:10]] if entry.ended else []
    again = [f"said {entry.times} times"] if entry.times > 1 else []
    return [*([when(entry.learned)[:10]] if entry.learned else []), *again]


def entry(found: Entry, said: str | None, history: Sequence[Fact]) -> RenderableType:
    """One thing that is known, with everything about it."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in {**_about(found), **_where(found.source), "message": said or ""}.items():
        if value:
            shown.add_row(name, Text(clean(value)))
    parts: list[RenderableType] = [Text(clean(found.id), style="bold"), shown]
    earlier = [fact for fact in history if fact != found]
    if earlier:
        parts += [Text("\nWhat it said before", style="bold")]
        parts += [Text(f"  {says(fact)}  {_source_line(fact)}") for fact in earlier]
    return Group(*parts)


def _about(found: Entry) -> dict[str, str]:
    if isinstance(found, Arc):
        return {
            "about": says(found),
            "mood": " → ".join(filter(None, (found.mood_opened, found.mood_closed))),
            "left open": "; ".join(found.open_loops),
            "approach": found.approach,
            "from": when(found.began) if found.began else "",
            "until": f"{when(found.ended)} UTC" if found.ended else "",
        }
    said = found.evidence if isinstance(found, Rule) else (found.quote,)
    return {
        "says": says(found),
        "kind": found.category if isinstance(found, Fact) else "rule",
        "quote": "\n".join(f"“{quote}”" for quote in said if quote),
        "sure": f"{found.confidence:.0%}" if isinstance(found, Fact) else "",
        "how": {"stated": "stated plainly", "model": "noticed by a model", "user": "put right by hand"}.get(
            found.how, found.how
        ),
        "learned": f"{when(found.learned)} UTC" if found.learned else "",
        "said": some(found.times, "time"),
    }


def _where(source: Source | None) -> dict[str, str]:
    if source is None:
        return {}
    return {
        "session": source.thread,
        "turn": source.run or "",
        "version": str(source.version) if source.version else "",
        "item": source.item or "",
        "see it": f"clew show {source.thread} --at {source.version}" if source.version else "",
    }


def corrected(before: Entry, after: Entry) -> RenderableType:
    """What was put right."""
    moved = [Text(f"Its id is now {clean(after.id)}.")] if before.id != after.id else []
    return Group(Text(f"- {says(before)}", style="red"), Text(f"+ {says(after)}", style="green"), *moved)


def targets(found: Iterable[Target]) -> RenderableType:
    """What would be forgotten."""
    shown = _grid()
    for target in found:
        shown.add_row(Text(clean(target.id)), Text(short(target.text, WIDE)))
    return Group(Text("This would be forgotten:\n", style="bold"), shown)


def forgotten(done: Forgotten, shown: Iterable[Target]) -> RenderableType:
    """What was forgotten, and what stayed."""
    texts = {target.id: target.text for target in shown}
    gone = [Text(f"- {short(texts[id], WIDE)}", style="red") for id in done.ids]
    stayed = [Text(f"{clean(id)} changed meanwhile, and stays.", style="yellow") for id in done.changed]
    way_back = [Text(f"Forgotten. To have it back: clew memory undo {done.version}")] if gone else []
    return Group(*gone, *stayed, *way_back)


def undone(version: int, now: int, what: str) -> Text:
    """What was taken back, and how to take that back in turn."""
    effect = UNDONE.get(what, "it is as it was")
    return Text(f"Change {version} is undone: {effect}. To go back on that: clew memory undo {now}")
