"""Checking a thread: the chain, the versions, the counters, and that the log folds to the stored head."""

import msgspec

from holdfast.core import chain, places, reading
from holdfast.core.encoding import encode
from holdfast.core.errors import HoldfastError, StoreDamaged
from holdfast.core.ops import Document
from holdfast.core.ports import Store
from holdfast.core.rows import Asking, AskItems, ChangesetRow, ItemRow, ThreadRow, ask
from holdfast.core.stored import item_of
from holdfast.core.values import Broken, ItemQuery, LogSize, Scope

BATCH = 256
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What checking a thread found: problems, and what was erased on purpose."""

    thread: str
    version: int
    hash: str
    problems: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


class _Walk(msgspec.Struct):
    """How far a check has come."""

    hash: bytes
    version: int = 0
    state: Document | None = msgspec.field(default_factory=dict)
    problems: list[str] = msgspec.field(default_factory=list)
    erased: list[str] = msgspec.field(default_factory=list)


async def verify_thread(store: Store, scope: Scope, id: str) -> Verdict:
    """Check one thread from its first changeset to its head."""
    row = await store.read(scope, reading.read_thread(id))
    walk = _Walk(hash=chain.start_of(chain.segments_of(row)[0], None, b""))
    try:
        await _walked(store, scope, row, walk)
    except (StoreDamaged, *UNREADABLE) as error:
        walk.problems.append(f"something after version {walk.version} cannot be read: {error}")
    return Verdict(
        thread=id,
        version=row.version,
        hash=row.hash.hex(),
        problems=tuple(walk.problems),
        erased=tuple(walk.erased),
    )


async def _walked(store: Store, scope: Scope, row: ThreadRow, walk: _Walk) -> None:
    """Take the whole thread into account."""
    while walk.version < row.version:
        rows = await store.read(scope, reading.read_log(row, walk.version, None, BATCH))
        if not rows:
            walk.problems.append(f"versions {walk.version + 1} to {row.version} are missing")
            break
        _check(walk, row, rows)
    await _check_head(store, scope, row, walk)


def _check(walk: _Walk, row: ThreadRow, rows: list[tuple[ChangesetRow, list[ItemRow]]]) -> None:
    """Take some changesets into account."""
    walk.hash, problems = reading.check_log(row, rows, walk.hash, walk.version)
    walk.problems += problems
    walk.version = rows[-1][0].version
    for change, items in rows:
        if change.erased is not None:
            walk.erased.append(f"the content of version {change.version}")
        for item in items:
            _check_item(walk, change, item)
        walk.state = _folded(walk, change)


def _check_item(walk: _Walk, change: ChangesetRow, item: ItemRow) -> None:
    name = f"item {item.place} of {item.log!r}"
    entry = item_of(item)
    if item.erased is not None:
        walk.erased.append(name)
    elif isinstance(entry, Broken):
        walk.problems.append(f"{name} cannot be read: {entry.problem}")
    if item.time != change.time:
        walk.problems.append(f"{name} has another time than its changeset")


def _folded(walk: _Walk, change: ChangesetRow) -> Document | None:
    """The state after a changeset; None once it can no longer be known."""
    if walk.state is None or change.erased is not None:
        return None
    try:
        return reading.fold(walk.state, change)
    except (HoldfastError, *UNREADABLE) as error:
        walk.problems.append(f"version {change.version} cannot be replayed: {error}")
        return None


async def _check_head(store: Store, scope: Scope, row: ThreadRow, walk: _Walk) -> None:
    if walk.problems:
        return
    if _end_hash(row, walk) != row.hash:
        walk.problems.append("the head does not stand on the last changeset")
    head = await store.read(scope, reading.read_head(row))
    if walk.state is not None and encode(head.state) != encode(walk.state):
        walk.problems.append("the stored state is not what the log folds to")
    for log, size in head.counters.logs.items():
        length, beyond = await store.read(scope, _counted(row, log, size))
        if length != size.length:
            walk.problems.append(f"log {log!r} has {length} visible items, but the head says {size.length}")
        if beyond:
            walk.problems.append(f"log {log!r} goes on after the last changeset, so one is missing")


def _end_hash(row: ThreadRow, walk: _Walk) -> bytes:
    """The hash a head must have: of its last changeset, or of the fork if it has none of its own."""
    segments = chain.segments_of(row)
    if len(segments) > 1 and segments[-2].upto == row.version:
        return chain.start_of(segments[-1], segments[-2], walk.hash)
    return walk.hash


def _counted(row: ThreadRow, log: str, size: LogSize) -> Asking[tuple[int, bool]]:
    """How many items of a log are visible, and whether it goes on after its end."""
    window = yield from reading.read_window(row, ItemQuery(log=log))
    end, last = places.at(size.end + 1) - 1, reading.END_OF_LOG
    beyond = yield from ask(AskItems(row.key, log, end, last, last, 1, backwards=False))
    return len(window) + len(window.broken), bool(beyond)
