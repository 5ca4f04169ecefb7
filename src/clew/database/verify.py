"""Checking a thread: the chain, the versions, the counters, and that the log folds to all that is cached."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

import msgspec

from clew.core.encoding import decode, encode
from clew.core.erasure.parts import ERASURE_LOG, Erasure, erasures_of, receipt_for
from clew.core.errors import ClewError, StoreDamaged
from clew.core.log import chain, places, reader
from clew.core.log.codec import content_of, envelope_of, item_of
from clew.core.log.rows import (
    AskAnchor,
    AskItems,
    AskThread,
    ChangesetRow,
    ChangesetRows,
    ItemRow,
    StoreRead,
    ThreadRow,
    ask,
)
from clew.core.ops import Document
from clew.core.ports import Reader
from clew.core.values import ItemQuery, LogSize, Scope, UnreadableItem

CHANGESETS_PER_BATCH = 256
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a thread: problems, and what was erased on purpose."""

    tenant: str
    thread: str
    version: int
    hash: str
    problems: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems


class _Verification(msgspec.Struct):
    """The state of a check under way."""

    hash: bytes
    version: int = 0
    state: Document | None = msgspec.field(default_factory=dict)
    visible: dict[str, list[int]] = msgspec.field(default_factory=dict)
    problems: list[str] = msgspec.field(default_factory=list)
    erased: list[str] = msgspec.field(default_factory=list)
    blanks: list[tuple[str, ItemRow | None, int]] = msgspec.field(default_factory=list)
    erasures: list[Erasure] = msgspec.field(default_factory=list)


async def verify_thread(store: Reader, scope: Scope, id: str) -> Verdict:
    """Check one thread from its first changeset to its head."""
    try:
        row = await store.read(scope, reader.read_thread(id))
    except StoreDamaged as error:
        return unreadable(scope.tenant, id, str(error))
    walk = _Verification(hash=chain.start_hash(chain.segments_of(row)[0], None, b""))
    try:
        await _check_thread(store, scope, row, walk)
    except (StoreDamaged, *DECODE_ERRORS) as error:
        walk.problems.append(f"something after version {walk.version} cannot be read: {error}")
    return Verdict(
        tenant=scope.tenant,
        thread=id,
        version=row.version,
        hash=row.hash.hex(),
        problems=tuple(walk.problems),
        erased=tuple(walk.erased),
    )


def unreadable(tenant: str, thread: str, problem: str) -> Verdict:
    """The verdict on a thread whose row cannot be read."""
    return Verdict(
        tenant=tenant, thread=thread, version=0, hash="", problems=(f"its row cannot be read: {problem}",)
    )


async def _check_thread(store: Reader, scope: Scope, row: ThreadRow, walk: _Verification) -> None:
    """Check every changeset of a thread, what was erased of it, and its head."""
    while walk.version < row.version:
        rows = await store.read(
            scope, reader.read_changeset_rows(row, walk.version, None, CHANGESETS_PER_BATCH)
        )
        if not rows:
            walk.problems.append(f"versions {walk.version + 1} to {row.version} are missing")
            break
        anchors = await store.read(scope, _read_anchors(row, walk.version, rows[-1].change.version))
        _check_rows(walk, row, rows, anchors)
    walk.erasures += await store.read(scope, _read_ancestor_erasures(row)) if walk.blanks else []
    _check_erased(walk)
    await _check_head(store, scope, row, walk)


def _check_erased(walk: _Verification) -> None:
    """Check that everything blank was erased under a receipt that the thread notes."""
    for name, item, version in walk.blanks:
        receipt = receipt_for(item, version, walk.erasures)
        walk.erased.append(name if receipt is None else f"{name} ({receipt})")
        if receipt is None:
            walk.problems.append(f"{name} was erased, and no receipt says so")


def _read_ancestor_erasures(row: ThreadRow) -> StoreRead[list[Erasure]]:
    """Read the erasures that the ancestors of a thread note, which may be later than the fork."""
    items: list[ItemRow] = []
    for key in {segment.key for segment in row.segments} - {row.key}:
        last = reader.END_OF_LOG
        items += yield from ask(AskItems(key, ERASURE_LOG, -1, last, last, last, backwards=False))
    return erasures_of(items)


