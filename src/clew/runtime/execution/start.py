"""Start a turn: take the thread and commit what comes in, or give way to the turn that has it."""

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from clew.core import ops
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
from clew.core.log import places
from clew.core.log.owners import check_user_named
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
from clew.database.database import Database, owner_database
from clew.database.thread import Thread
from clew.runtime.attempts import LOOK_AGAIN, Attempts
from clew.runtime.execution.takeover import TAKEOVERS, take_over
from clew.runtime.execution.turn_lines import LinePlace, ThreadPosition
from clew.runtime.model.messages import Message, item_of
from clew.runtime.records.effects import ExternalEffect
from clew.runtime.records.episodes import (
    TEXT,
    VOICE,
    Episode,
    active_episode,
    episode_for_turn,
    episode_write,
    request_end,
)
from clew.runtime.records.events import EFFECTS, USER_MESSAGE, VOICE_TURN
from clew.runtime.records.rewinds import was_rewound
from clew.runtime.records.runs import (
    INTERRUPTED,
    KIND,
    NATURAL,
    RUNNING,
    WAITING,
    Ending,
    Run,
    is_orphaned,
    meta_of,
    record_of,
    run_id_for_key,
    run_of,
    run_with_ending,
    this_process,
)
from clew.runtime.records.turn_records import TurnRecord, stored_record
from clew.runtime.settings import Settings
from clew.runtime.stages import first_stage_name
from clew.runtime.state.inputs import MESSAGE, TurnInput, inputs_on_thread, user_items
from clew.runtime.state.log_entries import ReadLog, tails_after
from clew.runtime.state.run_state import RunState
from clew.runtime.state.schema import Schema
from clew.runtime.state.thread_agent import check_thread_agent
from clew.runtime.telemetry.scope import current_scope
from clew.runtime.turn.closure import PROCESS_LOST, close_run
from clew.runtime.turn.draft import Draft, sizes_after
from clew.runtime.turn.inbound import build_inbound
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.result import TurnResult, stored_result

BusyPolicy: TypeAlias = Literal["wait", "refuse", "queue", "interrupt", "rollback"]


class VoiceReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of a turn that was spoken in a call already, and the records that commit with it."""

    reply: str = ""
    records: tuple[TurnRecord, ...] = ()


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as its caller asks for it; one that was ``spoken`` is over with its first changeset.

    ``trace`` is the span that put it into the queue.
    """

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
    trace: str | None = None

    @property
    def run_id(self) -> str | None:
        """The id of its run, if its key says it beforehand."""
        return None if self.key is None else run_id_for_key(self.thread, self.key)

    def fingerprint(self) -> str:
        """Return a hash of what two requests with one idempotency key must have in common."""
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
    """Return the request for a turn, its inputs checked by the schema; options are those of ``run_turn``.

    Raises:
        StateInvalid: An input is missing, unknown, of another type, or an id of something else.
    """
    inputs = inputs_on_thread(schema, message, thread=thread, user=user)
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
    """A run that has the thread: a new one, or one that was resumed.

    ``change`` is the changeset by which it took the thread. ``own_calls`` are the calls that were decided
    just now: this process runs them, so none of them can have had its effect before. ``effects`` are those of
    the run that it took back.
    """

    draft: Draft
    journal: ThreadJournal
    change: Changeset
    own_calls: frozenset[str] = frozenset()
    effects: tuple[ExternalEffect, ...] = ()


