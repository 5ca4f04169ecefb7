"""Starting a turn: the thread is taken, or somebody else's turn is respected."""

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from holdfast.core import places
from holdfast.core.encoding import JSON, encode
from holdfast.core.errors import (
    KeyReused,
    RecordNotFound,
    RevisionConflict,
    ThreadExists,
    ThreadNotFound,
    TurnBusy,
    TurnSuspended,
    VersionConflict,
)
from holdfast.core.ops import Document
from holdfast.core.values import (
    HISTORY,
    Absent,
    AppendTo,
    Changeset,
    Committed,
    Drop,
    Exact,
    Expect,
    Head,
    Item,
    LogSize,
    Put,
    Record,
    Write,
)
from holdfast.runtime.beginning import Inbound, inbound, spent, standing
from holdfast.runtime.draft import Draft, ReadLog, sizes_after
from holdfast.runtime.episodes import Episode, active_episode, saved, touched
from holdfast.runtime.events import USER_MESSAGE
from holdfast.runtime.holders import is_gone, this_process
from holdfast.runtime.inputs import MESSAGE
from holdfast.runtime.journal import ThreadJournal, ended
from holdfast.runtime.outputs import Done, done_before
from holdfast.runtime.runs import (
    DONE,
    INTERRUPTED,
    KIND,
    RUNNING,
    WAITING,
    Ending,
    Run,
    meta_of,
    record_of,
    run_of,
)
from holdfast.runtime.settings import Settings
from holdfast.runtime.suspension import doubtful, suspended_calls
from holdfast.runtime.taken import was_taken_back
from holdfast.threads.database import Database
from holdfast.threads.thread import Thread

LOOK_AGAIN = 1.0
"""Seconds after which a waiting turn looks whether the process before it is gone."""

Busy: TypeAlias = Literal["wait", "refuse", "queue"]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that somebody wants."""

    thread: str
    inputs: dict[str, JSON]
    items: tuple[Item, ...]
    user: str | None = None
    key: str | None = None
    busy: Busy = "wait"
    replace: Document | None = None
    origin: str = "user"
    parent: str | None = None

    def print(self) -> str:
        """What two requests with one key must have in common."""
        said = [self.thread, self.inputs, self.user, self.replace]
        return hashlib.sha256(encode(said)).hexdigest()


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has the thread, with its first changeset on disk."""

    draft: Draft
    journal: ThreadJournal
    change: Changeset | None


class Interrupted(msgspec.Struct, frozen=True):
    """The turn was begun before, and nobody is at it any more: it goes on where it stopped."""

    run: str


async def start(
    db: Database, asked: Asked, settings: Settings, leave: Drop | None = None
) -> Started | Done | Interrupted:
    """Take the thread and commit what comes in; or what became of the turn, if it was made before.

    ``leave`` takes a queued turn out of the queue in the same commit.

    Raises:
        TurnBusy: Another turn is running, and the caller does not want to wait here.
        TurnSuspended: The thread waits for a decision.
        KeyReused: The key was used for another turn.
        NewerSchema: A newer program wrote the thread's state.
    """
    thread = db.thread(asked.thread)
    while True:
        if asked.key is not None and (before := await _made_before(db, asked, settings)) is not None:
            return before
        head = await _head(thread)
        try:
            release = await _released(db, thread, head, asked, settings)
        except _Wait:
            continue
        run = _run(asked, settings)
        items = await _unknown(thread, head, asked.items)
        first = inbound(
            head,
            run,
            [msgspec.structs.replace(item, run=run.id) for item in items],
            inputs=kept_inputs(asked),
            replace=asked.replace,
            schema=settings.schema,
            upgrades=settings.upgrades,
        )
        try:
            writes = release if leave is None else [*release, leave]
            return await _taken(db, head, run, first, writes, asked, settings)
        except RevisionConflict as conflict:
            if leave is not None and conflict.kind == leave.kind:
                raise  # somebody else took it out of the queue
        except (VersionConflict, ThreadExists):
            pass  # somebody was faster: the whole turn goes behind what they did


async def _taken(
    db: Database,
    head: Head | None,
    run: Run,
    first: Inbound,
    release: Sequence[Write],
    asked: Asked,
    settings: Settings,
) -> Started:
    owner = head.owner if head is not None else asked.user
    change = Changeset(
        items=first.items,
        patches=first.patches,
        snapshot=first.snapshot,
        reason=USER_MESSAGE,
        run_id=run.id,
        parent_run_id=run.parent,
        run_meta=meta_of(run, None),
    )
    expect: Expect = Exact(head.version) if head is not None else Absent(owner)
    append = AppendTo(thread=run.thread, change=change, expect=expect)
    episode = await _episode(db, head, asked.thread, owner, settings)
    writes = [append, Put(record=record_of(run, owner), expect=0), saved(episode, owner), *release]
    committed, kept, row, *_ = await db.commit(writes)
    assert isinstance(committed, Committed)
    assert isinstance(kept, Record)
    assert isinstance(row, Record)
    run = msgspec.structs.replace(run, revision=kept.revision)
    journal = ThreadJournal(db, run, version=committed.version, owner=owner, clock=settings.clock)
    journal.episode = msgspec.structs.replace(episode, revision=row.revision)
    change = msgspec.structs.replace(change, version=committed.version, time=committed.time)
    return Started(draft=_draft(db, head, first, asked, settings), journal=journal, change=change)


