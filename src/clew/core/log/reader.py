"""Reading of threads: heads, windows of items, changesets. Generators that ask a store for rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import msgspec

from clew.core.encoding import decode
from clew.core.errors import InvalidArgument, ThreadNotFound, VersionNotFound
from clew.core.log import chain, places
from clew.core.log.codec import PlaceRange, changeset_of, content_of, envelope_of, item_of
from clew.core.log.rows import (
    AskAnchor,
    AskChangesets,
    AskCuts,
    AskCutsAtPlaces,
    AskItems,
    AskItemsAtPlaces,
    AskItemsById,
    AskThread,
    AskThreads,
    ChangesetRow,
    ChangesetRows,
    CutRow,
    ItemRow,
    Segment,
    StoreRead,
    ThreadKey,
    ThreadRow,
    UnreadableThread,
    ask,
)
from clew.core.ops import Document, apply_ops
from clew.core.values import (
    ERASED_KEY,
    Changeset,
    Counters,
    Head,
    Item,
    ItemQuery,
    Parent,
    UnreadableItem,
    Window,
)

T = TypeVar("T")
ROWS_PER_QUESTION = 256
"""Rows that one question to a store gives at most."""
PLACES_PER_QUESTION = 64
"""Places that one question to a store looks up at most."""
END_OF_LOG = 1 << 32


def read_thread(id: str) -> StoreRead[ThreadRow]:
    """The row of a thread that must be there."""
    row = yield from ask(AskThread(id))
    if row is None:
        raise ThreadNotFound(thread=id)
    return row


def read_threads(
    owner: str | None, pick: Callable[[ThreadRow | UnreadableThread], T | None]
) -> StoreRead[list[T]]:
    """Read every thread of an owner, or of all, the newest first, and give what is picked of each.

    They are read page by page, and nothing else of them is kept: there may be many.
    """
    parts: list[T] = []
    before: tuple[int, str] | None = None
    while rows := (yield from ask(AskThreads(owner, before, ROWS_PER_QUESTION))):
        parts += [part for row in rows if (part := pick(row)) is not None]
        before = (rows[-1].created, rows[-1].id)
    return parts


def read_head(thread: ThreadRow, at: int | None = None) -> StoreRead[Head]:
    """A thread at its newest version or at an earlier one."""
    version = check_version(thread, at)
    state = yield from read_state(thread, version)
    if version < thread.version:
        facts = yield from read_version_facts(thread, version)
        thread = msgspec.structs.replace(
            thread, version=version, hash=facts.hash, counters=facts.counters, updated=facts.time
        )
    return head_of(thread, state)


def head_of(thread: ThreadRow, state: Document) -> Head:
    """A thread at the version that its row says, with its state then."""
    return Head(
        id=thread.id,
        owner=thread.owner,
        version=thread.version,
        state=state,
        counters=thread.counters,
        hash=thread.hash,
        created=thread.created,
        updated=thread.updated,
        parent=parent_of(thread),
    )


def parent_of(thread: ThreadRow) -> Parent | None:
    """The thread and version that a thread was forked from, if it was."""
    if not thread.segments:
        return None
    return Parent(thread=thread.segments[-1].id, version=thread.segments[-1].upto)


def check_version(thread: ThreadRow, at: int | None) -> int:
    """The version asked for, if the thread has it."""
    if at is None:
        return thread.version
    if at < 0 or at > thread.version:
        raise VersionNotFound(thread=thread.id, version=at, head=thread.version)
    return at


class VersionSpan(NamedTuple):
    """The versions of a thread that one of its segments holds: those with ``after < version <= upto``."""

    segment: Segment
    after: int
    upto: int


def version_spans(thread: ThreadRow, version: int) -> list[VersionSpan]:
    """The spans that make up a version, the root's first."""
    spans, after = [], 0
    for segment in chain.segments_of(thread):
        upto = min(segment.upto, version)
        spans.append(VersionSpan(segment, after, upto))
        after = segment.upto
        if version <= segment.upto:
            break
    return spans


def upto_by_key(thread: ThreadRow, version: int) -> dict[ThreadKey, int]:
    """The version up to which each ancestor's rows are part of a version, by key; the youngest first."""
    uptos: dict[ThreadKey, int] = {}
    for segment, _, upto in reversed(version_spans(thread, version)):
        uptos[segment.key] = max(upto, uptos.get(segment.key, 0))
    return uptos