async def start_turn(
    db: Database,
    request: TurnRequest,
    settings: Settings,
    queue_entry: Drop | None = None,
    *,
    place: LinePlace | None = None,
) -> StartedTurn | TurnResult | Run:
    """Take the thread and commit what comes in.

    A turn that was made before, by its key, gives its result; one that was interrupted gives its run, which
    can be resumed. ``queue_entry`` takes a queued turn out of the queue in the same commit. The position that
    its ``place`` in line gives may be out of date: then nothing is committed, and the thread is read.

    Raises:
        TurnBusy: Another turn is running, and the caller does not want to wait, or has waited long enough.
        TurnSuspended: The thread waits for a decision.
        RewindRefused: The run before should be rolled back, and others have written behind it.
        KeyReused: The key was used for another turn.
        NewerSchema: A newer program wrote the thread's state.
        ThreadOfAnotherAgent: The thread is not this agent's to write.
        UserMissing: The thread belongs to a user, and the request names none.
        RevisionConflict: Others changed the records beside the thread again and again.
    """
    thread, attempts = db.thread(request.thread), Attempts(settings.config.deadlines.turn_seconds)
    effects: list[ExternalEffect] = []
    while True:
        if (earlier := await find_earlier_turn(db, request, settings)) is not None:
            return earlier
        left_position = place.take_position() if place is not None else None
        position = left_position or await _read_position(db, thread, settings)
        try:
            run_effects = await _take_over(db, thread, position, request, settings)
            if run_effects is None:
                return await _start_at(db, thread, position, request, settings, queue_entry, effects)
            effects += run_effects
        except RevisionConflict as conflict:
            _check_queued(queue_entry, conflict)
            attempts.count(conflict)
        except ThreadExists:
            await _check_seen(thread)
        except VersionConflict as conflict:
            attempts.check_time(conflict)  # another writer was faster: the whole turn goes behind it
        except TurnBusy as busy:
            await _wait_until_free(thread, position, request, busy, attempts)
        except ThreadNotFound:
            # The thread was deleted since its last turn here: without the position it starts anew.
            if left_position is None:
                raise


def _check_queued(queue_entry: Drop | None, conflict: RevisionConflict) -> None:
    """Give up a queued turn that another process took out of the queue."""
    if queue_entry is not None and conflict.kind == queue_entry.kind:
        raise conflict


async def _read_position(db: Database, thread: Thread, settings: Settings) -> ThreadPosition:
    """Read the position of a thread. The episode of another thread that had its id is over."""
    head, episode = await _head(thread), await active_episode(db, thread.id)
    if episode is not None and (head is None or head.owner != episode.user):
        # Its thread was deleted: whoever has the id now must hear nothing of what was noted there.
        own = owner_database(db, episode.user)
        await request_end(own, thread.id, by="deleted", now=settings.clock())
        return ThreadPosition(head=head, episode=None)
    return ThreadPosition(head=head, episode=episode)


async def _take_over(
    db: Database, thread: Thread, position: ThreadPosition, request: TurnRequest, settings: Settings
) -> Sequence[ExternalEffect] | None:
    """Refuse a thread that is not for this turn; else do to the run before it what the turn asks for.

    Return the effects of a run that was taken back, and None if the thread was not changed.
    """
    head = position.head
    if head is None:
        return None
    await check_thread_agent(thread, head, settings.agent)
    check_user_named(head.id, head.owner, request.user or db.user)
    return await take_over(db, head, request.busy, settings, own_run=request.run_id)


async def _wait_until_free(
    thread: Thread, position: ThreadPosition, request: TurnRequest, busy: TurnBusy, attempts: Attempts
) -> None:
    """Wait until the run that has the thread may have ended, if the turn is to wait and has not too long."""
    if request.busy in ("refuse", "queue") or position.head is None:
        raise busy
    attempts.check_time(busy)
    version = position.head.version
    if request.busy in TAKEOVERS:  # the run was asked to end, and every change may be its end
        await thread.wait_for_change(version, timeout=LOOK_AGAIN)
    else:
        await attempts.wait_for_change(thread, version, busy.retry_after_ms / 1000)


async def _start_at(
    db: Database,
    thread: Thread,
    position: ThreadPosition,
    request: TurnRequest,
    settings: Settings,
    queue_entry: Drop | None,
    effects: Sequence[ExternalEffect],
) -> StartedTurn:
    """Start a turn at a known position of its thread."""
    head = position.head
    release_writes = await _release_writes(db, thread, head, request, settings)
    run = _new_run(request, settings, head)
    items = await _new_items(thread, head, request.items)
    inbound = build_inbound(
        head,
        run,
        [msgspec.structs.replace(item, run=run.id) for item in items],
        inputs=inputs_for_resume(request),
        stage=first_stage_name(settings.stages),
        agent=settings.agent,
        replace=request.replace,
        schema=settings.schema,
        upgrades=settings.config.state.upgrades,
    )
    writes = release_writes if queue_entry is None else [*release_writes, queue_entry]
    return await _commit_inbound(db, position, run, inbound, writes, request, settings, tuple(effects))