async def _episode(
    db: Database, head: Head | None, thread: str, owner: str | None, settings: Settings
) -> Episode:
    """The episode that the turn belongs to, touched."""
    size = head.counters.logs.get(HISTORY, LogSize()) if head is not None else LogSize()
    before = await active_episode(db, thread)
    return touched(before, thread, owner, settings.clock(), places.at(size.end + 1))


def _draft(db: Database, head: Head | None, first: Inbound, asked: Asked, settings: Settings) -> Draft:
    sizes = sizes_after(head.counters.logs if head is not None else {}, Changeset(items=first.items))
    return Draft(settings.schema, first.state, sizes, asked.inputs, reader(db.thread(asked.thread)))


def reader(thread: Thread) -> ReadLog:
    """Reads the newest items of a thread's logs."""

    async def read(log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        return (await thread.items(last=count, log=log, whole=whole)).items

    return read


async def _head(thread: Thread) -> Head | None:
    try:
        return await thread.head()
    except ThreadNotFound:
        return None


async def _unknown(thread: Thread, head: Head | None, items: Sequence[Item]) -> list[Item]:
    """The items that the thread has never had, however long ago; the last may have been taken back."""
    named = [item.id for item in items if item.id is not None]
    before = await thread.named(named) if named and head is not None else []
    known = {item.id for item in before}
    if items and items[-1].id in known:
        same = [item for item in before if item.id == items[-1].id]
        if all([await was_taken_back(thread, item) for item in same]):
            known.discard(items[-1].id)
    first: dict[str, Item] = {}
    for item in items:
        if item.id is not None:
            first.setdefault(item.id, item)
    return [item for item in items if item.id is None or (item.id not in known and first[item.id] is item)]


def _run(asked: Asked, settings: Settings) -> Run:
    now = settings.clock()
    return Run(
        id=settings.new_id() if asked.key is None else key_id(asked.thread, asked.key),
        thread=asked.thread,
        user=asked.user,
        origin=asked.origin,
        parent=asked.parent,
        started=now,
        holder=this_process(),
        until=now + int(settings.lease_seconds * 1000),
        key=asked.key and asked.print(),
    )


def key_id(thread: str, key: str) -> str:
    """The id of the run that a turn with this key has."""
    return f"run-{hashlib.sha256(encode([thread, key])).hexdigest()[:24]}"


def kept_inputs(asked: Asked) -> dict[str, JSON]:
    """The inputs that the state must keep for a run to be resumed; the message stands in the history."""
    return {name: value for name, value in asked.inputs.items() if name != MESSAGE or not asked.items}


# Other turns.


class _Wait(Exception):
    """Another turn is running; look again."""


async def _made_before(db: Database, asked: Asked, settings: Settings) -> Done | Interrupted | None:
    """What became of the first turn with this key, if there was one and nobody is at it."""
    try:
        run = run_of(await db.records.get(KIND, key_id(asked.thread, asked.key or "")))
    except RecordNotFound:
        return None
    if run.key != asked.print():
        raise KeyReused(thread=asked.thread, key=asked.key or "")
    if run.output is not None:
        return done_before(run.output, settings.output)
    if run.status == RUNNING and not is_over(run, settings.clock()):
        return None  # it shows as busy
    return Interrupted(run.id)


async def _released(
    db: Database, thread: Thread, head: Head | None, asked: Asked, settings: Settings
) -> Sequence[Write]:
    """What must be written with the first changeset so that an earlier run holds the thread no more."""
    before = standing(head.state) if head is not None else None
    if head is None or before is None or before.status == DONE:
        return ()
    if before.status == WAITING:
        calls = [waiting.call for waiting in suspended_calls(head.state)]
        raise TurnSuspended(thread=thread.id, run=before.id, calls=calls)
    if before.status == INTERRUPTED:
        return ()
    try:
        run = run_of(await db.records.get(KIND, before.id))
    except RecordNotFound:
        return ()
    if run.status != RUNNING:
        return ()
    if not is_over(run, settings.clock()):
        left = run.until - settings.clock()
        if asked.busy != "wait":
            raise TurnBusy(thread=thread.id, run=run.id, retry_after_ms=max(left, 0))
        await thread.changed(head.version, timeout=min(left / 1000, LOOK_AGAIN))
        raise _Wait
    lost = Ending(termination=INTERRUPTED, problem="Its process ended before it did.")
    over = spent(ended(run, lost, settings.clock()), before)
    over = msgspec.structs.replace(over, in_doubt=doubtful(head.state))
    return [Put(record=record_of(over, head.owner), expect=run.revision)]


def is_over(run: Run, now: int) -> bool:
    """Whether nobody holds a run any more: its lease has run out, or its process is gone."""
    return run.until <= now or (run.holder is not None and is_gone(run.holder))
