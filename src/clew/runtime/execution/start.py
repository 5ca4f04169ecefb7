"""Starting a turn: the thread is taken, or somebody else's turn is respected."""

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import JSON, as_json, encode
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
    Expectation,
    Head,
    Item,
    LogSize,
    Put,
    Record,
    Write,
)
from clew.database.database import Database
from clew.database.thread import CHANGESETS_PER_PAGE, Thread
from clew.runtime.attempts import Attempts
from clew.runtime.crises import Assessment, CrisisRows
from clew.runtime.execution.turn_lines import BusyWait
from clew.runtime.model.messages import Message, item_of
from clew.runtime.records.episodes import (
    TEXT,
    VOICE,
    Episode,
    active_episode,
    episode_for_turn,
    episode_write,
)
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
from clew.runtime.stages import first_stage_name
from clew.runtime.state.inputs import MESSAGE, TurnInput, user_items, validate_inputs
from clew.runtime.state.schema import Schema
from clew.runtime.turn.approvals import doubtful_calls, pending_approvals
from clew.runtime.turn.draft import Draft, ReadLog, sizes_after
from clew.runtime.turn.inbound import Inbound, build_inbound, run_state_of, with_latest_usage
from clew.runtime.turn.journal import PositionCache, ThreadJournal, ThreadPosition, run_with_ending
from clew.runtime.turn.result import TurnResult, stored_result

REWIND = "Rewind"
"""The reason of a changeset that takes back what others added."""


async def was_rewound(thread: Thread, item: Item) -> bool:
    """Whether an item that the thread once had was taken back. What was compacted was not: it was said.

    It costs a read, and for an item that is no longer visible one of the log from there on.
    """
    if await thread.items(after=item.place - 1, before=item.place + 1, log=item.log):
        return False
    version = item.version
    while changes := await thread.changesets(after=version, limit=CHANGESETS_PER_PAGE):
        if any(change.reason == REWIND and _has_cut(change, item) for change in changes):
            return True
        version = changes[-1].version
    return False


def _has_cut(change: Changeset, item: Item) -> bool:
    return any(cut.log == item.log and cut.first <= item.place <= cut.last for cut in change.cuts)


BusyPolicy: TypeAlias = Literal["wait", "refuse", "queue"]