async def _commit_inbound(
    db: Database,
    position: ThreadPosition,
    run: Run,
    inbound: Changeset,
    release_writes: Sequence[Write],
    request: TurnRequest,
    settings: Settings,
    effects: tuple[ExternalEffect, ...],
) -> StartedTurn:
    """Commit the first changeset with the run, its episode and the release of the run before: all or none."""
    head = position.head
    # Without a user a new thread belongs to the user of the database, and so does its episode.
    owner = head.owner if head is not None else request.user or db.user
    voice = request.spoken
    change = msgspec.structs.replace(
        inbound,
        reason=USER_MESSAGE if voice is None else VOICE_TURN,
        run_meta=_first_meta(run, voice, effects),
    )
    # The hash too: a thread that was deleted and made anew may be at the same version, and another person's.
    expect: Expectation = Exact(head.version, head.hash) if head is not None else Absent(owner)
    append = AppendTo(thread=run.thread, change=change, expect=expect)
    episode = _turn_episode(position.episode, head, request, owner, settings)
    record_writes = _record_writes(request, run, episode, owner, settings)
    writes = [
        append,
        Put(record=record_of(run, owner), expect=0),
        episode_write(episode, owner),
        *release_writes,
        *record_writes,
    ]
    with current_scope().watch_commit(change.reason):
        commit, run_record, episode_record, *_ = await db.commit(writes)
    assert isinstance(commit, Committed)
    assert isinstance(run_record, Record)
    assert isinstance(episode_record, Record)
    run = msgspec.structs.replace(run, revision=run_record.revision)
    journal = ThreadJournal(db, run, version=commit.version, owner=owner, clock=settings.clock)
    journal.episode = msgspec.structs.replace(episode, revision=episode_record.revision)
    change = msgspec.structs.replace(change, version=commit.version, time=commit.time)
    return StartedTurn(
        draft=_draft(journal.thread, position, change, request, settings),
        journal=journal,
        change=change,
        effects=effects,
    )


def _first_meta(run: Run, voice: VoiceReply | None, effects: tuple[ExternalEffect, ...]) -> Document:
    """Return what the first changeset of a run says about it, and about the run that it took back."""
    meta = meta_of(run, None if voice is None else Ending(termination=NATURAL))
    return {**meta, EFFECTS: as_json(effects)} if effects else meta


def _turn_episode(
    before: Episode | None, head: Head | None, request: TurnRequest, owner: str | None, settings: Settings
) -> Episode:
    """Return the episode that the turn belongs to, touched."""
    size = head.counters.logs.get(HISTORY, LogSize()) if head is not None else LogSize()
    modality = TEXT if request.spoken is None else VOICE
    episode = episode_for_turn(
        before,
        request.thread,
        owner,
        agent=settings.agent,
        now=settings.clock(),
        first=places.place_of(size.end + 1),
        modality=modality,
    )
    records = request.spoken.records if request.spoken is not None else ()
    level = max((record.level for record in records), default=0)
    return msgspec.structs.replace(episode, level=max(episode.level, level)) if level else episode


def _record_writes(
    request: TurnRequest, run: Run, episode: Episode, owner: str | None, settings: Settings
) -> list[Write]:
    """Return the writes of the records that a spoken turn brings with it."""
    records = request.spoken.records if request.spoken is not None else ()
    now = settings.clock()
    return [
        Put(record=stored_record(record, run, number, episode=episode.id, owner=owner, now=now))
        for number, record in enumerate(records, start=1)
    ]


def _draft(
    thread: Thread, position: ThreadPosition, change: Changeset, request: TurnRequest, settings: Settings
) -> Draft:
    """Return the draft on the state after the first changeset, without a read of what was just written."""
    head = position.head
    before = head.state if head is not None else {}
    state = ops.apply_ops(before if change.snapshot is None else change.snapshot, change.patches)
    sizes = head.counters.logs if head is not None else {}
    return Draft(
        settings.schema,
        state,
        sizes_after(sizes, change),
        request.inputs,
        log_reader(thread),
        # The first changeset was committed at the very version and hash of the position, so that nothing
        # else has changed the thread since its tails were read.
        tails_after(position.tails, [change], sizes),
    )


