"""Views of memory: each entry with its id, its words and its source. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.render.values import clean, quantity, shorten, utc_time
from clew.runtime.memory.audit import MemoryAudit, MemoryCounts
from clew.runtime.memory.past import FactLineage
from clew.runtime.memory.undo import UndoPreview
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


END_WORDS = {
    "superseded": "until another took its place",
    "corrected": "until it was put right",
    "ended": "until it was said to be over",
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
    lineage: Mapping[str, FactLineage] = {}
    at: str | None = None


def overview_detail(page: MemoryOverview) -> RenderableType:
    """A page of what is known: rules, facts and arcs, each with where it comes from."""
    parts: list[RenderableType] = [_title(page)]
    if page.at is None:
        facts = [fact for fact in page.facts if not fact.ended]
        past_facts = [fact for fact in page.facts if fact.ended]
    else:
        facts, past_facts = list(page.facts), []
    for name, entries in (
        ("Rules", page.rules),
        ("Facts", facts),
        ("Facts that held once", past_facts),
        ("Earlier sessions", page.arcs),
    ):
        if entries:
            parts += [Text(f"\n{name}", style="bold"), _entry_grid(entries, page.lineage)]
    if len(parts) == 1:
        parts.append(Text(f"\nNothing is remembered {'here' if page.at is None else 'of that time'}."))
    if page.pending is not None:
        ids = ", ".join(target.id for target in page.pending.targets)
        parts.append(Text(f"\nWaits for a yes, to be forgotten: {clean(ids)}", style="yellow"))
    more = {kind: place for kind, place in page.next.items() if place is not None}
    lines = [f"\nMore {kind}: --kind {kind} --before {place}" for kind, place in more.items()]
    return Group(*parts, *(Text(line, style="dim") for line in lines))


def _title(page: MemoryOverview) -> Text:
    recall = "recall is on" if page.recall else "recall is off"
    owner = page.owner or page.thread
    at = "" if page.at is None else f" · as of {clean(page.at)}"
    return Text.assemble((clean(owner), "bold"), (f"  {recall} · version {page.version}{at}", "dim"))


def _entry_grid(entries: Iterable[MemoryEntry], lineage: Mapping[str, FactLineage]) -> Table:
    grid = _empty_grid()
    for entry in entries:
        is_past = isinstance(entry, Fact) and bool(entry.ended)
        grid.add_row(Text(clean(entry.id)), Text(entry_text(entry), style="strike" if is_past else ""))
        grid.add_row(Text(), Text(_source_line(entry), style="dim"))
        if isinstance(entry, Fact):
            for line in _time_lines(entry, lineage.get(entry.id)):
                grid.add_row(Text(), Text(line, style="dim"))
    return grid


def _time_lines(fact: Fact, lineage: FactLineage | None) -> list[str]:
    """The period in which a fact held, if that is over, what it replaced, and what replaced it."""
    lines = [f"held {held_text(fact)}"] if fact.ended else []
    if lineage is None:
        return lines
    lines += [f"replaced: {entry_text(other)}" for other in lineage.replaced]
    return lines + (
        [f"replaced by: {entry_text(lineage.replacement)}"] if lineage.replacement is not None else []
    )


def held_text(fact: Fact) -> str:
    """The period in which a fact holds or held, and how it ended."""
    began = utc_time(fact.began)[:10] if fact.began else "…"
    if not fact.ended:
        return f"since {began}"
    return f"from {began} to {utc_time(fact.ended)[:10]}, {END_WORDS[fact.end or 'ended']}"


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


def entry_detail(
    entry: MemoryEntry, message: str | None, history: Sequence[Fact], lineage: FactLineage | None = None
) -> RenderableType:
    """One thing that is known, with everything about it."""
    details = Table.grid(padding=(0, 2))
    details.add_column(style="dim", no_wrap=True)
    details.add_column(overflow="fold")
    for name, value in {
        **_entry_fields(entry),
        **_source_fields(entry.source),
        "message": message or "",
        **_lineage_fields(lineage),
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
        "holds": held_text(entry) if isinstance(entry, Fact) else "",
    }


def _lineage_fields(lineage: FactLineage | None) -> dict[str, str]:
    if lineage is None:
        return {}
    replacement = lineage.replacement
    return {
        "replaced": "\n".join(f"{entry_text(fact)} ({fact.id})" for fact in lineage.replaced),
        "replaced by": "" if replacement is None else f"{entry_text(replacement)} ({replacement.id})",
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


def undo_lines(preview: UndoPreview, current_version: int) -> RenderableType:
    """The change that was undone, what that took back and brought back, and how to redo it."""
    outcome = UNDO_OUTCOMES.get(preview.reason, "it is as it was")
    redo = f"To go back on that: clew memory undo {current_version}"
    return Group(*undo_effects(preview), Text(f"Change {preview.version} is undone: {outcome}. {redo}"))


def undo_effects(preview: UndoPreview) -> list[Text]:
    """A line for each entry that an undo takes back, or brings back."""
    return [
        *(Text(f"- {entry_text(entry)}", style="red") for entry in preview.removes),
        *(Text(f"+ {entry_text(entry)}", style="green") for entry in preview.restores),
    ]


COUNT_LABELS = {
    "facts": "facts that hold",
    "past": "facts that held once",
    "superseded": "of these, superseded",
    "with_quote": "with a quote",
    "quote_found": "quote found in its turn",
    "source_found": "turn found",
    "by_hand": "corrected by hand, without a turn",
    "source_erased": "turn erased",
    "orphaned": "without a turn",
    "contradicted": "excluded by another",
}


def audit_report(audits: Sequence[MemoryAudit], counts: MemoryCounts) -> RenderableType:
    """The counts of an audit, and each problem with the fact that has it."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    for name, label in COUNT_LABELS.items():
        grid.add_row(str(getattr(counts, name)), label)
    problems = _empty_grid()
    for audit in audits:
        for finding in audit.findings:
            others = f" See {', '.join(finding.others)}." if finding.others else ""
            problems.add_row(clean(finding.fact), shorten(finding.text, MOST_LETTERS))
            problems.add_row("", Text(f"{finding.problem}{others}", style="yellow"))
            problems.add_row("", Text(clean(audit.owner or audit.thread), style="dim"))
    count = sum(len(audit.findings) for audit in audits)
    total = "1 memory" if len(audits) == 1 else f"{len(audits):,} memories"
    verdict = Text(f"{total} checked: {quantity(count, 'problem') if count else 'nothing is wrong'}.")
    parts: list[RenderableType] = [grid, Text()]
    parts += [problems, Text()] if count else []
    return Group(*parts, verdict)
