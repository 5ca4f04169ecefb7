"""Past facts of a memory, the periods that one can ask for, and which fact took the place of which."""

import re
from calendar import monthrange
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from clew.core.errors import InvalidArgument
from clew.core.values import Item
from clew.database.database import Database
from clew.runtime.memory.thread import MemoryThread, log_page, visible_items
from clew.runtime.memory.values import ARCS, FACTS, PAST, Arc, Fact, MemoryListing, arc_of, fact_of, slot_id

YEAR, MONTH, DAY = re.compile(r"\d{4}"), re.compile(r"\d{4}-\d{2}"), re.compile(r"\d{4}-\d{2}-\d{2}")
MILLISECOND = timedelta(milliseconds=1)
ITEMS_PER_SCAN = 200


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A time from its beginning up to, and without, its end. In milliseconds since 1970."""

    begin: int
    end: int


def period_of(at: str | int) -> Period:
    """The period that a year, a month, a day or a moment names: 2026, 2026-05, 2026-05-15, 2026-05-15T12:00.

    Without an offset the time is UTC. A number is a moment in milliseconds since 1970.

    Raises:
        InvalidArgument: It is none of these.
    """
    if isinstance(at, int):
        return Period(begin=at, end=at + 1)
    try:
        begin = datetime.fromisoformat(_full_date(at.strip()))
        begin = begin if begin.tzinfo is not None else begin.replace(tzinfo=UTC)
        return Period(begin=_milliseconds(begin), end=_milliseconds(begin + _length(at.strip(), begin)))
    except (ValueError, OverflowError):
        problem = f"{at!r} is no time. Give a year, a month, a day or a moment: 2026-05, 2026-05-15."
        raise InvalidArgument(problem=problem) from None


def _full_date(text: str) -> str:
    """The first day of a year or of a month; any other text as it is."""
    if YEAR.fullmatch(text):
        return f"{text}-01-01"
    return f"{text}-01" if MONTH.fullmatch(text) else text


def _length(text: str, begin: datetime) -> timedelta:
    if YEAR.fullmatch(text):
        return begin.replace(year=begin.year + 1) - begin
    if MONTH.fullmatch(text):
        return timedelta(days=monthrange(begin.year, begin.month)[1])
    return timedelta(days=1) if DAY.fullmatch(text) else MILLISECOND


def _milliseconds(time: datetime) -> int:
    return (time - datetime.fromtimestamp(0, UTC)) // MILLISECOND


def has_held_in(fact: Fact, period: Period) -> bool:
    """Return whether a fact held at some time of a period. One that was put right never did."""
    is_over = bool(fact.ended) and fact.ended <= max(period.begin, fact.began)
    return fact.end != "corrected" and fact.began < period.end and not is_over


def was_in(arc: Arc, period: Period) -> bool:
    """Return whether some of an episode was in a period."""
    return arc.began < period.end and arc.ended >= period.begin


async def read_facts_in_time(
    db: Database, thread: str, *, limit: int, before: int | None, period: Period | None
) -> MemoryListing:
    """A page of facts, those that hold and then past ones, or those of both that held in a period.

    A page that goes on among past facts begins at a negative number.
    """
    facts: list[Fact] = []
    position: int | None = None
    async for item in _fact_items(db, thread, before):
        fact = fact_of(item)
        if period is not None and not has_held_in(fact, period):
            continue
        if len(facts) == limit:
            return MemoryListing(facts=tuple(facts), next=position)
        facts.append(fact)
        position = item.place if item.log == FACTS else -item.place
    return MemoryListing(facts=tuple(facts))


async def read_arcs_in_time(
    db: Database, thread: str, *, limit: int, before: int | None, period: Period
) -> MemoryListing:
    """A page of the episodes of a period, the newest first."""
    arcs: list[Arc] = []
    position: int | None = None
    async for item in _items_of_log(db, thread, ARCS, before):
        arc = arc_of(item)
        if not was_in(arc, period):
            continue
        if len(arcs) == limit:
            return MemoryListing(arcs=tuple(arcs), next=position)
        arcs.append(arc)
        position = item.place
    return MemoryListing(arcs=tuple(arcs))


async def _fact_items(db: Database, thread: str, before: int | None) -> AsyncIterator[Item]:
    """The items of facts and then of past facts, the newest of each first."""
    if before is None or before > 0:
        async for item in _items_of_log(db, thread, FACTS, before):
            yield item
        before = None
    async for item in _items_of_log(db, thread, PAST, None if before is None else -before):
        yield item


async def _items_of_log(db: Database, thread: str, log: str, before: int | None) -> AsyncIterator[Item]:
    while True:
        items, before = await log_page(db, thread, log, limit=ITEMS_PER_SCAN, before=before)
        for item in items:
            yield item
        if before is None:
            return


async def visible_past_items(
    db: Database, id: str, snapshot: MemoryThread, slot_ids: Iterable[str]
) -> dict[str, Item]:
    """The items of the past facts of some facts, by the ids of the past ones, oldest first."""
    ids = tuple(dict.fromkeys(slot_ids))
    if snapshot.head is None or not ids:
        return {}
    thread = db.thread(id)
    items: dict[str, Item] = {}
    for item in await thread.items_by_id(ids):
        if item.log == PAST:
            window = await thread.items(
                after=item.place - 1, before=item.place + 1, at=snapshot.version, log=PAST, last=1
            )
            items |= {fact_of(visible).id: visible for visible in window}
    return items


class FactLineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The past facts that a fact took the place of, and the one that took its place."""

    replaced: tuple[Fact, ...] = ()
    replacement: Fact | None = None


async def read_lineage(
    db: Database, id: str, snapshot: MemoryThread, facts: Sequence[Fact]
) -> dict[str, FactLineage]:
    """The lineage of those of some facts that have one, by their ids. What was forgotten is not in it."""
    slot_ids = {slot_id(name) for fact in facts for name in (*fact.replaces, fact.replaced_by) if name}
    items = {
        **await visible_past_items(db, id, snapshot, slot_ids),
        **await visible_items(db, id, snapshot, slot_ids, FACTS),
    }
    relatives = {name: fact_of(item) for name, item in items.items()}
    lineages = {fact.id: _lineage_of(fact, relatives) for fact in facts}
    return {name: lineage for name, lineage in lineages.items() if lineage != FactLineage()}


def _lineage_of(fact: Fact, relatives: Mapping[str, Fact]) -> FactLineage:
    replacements = [relative for relative in relatives.values() if fact.id in relative.replaces]
    return FactLineage(
        replaced=tuple(relatives[name] for name in fact.replaces if name in relatives),
        replacement=replacements[0] if replacements else None,
    )