def log_reader(thread: Thread) -> ReadLog:
    """Return a function that reads the newest items of a thread's logs."""

    async def read(log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        return await thread.items(last=count, log=log, whole=whole)

    return read


async def _head(thread: Thread) -> Head | None:
    try:
        return await thread.head()
    except ThreadNotFound:
        return None


async def check_writable(db: Database, id: str, settings: Settings) -> None:
    """Refuse to write a thread of another agent, or of a guest; one that is not there yet is free.

    Raises:
        ThreadOfAnotherAgent: The thread is not this agent's to write.
    """
    thread = db.thread(id)
    if (head := await _head(thread)) is not None:
        await check_thread_agent(thread, head, settings.agent)


async def _check_seen(thread: Thread) -> None:
    """Refuse a thread that exists but belongs to another user, as if it did not exist."""
    if await _head(thread) is None:
        raise ThreadNotFound(thread=thread.id) from None


async def _new_items(thread: Thread, head: Head | None, items: Sequence[Item]) -> list[Item]:
    """Return the items that the thread has never had, however long ago.

    A client that sends its whole list of messages repeats those from before. The last may be repeated on
    purpose, after a rewind took it back.
    """
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
        agent=settings.agent,
        user=request.user,
        origin=request.origin,
        parent=request.parent,
        started=now,
        holder=this_process(),
        until=now + settings.config.leases.ms,
        key=request.key and request.fingerprint(),
        first=version,
        trace=current_scope().trace,
    )
    if request.spoken is None:
        return run
    result = TurnResult(thread=run.thread, run=run.id, version=version, text=request.spoken.reply)
    final_run = run_with_ending(run, Ending(termination=NATURAL), now)
    return msgspec.structs.replace(final_run, output=as_json(result) if request.key is not None else None)


def inputs_for_resume(request: TurnRequest) -> dict[str, JSON]:
    """Return the inputs that the state stores for a resume; a message that is in the history is left out."""
    return {name: value for name, value in request.inputs.items() if name != MESSAGE or not request.items}


# Other turns.


async def find_earlier_turn(
    db: Database, request: TurnRequest, settings: Settings
) -> TurnResult | Run | None:
    """Find the first turn with this key, unless it is at work: its result, or its interrupted run."""
    run = await earlier_run(db, request)
    if run is None:
        return None
    if run.output is not None:
        return stored_result(run.output, settings.output)
    if run.status == RUNNING and not is_orphaned(run, settings.clock()):
        return None  # the thread shows as busy
    return run


async def earlier_run(db: Database, request: TurnRequest) -> Run | None:
    """Find the run of the first turn with this key.

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
    """Return the writes that release the thread from an earlier run, for the commit of the first changeset.

    Raises:
        TurnSuspended: The earlier run waits for a decision.
        TurnBusy: The earlier run is at work, until its lease ends unless it is renewed.
    """
    if head is None:
        return ()
    run_state = RunState.of(head.state)
    if run_state.status == WAITING:
        calls = [approval.call for approval in run_state.approvals]
        raise TurnSuspended(thread=thread.id, run=run_state.id, calls=calls)
    if not run_state.is_open or run_state.status == INTERRUPTED:
        return ()
    try:
        run = run_of(await db.records.get(KIND, run_state.id))
    except RecordNotFound:
        return ()
    if run.status != RUNNING or run.thread != thread.id:  # that of another thread holds nothing here
        return ()
    if not is_orphaned(run, settings.clock()):
        remaining_ms = run.until - settings.clock()
        if request.busy == "wait":
            await _mark_awaited(db, run, request, head.owner)
        raise TurnBusy(thread=thread.id, run=run.id, retry_after_ms=max(remaining_ms, 0))
    # Only the record is closed: the first changeset replaces what the state says of the run, and closes the
    # calls that it left open.
    return close_run(run, head, PROCESS_LOST, settings.clock(), owner=head.owner).writes


async def _mark_awaited(db: Database, run: Run, request: TurnRequest, owner: str | None) -> None:
    """Mark a run, once, as awaited by a turn of another process.

    Raises:
        RevisionConflict: Its lease was renewed, or it has ended; the next look shows which.
    """
    # The same turn, sent a second time, waits for itself: there is nothing that the holder could let first.
    if run.awaited or run.id == request.run_id:
        return
    awaited = msgspec.structs.replace(run, awaited=True)
    await db.records.put(record_of(awaited, owner), expect=run.revision)
