"""Starting a turn: the thread is taken, or somebody else's turn is respected."""

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from clew.core.encoding import JSON, encode, plain
from clew.core.errors import (
    KeyReused,
    RecordNotFound,
    RevisionConflict,
    ThreadExists,
    ThreadNotFound,
    TurnBusy,
    TurnSuspended,
    VersionConflict,
)
from clew.core.log import leases, places
from clew.core.ops import Document
from clew.core.values import (
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
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.attempts import Attempts
from clew.runtime.crises import Assessment, CrisisRows
from clew.runtime.execution.turn_lines import BusyWait
from clew.runtime.records.episodes import TEXT, VOICE, Episode, active_episode, saved, touched
from clew.runtime.records.events import USER_MESSAGE, VOICE_TURN
from clew.runtime.records.runs import (
    DONE,
    INTERRUPTED,
    KIND,
    NATURAL,
    RUNNING,
    WAITING,
    Ending,
    Run,
    is_gone,
    is_here,
    meta_of,
    record_of,
    run_of,
    this_process,
)
from clew.runtime.settings import Settings
from clew.runtime.stages import first_name
from clew.runtime.state.inputs import MESSAGE
from clew.runtime.turn.approvals import doubtful, suspended_calls
from clew.runtime.turn.draft import Draft, ReadLog, sizes_after
from clew.runtime.turn.inbound import Inbound, inbound, spent, standing
from clew.runtime.turn.journal import Recent, Rest, ThreadJournal, ended
from clew.runtime.turn.result import Done, done_before

REWIND = "Rewind"
"""The reason of a changeset that takes back what others added."""
PAGE = 256


async def was_taken_back(thread: Thread, item: Item) -> bool:
    """Whether an item that the thread once had was taken back. What was compacted was not: it was said.

    It costs a read, and for an item that is no longer visible one of the log from there on.
    """
    if await thread.items(after=item.place - 1, before=item.place + 1, log=item.log):
        return False
    version = item.version
    while changes := await thread.changesets(after=version, limit=PAGE):
        if any(change.reason == REWIND and _ends(change, item) for change in changes):
            return True
        version = changes[-1].version
    return False


def _ends(change: Changeset, item: Item) -> bool:
    return any(cut.log == item.log and cut.first <= item.place <= cut.last for cut in change.cuts)


Busy: TypeAlias = Literal["wait", "refuse", "queue"]


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has happened already, in a call: what was replied, and how serious it was."""

    reply: str = ""
    assessed: Assessment | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that somebody wants; one that was ``spoken`` is over with its first changeset."""

    thread: str
    inputs: dict[str, JSON]
    items: tuple[Item, ...]
    user: str | None = None
    key: str | None = None
    busy: Busy = "wait"
    replace: Document | None = None
    origin: str = "user"
    parent: str | None = None
    spoken: Spoken | None = None

    def print(self) -> str:
        """What two requests with one key must have in common."""
        said: list[JSON] = [self.thread, self.inputs, self.user, self.replace]
        if self.spoken is not None:
            said.append([[item.role, item.kind, item.body] for item in self.items])
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
    db: Database, asked: Asked, settings: Settings, leave: Drop | None = None, *, recent: Recent | None = None
) -> Started | Done | Interrupted:
    """Take the thread and commit what comes in; or what became of the turn, if it was made before.

    ``leave`` takes a queued turn out of the queue in the same commit. What is ``recent`` may be out of date:
    then nothing is committed, and the thread is looked at afresh.

    Raises:
        TurnBusy: Another turn is running, and the caller does not want to wait, or has waited long enough.
        TurnSuspended: The thread waits for a decision.
        KeyReused: The key was used for another turn.
        NewerSchema: A newer program wrote the thread's state.
        RevisionConflict: Others changed the records beside the thread again and again.
    """
    thread, wait = db.thread(asked.thread), BusyWait()
    attempts = Attempts(settings.patience.turn)
    while True:
        if (before := await made_before(db, asked, settings)) is not None:
            return before
        rest = recent.take(db, asked.thread) if recent is not None else None
        try:
            return await _begun(db, rest or await _looked(db, thread), asked, settings, leave)
        except RevisionConflict as conflict:
            _check_queued(leave, conflict)
            attempts.count(conflict)
        except ThreadExists:
            await _check_seen(thread)
        except VersionConflict as conflict:
            attempts.check_time(conflict)  # somebody was faster: the whole turn goes behind what they did
        except _Busy as busy:
            attempts.check_time(busy.error)
            await wait.until_change(thread, busy.version, busy.error.retry_after_ms / 1000)
        except ThreadNotFound:
            if rest is None:
                raise  # it was deleted since its last turn here