def _check_rows(
    walk: _Verification,
    row: ThreadRow,
    rows: list[ChangesetRows],
    anchors: dict[int, bytes],
) -> None:
    """Check some changesets, and the states cached among them."""
    walk.hash, problems = reader.check_chain(row, rows, walk.hash, walk.version)
    walk.problems += problems
    walk.version = rows[-1].change.version
    for change, items in rows:
        if change.erased is not None:
            walk.blanks.append((f"the content of version {change.version}", None, change.version))
        for item in items:
            _check_item(walk, change, item)
        walk.erasures += erasures_of(items)
        walk.state = _fold_state(walk, change)
        state = anchors.get(change.version)
        if walk.state is None and state is not None and not walk.problems:
            walk.state = decode(state)
        if state is not None and walk.state is not None and state != encode(walk.state):
            walk.problems.append(f"the state cached at version {change.version} is not what the log folds to")
        if not walk.problems:
            _update_visible(walk, change, items)


def _update_visible(walk: _Verification, change: ChangesetRow, items: Sequence[ItemRow]) -> None:
    """Update what is visible by a changeset: its cuts come first, then its items."""
    for cut in envelope_of(change).cuts:
        visible_places = walk.visible.get(cut.log, [])
        del visible_places[bisect_left(visible_places, cut.first) : bisect_right(visible_places, cut.last)]
    for item in items:
        insort(walk.visible.setdefault(item.log, []), item.place)


def _check_item(walk: _Verification, change: ChangesetRow, item: ItemRow) -> None:
    name = f"item {item.place} of {item.log!r}"
    entry = item_of(item)
    if item.erased is not None:
        walk.blanks.append((name, item, item.version))
    elif isinstance(entry, UnreadableItem):
        walk.problems.append(f"{name} cannot be read: {entry.problem}")
    if item.time != change.time:
        walk.problems.append(f"{name} has another time than its changeset")


def _fold_state(walk: _Verification, change: ChangesetRow) -> Document | None:
    """The state after a changeset; None while it cannot be known."""
    if change.erased is not None:
        return None
    try:
        if walk.state is None and content_of(change).snapshot is None:
            return None
        return reader.fold_changeset(walk.state or {}, change)
    except (ClewError, *DECODE_ERRORS) as error:
        walk.problems.append(f"version {change.version} cannot be replayed: {error}")
        return None


async def _check_head(store: Reader, scope: Scope, row: ThreadRow, walk: _Verification) -> None:
    if walk.problems:
        return
    if chain.head_hash(row, row.version, walk.hash) != row.hash:
        walk.problems.append("the head does not follow from the last changeset")
    head = await store.read(scope, reader.read_head(row))
    if walk.state is not None and encode(head.state) != encode(walk.state):
        walk.problems.append("the stored state is not what the log folds to")
    for log, size in head.counters.logs.items():
        visible_places, beyond = await store.read(scope, _read_visible_places(row, log, size))
        if len(visible_places) != size.length:
            walk.problems.append(
                f"log {log!r} has {len(visible_places)} visible items, but the head says {size.length}"
            )
        elif visible_places != walk.visible.get(log, []):
            walk.problems.append(f"log {log!r} shows other items than its changesets left")
        if beyond and not await _has_moved(store, scope, row):
            walk.problems.append(f"log {log!r} goes on after the last changeset, so one is missing")


async def _has_moved(store: Reader, scope: Scope, row: ThreadRow) -> bool:
    """Return whether the thread was written to since its row was read."""
    now = await store.read(scope, ask(AskThread(row.id)))
    return now is None or now.version != row.version


def _read_anchors(row: ThreadRow, after: int, upto: int) -> StoreRead[dict[int, bytes]]:
    """The states cached at some versions."""
    anchors: dict[int, bytes] = {}
    for segment, start, end in reader.version_spans(row, upto):
        at = end
        while at > max(start, after):
            anchor = yield from ask(AskAnchor(segment.key, at))
            if anchor is None or anchor[0] <= max(start, after):
                break
            anchors[anchor[0]], at = anchor[1], anchor[0] - 1
    return anchors


def _read_visible_places(row: ThreadRow, log: str, size: LogSize) -> StoreRead[tuple[list[int], bool]]:
    """Read the places of a log's visible items, and whether it goes on after its end."""
    window = yield from reader.read_window(row, ItemQuery(log=log))
    end, last = places.end_of(size.end), reader.END_OF_LOG
    beyond = yield from ask(AskItems(row.key, log, end, last, last, 1, backwards=False))
    return sorted(entry.place for entry in [*window, *window.broken]), bool(beyond)