class VersionFacts(NamedTuple):
    """The hash, the counters and the time of a version.

    The hash is that of the changeset, which a fork at this version starts from.
    """

    hash: bytes
    counters: Counters
    time: int


def read_version_facts(thread: ThreadRow, version: int) -> StoreRead[VersionFacts]:
    """The facts of a version, without its state."""
    segment, after, _ = version_spans(thread, version)[-1]
    if version == thread.version and (not thread.segments or version > thread.segments[-1].upto):
        return VersionFacts(thread.hash, thread.counters, thread.updated)
    if version > after:
        rows = yield from ask(AskChangesets(segment.key, version - 1, version, 1))
        return VersionFacts(rows[0].hash, rows[0].counters, rows[0].time)
    return VersionFacts(chain.start_hash(segment, None, b""), Counters(), thread.created)


def read_state(thread: ThreadRow, version: int) -> StoreRead[Document]:
    """The state at a version: the nearest anchor and the patches after it."""
    state: Document = {}
    if version == thread.version and not (thread.counters.weight or thread.counters.size):
        return state  # no changeset says anything about it, so none has to be read
    later: list[VersionSpan] = []
    for span in reversed(version_spans(thread, version)):
        anchor = yield from ask(AskAnchor(span.segment.key, span.upto))
        if anchor is not None and anchor[0] > span.after:
            state = decode(anchor[1])
            later.append(span._replace(after=anchor[0]))
            break
        later.append(span)
    for span in reversed(later):
        state = yield from _fold_span(state, span)
    return state


def _fold_span(state: Document, span: VersionSpan) -> StoreRead[Document]:
    after = span.after
    while after < span.upto:
        rows = yield from ask(AskChangesets(span.segment.key, after, span.upto, ROWS_PER_QUESTION))
        if not rows:
            break
        for row in rows:
            state = fold_changeset(state, row)
        after = rows[-1].version
    return state


def fold_changeset(state: Document, row: ChangesetRow) -> Document:
    """The state after one more changeset; after an erased one it is not known until it is replaced."""
    if row.erased is not None:
        return {ERASED_KEY: True}
    if row.content is None:
        return state
    content = content_of(row)
    if ERASED_KEY in state and content.snapshot is None:
        return state
    return apply_ops(state if content.snapshot is None else content.snapshot, content.patches)


# Windows.


class RowSource(msgspec.Struct, frozen=True):
    """A source of a log's rows: those of an ancestor up to a version, which end before a place."""

    key: ThreadKey
    upto: int
    below: int


def read_window(thread: ThreadRow, query: ItemQuery) -> StoreRead[Window]:
    """The items asked for, oldest first. Unreadable ones are reported and do not count."""
    version = check_version(thread, query.at)
    remaining, backwards = _direction(query)
    above = -1 if query.after is None else max(query.after, -1)
    below = END_OF_LOG if query.before is None else min(query.before, END_OF_LOG)
    sources, has_cuts = yield from _row_sources(thread, version, query.log)
    entries: list[Item | UnreadableItem] = []
    while above < below - 1 and (remaining is None or remaining > 0):
        limit = ROWS_PER_QUESTION if remaining is None else min(remaining, ROWS_PER_QUESTION)
        rows = yield from _read_item_rows(sources, query.log, above, below, limit, backwards=backwards)
        if not rows:
            break
        # The head counts the cuts of each log, so one that was never cut costs no question.
        cuts = (yield from _read_cuts(sources, query.log, rows)) if has_cuts and not query.whole else []
        visible_rows = rows
        if query.whole:
            visible_rows = [row for row in rows if not places.is_inserted(row.place)]
        elif cuts:
            visible_rows = [row for row in rows if not is_cut(row, cuts)]
        batch = [item_of(row) for row in visible_rows]
        entries += batch
        if remaining is not None:
            remaining -= len([entry for entry in batch if isinstance(entry, Item)])
        end = _next_bound(rows[-1].place, cuts, backwards=backwards)
        above, below = (above, end) if backwards else (end, below)
    if backwards:
        entries.reverse()
    items = [entry for entry in entries if isinstance(entry, Item)]
    return Window(items, [entry for entry in entries if isinstance(entry, UnreadableItem)], version)


def _direction(query: ItemQuery) -> tuple[int | None, bool]:
    """The number of items wanted, and whether from the end backwards."""
    if query.last is not None and query.first is not None:
        raise InvalidArgument(problem="Ask for the last or for the first items, not for both.")
    if (query.last or 0) < 0 or (query.first or 0) < 0:
        raise InvalidArgument(problem="The number of items to read cannot be negative.")
    return (query.first, False) if query.first is not None else (query.last, True)