class VoiceReply(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has happened already, in a call: what was replied, and how serious it was."""

    reply: str = ""
    assessed: Assessment | None = None


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that somebody wants; one that was ``spoken`` is over with its first changeset."""

    thread: str
    inputs: dict[str, JSON]
    items: tuple[Item, ...]
    user: str | None = None
    key: str | None = None
    busy: BusyPolicy = "wait"
    replace: Document | None = None
    origin: str = "user"
    parent: str | None = None
    spoken: VoiceReply | None = None

    def fingerprint(self) -> str:
        """What two requests with one key must have in common."""
        parts: list[JSON] = [self.thread, self.inputs, self.user, self.replace]
        if self.spoken is not None:
            parts.append([[item.role, item.kind, item.body] for item in self.items])
        return hashlib.sha256(encode(parts)).hexdigest()


def turn_request(
    schema: Schema,
    thread: str,
    message: TurnInput,
    *,
    user: str | None = None,
    key: str | None = None,
    busy: BusyPolicy = "wait",
    message_id: str | None = None,
    messages: Sequence[Message] = (),
    replace_state: Document | None = None,
    origin: str = "user",
    parent: str | None = None,
) -> TurnRequest:
    """The request for a turn, its inputs checked against the schema; the options are those of ``run_turn``.

    Raises:
        StateInvalid: An input is missing, unknown, or of another type.
    """
    inputs = validate_inputs(schema, message)
    for entry in messages:
        check_fields(entry)
    return TurnRequest(
        thread=thread,
        inputs=inputs,
        items=(*map(item_of, messages), *user_items(schema, inputs, id=message_id)),
        user=user,
        key=key,
        busy=busy,
        replace=replace_state,
        origin=origin,
        parent=parent,
    )


class StartedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has the thread, with its first changeset on disk."""

    draft: Draft
    journal: ThreadJournal
    change: Changeset | None


class InterruptedRun(msgspec.Struct, frozen=True):
    """The turn was begun before, and nobody is at it any more: it goes on where it stopped."""

    run: str


async def start_turn(
    db: Database,
    request: TurnRequest,
    settings: Settings,
    queue_entry: Drop | None = None,
    *,
    positions: PositionCache | None = None,
) -> StartedTurn | TurnResult | InterruptedRun:
    """Take the thread and commit what comes in; or what became of the turn, if it was made before.

    ``queue_entry`` takes a queued turn out of the queue in the same commit. What is ``positions`` may be out
    of date: then nothing is committed, and the thread is looked at afresh.

    Raises:
        TurnBusy: Another turn is running, and the caller does not want to wait, or has waited long enough.
        TurnSuspended: The thread waits for a decision.
        KeyReused: The key was used for another turn.
        NewerSchema: A newer program wrote the thread's state.
        RevisionConflict: Others changed the records beside the thread again and again.
    """
    thread, wait = db.thread(request.thread), BusyWait()
    attempts = Attempts(settings.config.deadlines.turn_seconds)
    while True:
        if (earlier := await find_earlier_turn(db, request, settings)) is not None:
            return earlier
        position = positions.take(db, request.thread) if positions is not None else None
        try:
            return await _start_at(
                db, position or await _read_position(db, thread), request, settings, queue_entry
            )
        except RevisionConflict as conflict:
            _check_queued(queue_entry, conflict)
            attempts.count(conflict)
        except ThreadExists:
            await _check_seen(thread)
        except VersionConflict as conflict:
            attempts.check_time(conflict)  # somebody was faster: the whole turn goes behind what they did
        except _Busy as busy:
            attempts.check_time(busy.error)
            await wait.until_change(thread, busy.version, busy.error.retry_after_ms / 1000)
        except ThreadNotFound:
            if position is None:
                raise  # it was deleted since its last turn here


def _check_queued(leave: Drop | None, conflict: RevisionConflict) -> None:
    """Give up a queued turn that somebody else took out of the queue."""
    if leave is not None and conflict.kind == leave.kind:
        raise conflict


async def _read_position(db: Database, thread: Thread) -> ThreadPosition:
    """Where a thread stands now."""
    return ThreadPosition(head=await _head(thread), episode=await active_episode(db, thread.id))


async def _start_at(
    db: Database, position: ThreadPosition, request: TurnRequest, settings: Settings, queue_entry: Drop | None
) -> StartedTurn:
    """Begin a turn where a thread is known to stand."""
    thread, head = db.thread(request.thread), position.head
    release_writes = await _release_writes(db, thread, head, request, settings)
    run = _new_run(request, settings, head)
    items = await _new_items(thread, head, request.items)
    inbound = build_inbound(
        head,
        run,
        [msgspec.structs.replace(item, run=run.id) for item in items],
        inputs=inputs_for_resume(request),
        stage=first_stage_name(settings.stages),
        replace=request.replace,
        schema=settings.schema,
        upgrades=settings.config.state.upgrades,
    )
    writes = release_writes if queue_entry is None else [*release_writes, queue_entry]
    return await _commit_inbound(db, position, run, inbound, writes, request, settings)


async def _commit_inbound(
    db: Database,
    position: ThreadPosition,
    run: Run,
    inbound: Inbound,
    release_writes: Sequence[Write],
    request: TurnRequest,
    settings: Settings,
) -> StartedTurn:
    head = position.head
    # Without a user a new thread belongs to the user of the database, and so does its episode.
    owner = head.owner if head is not None else request.user or db.user
    voice = request.spoken
    change = Changeset(
        items=inbound.items,
        patches=inbound.patches,
        snapshot=inbound.snapshot,
        reason=USER_MESSAGE if voice is None else VOICE_TURN,
        run_id=run.id,
        parent_run_id=run.parent,
        run_meta=meta_of(run, None if voice is None else Ending(termination=NATURAL)),
    )
    expect: Expectation = Exact(head.version) if head is not None else Absent(owner)
    append = AppendTo(thread=run.thread, change=change, expect=expect)
    episode = _turn_episode(position.episode, head, request, owner, settings)
    crisis_writes = _crisis_writes(request, run, episode, owner, settings)
    writes = [
        append,
        Put(record=record_of(run, owner), expect=0),
        episode_write(episode, owner),
        *release_writes,
        *crisis_writes,
    ]
    commit, run_record, episode_record, *_ = await db.commit(writes)
    assert isinstance(commit, Committed)
    assert isinstance(run_record, Record)
    assert isinstance(episode_record, Record)
    run = msgspec.structs.replace(run, revision=run_record.revision)
    journal = ThreadJournal(
        db, run, version=commit.version, owner=owner, clock=settings.clock, days=settings.crisis_days
    )
    journal.episode = msgspec.structs.replace(episode, revision=episode_record.revision)
    change = msgspec.structs.replace(change, version=commit.version, time=commit.time)
    return StartedTurn(draft=_draft(db, head, inbound, request, settings), journal=journal, change=change)


def _turn_episode(
    before: Episode | None, head: Head | None, request: TurnRequest, owner: str | None, settings: Settings
) -> Episode:
    """The episode that the turn belongs to, touched."""
    size = head.counters.logs.get(HISTORY, LogSize()) if head is not None else LogSize()
    modality = TEXT if request.spoken is None else VOICE
    now = settings.clock()
    episode = episode_for_turn(before, request.thread, owner, now, places.place_of(size.end + 1), modality)
    assessment = request.spoken.assessed if request.spoken is not None else None
    if assessment is None:
        return episode
    return msgspec.structs.replace(episode, crisis=max(episode.crisis, assessment.level))


def _crisis_writes(
    request: TurnRequest, run: Run, episode: Episode, owner: str | None, settings: Settings
) -> list[Write]:
    """The row of the crisis log that a spoken turn brings with it."""
    assessment = request.spoken.assessed if request.spoken is not None else None
    if assessment is None or not assessment.level:
        return []
    rows = CrisisRows(settings.clock, settings.crisis_days)
    rows.add(assessment, run, episode=episode.id, owner=owner)
    return [Put(record=row) for row in rows.rows]


def _draft(
    db: Database, head: Head | None, inbound: Inbound, request: TurnRequest, settings: Settings
) -> Draft:
    sizes = sizes_after(head.counters.logs if head is not None else {}, Changeset(items=inbound.items))
    return Draft(settings.schema, inbound.state, sizes, request.inputs, log_reader(db.thread(request.thread)))


def log_reader(thread: Thread) -> ReadLog:
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


async def _new_items(thread: Thread, head: Head | None, items: Sequence[Item]) -> list[Item]:
    """The items that the thread has never had, however long ago; the last may have been taken back."""
    ids = [item.id for item in items if item.id is not None]
    earlier_items = await thread.items_by_id(ids) if ids and head is not None else []
    earlier_ids = {item.id for item in earlier_items}
    if items and items[-1].id in earlier_ids:
        twins = [item for item in earlier_items if item.id == items[-1].id]
        if all([await was_rewound(thread, item) for item in twins]):
            earlier_ids.discard(items[-1].id)
    first_by_id: dict[str, Item] = {}
    for item in items:
        if item.id is not None:
            first_by_id.setdefault(item.id, item)
    return [
        item
        for item in items
        if item.id is None or (item.id not in earlier_ids and first_by_id[item.id] is item)
    ]


def _new_run(request: TurnRequest, settings: Settings, head: Head | None) -> Run:
    now = settings.clock()
    version = 1 if head is None else head.version + 1
    run = Run(
        id=settings.new_id() if request.key is None else run_id_for_key(request.thread, request.key),
        thread=request.thread,
        user=request.user,
        origin=request.origin,
        parent=request.parent,
        started=now,
        holder=this_process(),
        until=now + settings.config.leases.ms,
        key=request.key and request.fingerprint(),
        first=version,
    )
    if request.spoken is None:
        return run
    result = TurnResult(thread=run.thread, run=run.id, version=version, text=request.spoken.reply)
    final_run = run_with_ending(run, Ending(termination=NATURAL), now)
    return msgspec.structs.replace(final_run, output=as_json(result) if request.key is not None else None)


def run_id_for_key(thread: str, key: str) -> str:
    """The id of the run that a turn with this key has."""
    return f"run-{hashlib.sha256(encode([thread, key])).hexdigest()[:24]}"


def inputs_for_resume(request: TurnRequest) -> dict[str, JSON]:
    """The inputs that the state must keep for a run to be resumed; the message stands in the history."""
    return {name: value for name, value in request.inputs.items() if name != MESSAGE or not request.items}


# Other turns.


class _Busy(Exception):
    """Another turn is running, until its lease ends unless it is renewed."""

    def __init__(self, error: TurnBusy, version: int) -> None:
        super().__init__(error)
        self.error = error
        self.version = version


async def find_earlier_turn(
    db: Database, request: TurnRequest, settings: Settings
) -> TurnResult | InterruptedRun | None:
    """What became of the first turn with this key, if there was one and nobody is at it."""
    run = await earlier_run(db, request)
    if run is None:
        return None
    if run.output is not None:
        return stored_result(run.output, settings.output)
    if run.status == RUNNING and not is_orphaned(run, settings.clock()):
        return None  # it shows as busy
    return InterruptedRun(run.id)


async def earlier_run(db: Database, request: TurnRequest) -> Run | None:
    """The run of the first turn with this key, if there was one.

    Raises:
        KeyReused: The key was used for another turn.
    """
    if request.key is None:
        return None
    try:
        run = run_of(await db.records.get(KIND, run_id_for_key(request.thread, request.key)))
    except RecordNotFound:
        return None
    if run.key != request.fingerprint():
        raise KeyReused(thread=request.thread, key=request.key)
    return run


async def _release_writes(
    db: Database, thread: Thread, head: Head | None, request: TurnRequest, settings: Settings
) -> Sequence[Write]:
    """What must be written with the first changeset so that an earlier run holds the thread no more."""
    run_state = run_state_of(head.state) if head is not None else None
    if head is None or run_state is None or run_state.status == DONE:
        return ()
    if run_state.status == WAITING:
        calls = [waiting.call for waiting in pending_approvals(head.state)]
        raise TurnSuspended(thread=thread.id, run=run_state.id, calls=calls)
    if run_state.status == INTERRUPTED:
        return ()
    try:
        run = run_of(await db.records.get(KIND, run_state.id))
    except RecordNotFound:
        return ()
    if run.status != RUNNING or run.thread != thread.id:  # that of another thread holds nothing here
        return ()
    if not is_orphaned(run, settings.clock()):
        remaining_ms = run.until - settings.clock()
        busy = TurnBusy(thread=thread.id, run=run.id, retry_after_ms=max(remaining_ms, 0))
        if request.busy != "wait":
            raise busy
        await _mark_awaited(db, run, request, head.owner)
        raise _Busy(busy, head.version)
    ending = Ending(termination=INTERRUPTED, problem="Its process ended before it did.")
    final_run = with_latest_usage(run_with_ending(run, ending, settings.clock()), run_state)
    final_run = msgspec.structs.replace(final_run, in_doubt=doubtful_calls(head.state))
    return [Put(record=record_of(final_run, head.owner), expect=run.revision)]


async def _mark_awaited(db: Database, run: Run, request: TurnRequest, owner: str | None) -> None:
    """Tell whoever holds a run, once, that a turn waits for its end; one sent again waits for itself.

    Raises:
        RevisionConflict: It was renewed or has ended; another look finds out which.
    """
    if run.awaited or (request.key is not None and run.id == run_id_for_key(request.thread, request.key)):
        return
    awaited = msgspec.structs.replace(run, awaited=True)
    await db.records.put(record_of(awaited, owner), expect=run.revision)


def is_orphaned(run: Run, now: int) -> bool:
    """Whether nobody holds a run any more: its lease has run out, or its process is gone.

    A process that is certainly there renews its lease, so only its end counts, however far off it seems: the
    clock may have been set back meanwhile.
    """
    if run.holder is not None and is_gone(run.holder):
        return True
    if run.holder is not None and is_here(run.holder):
        return run.until <= now
    return leases.is_over(run.until, now)