def _check_queued(leave: Drop | None, conflict: RevisionConflict) -> None:
    """Give up a queued turn that somebody else took out of the queue."""
    if leave is not None and conflict.kind == leave.kind:
        raise conflict


async def _looked(db: Database, thread: Thread) -> Rest:
    """Where a thread stands now."""
    return Rest(head=await _head(thread), episode=await active_episode(db, thread.id))


async def _begun(db: Database, rest: Rest, asked: Asked, settings: Settings, leave: Drop | None) -> Started:
    """Begin a turn where a thread is known to stand."""
    thread, head = db.thread(asked.thread), rest.head
    release = await _released(db, thread, head, asked, settings)
    run = _run(asked, settings, head)
    items = await _unknown(thread, head, asked.items)
    first = inbound(
        head,
        run,
        [msgspec.structs.replace(item, run=run.id) for item in items],
        inputs=kept_inputs(asked),
        stage=first_name(settings.stages),
        replace=asked.replace,
        schema=settings.schema,
        upgrades=settings.upgrades,
    )
    writes = release if leave is None else [*release, leave]
    return await _taken(db, rest, run, first, writes, asked, settings)


async def _taken(
    db: Database,
    rest: Rest,
    run: Run,
    first: Inbound,
    release: Sequence[Write],
    asked: Asked,
    settings: Settings,
) -> Started:
    head = rest.head
    # Without a user a new thread belongs to the user of the database, and so does its episode.
    owner = head.owner if head is not None else asked.user or db.user
    spoken = asked.spoken
    change = Changeset(
        items=first.items,
        patches=first.patches,
        snapshot=first.snapshot,
        reason=USER_MESSAGE if spoken is None else VOICE_TURN,
        run_id=run.id,
        parent_run_id=run.parent,
        run_meta=meta_of(run, None if spoken is None else Ending(termination=NATURAL)),
    )
    expect: Expect = Exact(head.version) if head is not None else Absent(owner)
    append = AppendTo(thread=run.thread, change=change, expect=expect)
    episode = _touched(rest.episode, head, asked, owner, settings)
    rows = _crises(asked, run, episode, owner, settings)
    writes = [append, Put(record=record_of(run, owner), expect=0), saved(episode, owner), *release, *rows]
    committed, kept, row, *_ = await db.commit(writes)
    assert isinstance(committed, Committed)
    assert isinstance(kept, Record)
    assert isinstance(row, Record)
    run = msgspec.structs.replace(run, revision=kept.revision)
    journal = ThreadJournal(
        db, run, version=committed.version, owner=owner, clock=settings.clock, days=settings.crisis_days
    )
    journal.episode = msgspec.structs.replace(episode, revision=row.revision)
    change = msgspec.structs.replace(change, version=committed.version, time=committed.time)
    return Started(draft=_draft(db, head, first, asked, settings), journal=journal, change=change)


def _touched(
    before: Episode | None, head: Head | None, asked: Asked, owner: str | None, settings: Settings
) -> Episode:
    """The episode that the turn belongs to, touched."""
    size = head.counters.logs.get(HISTORY, LogSize()) if head is not None else LogSize()
    modality = TEXT if asked.spoken is None else VOICE
    now = settings.clock()
    episode = touched(before, asked.thread, owner, now, places.at(size.end + 1), modality)
    assessed = asked.spoken.assessed if asked.spoken is not None else None
    if assessed is None:
        return episode
    return msgspec.structs.replace(episode, crisis=max(episode.crisis, assessed.level))


def _crises(asked: Asked, run: Run, episode: Episode, owner: str | None, settings: Settings) -> list[Write]:
    """The row of the crisis log that a spoken turn brings with it."""
    assessed = asked.spoken.assessed if asked.spoken is not None else None
    if assessed is None or not assessed.level:
        return []
    rows = CrisisRows(settings.clock, settings.crisis_days)
    rows.add(assessed, run, episode=episode.id, owner=owner)
    return [Put(record=row) for row in rows.rows]


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