def _row_sources(thread: ThreadRow, version: int, log: str) -> StoreRead[tuple[list[RowSource], bool]]:
    """Find the sources of a log's rows at a version, and whether any of it was ever cut.

    Each source ends where the log ended then, so what was appended later costs nothing.
    """
    sources = []
    has_cuts = False
    for key, upto in upto_by_key(thread, version).items():
        counters = thread.counters
        if key != thread.key or upto != thread.version:
            rows = yield from ask(AskChangesets(key, upto - 1, upto, 1))
            counters = rows[0].counters if rows else Counters()
        size = counters.logs.get(log)
        if size is not None:
            has_cuts = has_cuts or size.cuts > 0
            sources.append(RowSource(key, upto, places.end_of(size.end) + 1))
    return sources, has_cuts


def _read_item_rows(
    sources: list[RowSource], log: str, above: int, below: int, limit: int, *, backwards: bool
) -> StoreRead[list[ItemRow]]:
    """The next rows of a log across all ancestors, in reading order."""
    rows: list[ItemRow] = []
    for source in sources:
        end = min(below, source.below)
        if above < end - 1:
            rows += yield from ask(AskItems(source.key, log, above, end, source.upto, limit, backwards))
    if len(sources) > 1:
        rows.sort(key=lambda row: row.place, reverse=backwards)
    return rows[:limit]


def _read_cuts(sources: list[RowSource], log: str, rows: list[ItemRow]) -> StoreRead[list[CutRow]]:
    first, last = sorted((rows[0].place, rows[-1].place))
    cuts: list[CutRow] = []
    for source in sources:
        cuts += yield from ask(AskCuts(source.key, log, first, last, source.upto))
    return cuts


def is_cut(row: ItemRow, cuts: Iterable[CutRow]) -> bool:
    """Return whether an item's visible life was ended by one of the cuts."""
    return any(cut.first <= row.place <= cut.last and row.version < cut.version for cut in cuts)


def _next_bound(place: int, cuts: Iterable[CutRow], *, backwards: bool) -> int:
    """The place to read on from: behind the last row, and behind any cut that it lies in."""
    enclosing = [cut for cut in cuts if cut.first <= place <= cut.last]
    if backwards:
        return min([place, *(cut.first for cut in enclosing)])
    return max([place, *(cut.last for cut in enclosing)])


def read_items_at(thread: ThreadRow, log: str, places_of_items: Sequence[int]) -> StoreRead[list[Item]]:
    """The visible items at some places of a log, in no order. Unreadable ones are left out."""
    sources, has_cuts = yield from _row_sources(thread, thread.version, log)
    items: list[Item] = []
    for start in range(0, len(places_of_items), PLACES_PER_QUESTION):
        batch = places_of_items[start : start + PLACES_PER_QUESTION]
        rows = yield from _read_rows_at(sources, log, batch)
        cuts = (yield from _read_cuts_at(sources, log, rows)) if has_cuts else []
        entries = [item_of(row) for row in rows if not is_cut(row, cuts)]
        items += [entry for entry in entries if isinstance(entry, Item)]
    return items


def _read_rows_at(sources: list[RowSource], log: str, batch: Sequence[int]) -> StoreRead[list[ItemRow]]:
    """The rows at some places; of several at one, that of the youngest source."""
    rows: dict[int, ItemRow] = {}
    for source in sources:
        within = tuple(place for place in batch if place < source.below)
        if within:
            for row in (yield from ask(AskItemsAtPlaces(source.key, log, within, source.upto))):
                rows.setdefault(row.place, row)
    return list(rows.values())


def _read_cuts_at(sources: list[RowSource], log: str, rows: list[ItemRow]) -> StoreRead[list[CutRow]]:
    """The cuts that touch some rows. Between these there may be very many that touch none."""
    row_places = tuple(row.place for row in rows)
    cuts: list[CutRow] = []
    for source in sources if rows else ():
        cuts += yield from ask(AskCutsAtPlaces(source.key, log, row_places, source.upto))
    return cuts


def read_items_by_id(thread: ThreadRow, ids: tuple[str, ...]) -> StoreRead[list[Item]]:
    """Every item that ever had one of these ids on the way to the head, visible or not."""
    items: list[Item] = []
    for key, upto in upto_by_key(thread, thread.version).items():
        rows = yield from ask(AskItemsById(key, ids, upto))
        items += [entry for entry in map(item_of, rows) if isinstance(entry, Item)]
    return sorted(items, key=lambda item: (item.log, item.place))


# Changesets.


def read_changesets(
    thread: ThreadRow, after: int, upto: int | None, limit: int
) -> StoreRead[list[Changeset]]:
    """Changesets in order of version, with their items; at most ``limit`` of them."""
    rows = yield from read_changeset_rows(thread, after, upto, limit)
    return [
        changeset_of(
            change,
            tuple(e for e in (item_of(i) for i in in_append_order(change, items)) if isinstance(e, Item)),
        )
        for change, items in rows
    ]


def in_append_order(change: ChangesetRow, items: Sequence[ItemRow]) -> list[ItemRow]:
    """The items of a changeset in the order in which the caller gave them."""
    ranges = envelope_of(change).items
    if len(ranges) < 2:  # one run of places is in the order it came in
        return list(items)
    order = {
        (run.log, places.last_place(run.first, n + 1)): i
        for i, run in enumerate(ranges)
        for n in range(run.count)
    }
    return sorted(items, key=lambda item: order.get((item.log, item.place), 0))


def read_changeset_rows(
    thread: ThreadRow, after: int, upto: int | None, limit: int
) -> StoreRead[list[ChangesetRows]]:
    """Rows of changesets, each with its rows of items, in order of version."""
    last = thread.version if upto is None else min(check_version(thread, upto), thread.version)
    pairs: list[ChangesetRows] = []
    for segment, start, end in version_spans(thread, last):
        low = max(start, after)
        if low >= end or len(pairs) >= limit:
            continue
        rows = yield from ask(AskChangesets(segment.key, low, end, limit - len(pairs)))
        if not rows:
            continue
        items = yield from _read_items_of(segment.key, rows)
        pairs += list(_pair_rows(rows, items))
    return pairs


def _read_items_of(key: ThreadKey, rows: list[ChangesetRow]) -> StoreRead[list[ItemRow]]:
    """Read the items of some changesets, those with adjacent places in one go."""
    items: list[ItemRow] = []
    for log, first, last in _merge_ranges(run for row in rows for run in envelope_of(row).items):
        above, upto = first - 1, rows[-1].version
        while above < last:
            batch = yield from ask(
                AskItems(key, log, above, last + 1, upto, ROWS_PER_QUESTION, backwards=False, with_salts=True)
            )
            items += batch
            above = batch[-1].place if len(batch) == ROWS_PER_QUESTION else last
    return items


def _merge_ranges(ranges: Iterable[PlaceRange]) -> list[tuple[str, int, int]]:
    """Runs of items joined where one follows another: log, first and last place."""
    merged_ranges: list[tuple[str, int, int]] = []
    for log, first, last in sorted(
        (run.log, run.first, places.last_place(run.first, run.count)) for run in ranges
    ):
        if merged_ranges and merged_ranges[-1][0] == log and first <= places.next_place(merged_ranges[-1][2]):
            merged_ranges[-1] = (log, merged_ranges[-1][1], max(last, merged_ranges[-1][2]))
        else:
            merged_ranges.append((log, first, last))
    return merged_ranges


def _pair_rows(rows: list[ChangesetRow], items: list[ItemRow]) -> Iterator[ChangesetRows]:
    by_version: dict[int, list[ItemRow]] = {}
    for item in sorted(items, key=lambda item: (item.log, item.place)):
        by_version.setdefault(item.version, []).append(item)
    for row in rows:
        yield ChangesetRows(row, by_version.get(row.version, []))


# Checking.


def check_chain(
    thread: ThreadRow, rows: Sequence[ChangesetRows], previous: bytes, version: int
) -> tuple[bytes, list[str]]:
    """The hash after some changesets and what is wrong with them; ``version`` is the one before the first."""
    problems = []
    starts = {before.upto: (segment, before) for before, segment in pairwise(chain.segments_of(thread))}
    for change, items in rows:
        if change.version != version + 1:
            problems.append(f"version {version + 1} is missing")
        version = change.version
        # The first changeset of a fork follows a hash that contains the one it was forked at.
        if version - 1 in starts:
            segment, before = starts[version - 1]
            previous = chain.start_hash(segment, before, previous)
        hash_of_rows = chain.changeset_hash(previous, change, items)
        if hash_of_rows != change.hash:
            problems.append(f"version {version} was altered, or is in another order")
        previous = change.hash
    return previous, problems