async def _check_seen(thread: Thread) -> None:
    """Refuse a thread that exists but is somebody else's: it is not there for us."""
    if await _head(thread) is None:
        raise ThreadNotFound(thread=thread.id) from None


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


def _run(asked: Asked, settings: Settings, head: Head | None) -> Run:
    now = settings.clock()
    version = 1 if head is None else head.version + 1
    run = Run(
        id=settings.new_id() if asked.key is None else key_id(asked.thread, asked.key),
        thread=asked.thread,
        user=asked.user,
        origin=asked.origin,
        parent=asked.parent,
        started=now,
        holder=this_process(),
        until=now + int(settings.lease_seconds * 1000),
        key=asked.key and asked.print(),
        first=version,
    )
    if asked.spoken is None:
        return run
    done = Done(thread=run.thread, run=run.id, version=version, text=asked.spoken.reply)
    over = ended(run, Ending(termination=NATURAL), now)
    return msgspec.structs.replace(over, output=plain(done) if asked.key is not None else None)


def key_id(thread: str, key: str) -> str:
    """The id of the run that a turn with this key has."""
    return f"run-{hashlib.sha256(encode([thread, key])).hexdigest()[:24]}"


def kept_inputs(asked: Asked) -> dict[str, JSON]:
    """The inputs that the state must keep for a run to be resumed; the message stands in the history."""
    return {name: value for name, value in asked.inputs.items() if name != MESSAGE or not asked.items}


# Other turns.


class _Busy(Exception):
    """Another turn is running, until its lease ends unless it is renewed."""

    def __init__(self, error: TurnBusy, version: int) -> None:
        super().__init__(error)
        self.error = error
        self.version = version


async def made_before(db: Database, asked: Asked, settings: Settings) -> Done | Interrupted | None:
    """What became of the first turn with this key, if there was one and nobody is at it."""
    run = await earlier_run(db, asked)
    if run is None:
        return None
    if run.output is not None:
        return done_before(run.output, settings.output)
    if run.status == RUNNING and not is_over(run, settings.clock()):
        return None  # it shows as busy
    return Interrupted(run.id)


async def earlier_run(db: Database, asked: Asked) -> Run | None:
    """The run of the first turn with this key, if there was one.

    Raises:
        KeyReused: The key was used for another turn.
    """
    if asked.key is None:
        return None
    try:
        run = run_of(await db.records.get(KIND, key_id(asked.thread, asked.key)))
    except RecordNotFound:
        return None
    if run.key != asked.print():
        raise KeyReused(thread=asked.thread, key=asked.key)
    return run


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
    if run.status != RUNNING or run.thread != thread.id:  # that of another thread holds nothing here
        return ()
    if not is_over(run, settings.clock()):
        left = run.until - settings.clock()
        busy = TurnBusy(thread=thread.id, run=run.id, retry_after_ms=max(left, 0))
        if asked.busy != "wait":
            raise busy
        await _mark_awaited(db, run, asked, head.owner)
        raise _Busy(busy, head.version)
    lost = Ending(termination=INTERRUPTED, problem="Its process ended before it did.")
    over = spent(ended(run, lost, settings.clock()), before)
    over = msgspec.structs.replace(over, in_doubt=doubtful(head.state))
    return [Put(record=record_of(over, head.owner), expect=run.revision)]


async def _mark_awaited(db: Database, run: Run, asked: Asked, owner: str | None) -> None:
    """Tell whoever holds a run, once, that a turn waits for its end; one sent again waits for itself.

    Raises:
        RevisionConflict: It was renewed or has ended; another look finds out which.
    """
    if run.awaited or (asked.key is not None and run.id == key_id(asked.thread, asked.key)):
        return
    awaited = msgspec.structs.replace(run, awaited=True)
    await db.records.put(record_of(awaited, owner), expect=run.revision)


def is_over(run: Run, now: int) -> bool:
    """Whether nobody holds a run any more: its lease has run out, or its process is gone.

    A process that is certainly there renews its lease, so only its end counts, however far off it seems: the
    clock may have been set back meanwhile.
    """
    if run.holder is not None and is_gone(run.holder):
        return True
    if run.holder is not None and is_here(run.holder):
        return run.until <= now
    return leases.is_over(run.until, now)
