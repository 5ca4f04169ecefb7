"""The queue of a thread: turns that wait in the store until the commit that starts them takes them out."""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from clew.core.encoding import as_json
from clew.core.errors import (
    ClewError,
    RecordNotFound,
    RevisionConflict,
    StoreDamaged,
    TurnBusy,
    TurnSuspended,
)
from clew.core.values import Drop, Put, Record, RecordQuery
from clew.database.database import Database
from clew.runtime.attempts import LOOK_AGAIN, Attempts
from clew.runtime.execution.start import TurnRequest
from clew.runtime.records.runs import CANCELLED, DEFAULT_AGENT, Ending, Run, record_of, run_with_ending

log = logging.getLogger("clew")
KIND = "queued turn"


def agent_tag(agent: str) -> str:
    """Return the tag of the turns that wait for an agent."""
    return f"agent:{agent}"


def queue_tags(thread: str, agent: str) -> tuple[str, ...]:
    """Return the tags of a queued turn."""
    return (f"thread:{thread}", agent_tag(agent))


async def enqueue_turn(
    db: Database, id: str, request: TurnRequest, now: int, *, agent: str = DEFAULT_AGENT
) -> None:
    """Put a turn at the end of its thread's queue."""
    await db.records.put(
        Record(
            kind=KIND,
            id=id,
            owner=request.user,
            tags=queue_tags(request.thread, agent),
            sort=now,
            body=as_json(request),
        ),
        expect=0,
    )


async def oldest_turn(db: Database, thread: str) -> tuple[TurnRequest, Drop] | None:
    """Return the turn that has waited longest on a thread, and the write that takes it out of the queue.

    Raises:
        StoreDamaged: Its record cannot be read, or its turn is another user's.
    """
    records = await db.records.find(RecordQuery(kind=KIND, tags=(f"thread:{thread}",), limit=1))
    if not records:
        return None
    drop = Drop(kind=KIND, id=records[0].id, expect=records[0].revision)
    return request_of(records[0]), drop


async def is_queued(db: Database, run: str) -> bool:
    """Return whether a turn is in the queue."""
    try:
        await db.records.get(KIND, run)
    except RecordNotFound:
        return False
    return True


async def cancel_turn(db: Database, id: str, *, now: int) -> bool:
    """Take a turn out of the queue, and record its run as cancelled; return whether it was still there."""
    try:
        record = await db.records.get(KIND, id)
    except RecordNotFound:
        return False
    request = request_of(record)
    run = Run(
        id=id,
        thread=request.thread,
        agent=_agent_of(record),
        user=request.user,
        origin=request.origin,
        started=record.sort,
        key=request.fingerprint(),
    )
    cancelled = run_with_ending(run, Ending(termination=CANCELLED), now)
    try:
        await db.commit(
            [
                Drop(kind=KIND, id=id, expect=record.revision),
                Put(record=record_of(cancelled, record.owner), expect=0),
            ]
        )
    except RevisionConflict:  # it has begun meanwhile
        return False
    return True


def _agent_of(record: Record) -> str:
    prefix = agent_tag("")
    return next((tag.removeprefix(prefix) for tag in record.tags if tag.startswith(prefix)), DEFAULT_AGENT)


async def wait_until_dequeued(db: Database, thread: str, run: str, *, seconds: float) -> None:
    """Return once a turn is no longer in the queue.

    Raises:
        TurnBusy: It is still there after so many seconds.
    """
    attempts = Attempts(seconds)
    while await is_queued(db, run):
        attempts.check_time(TurnBusy(thread=thread, run=run, retry_after_ms=int(LOOK_AGAIN * 1000)))
        version = (await db.thread(thread).head()).version
        await attempts.wait_for_change(db.thread(thread), version)


async def run_queued_turns(
    db: Database, thread: str, run_turn: Callable[[TurnRequest, Drop], Awaitable[object]]
) -> None:
    """Run the queued turns of a thread, one after another.

    A turn that fails is over, as its run says; one that another process started is left to it. If the thread
    waits for a decision, or a turn cannot start now, the rest stays in the queue.
    """
    while (turn := await oldest_turn(db, thread)) is not None:
        request, queue_entry = turn
        try:
            await run_turn(request, queue_entry)
            continue
        except TurnSuspended:
            return
        except ClewError as error:
            if not _is_taken(error):
                log.warning("A queued turn of thread %s failed: %s", thread, error)
        except Exception:  # a stage is not ours; the next turn goes on
            log.exception("A queued turn of thread %s failed.", thread)
        if await is_queued(db, queue_entry.id):
            return


def _is_taken(error: ClewError) -> bool:
    """Return whether another process has started the turn."""
    return isinstance(error, RevisionConflict) and error.kind == KIND


def request_of(record: Record) -> TurnRequest:
    """Return the request of a queued turn.

    Raises:
        StoreDamaged: The record cannot be read, or its turn is another user's.
    """
    try:
        request = msgspec.convert(record.body, TurnRequest)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"queued turn {record.id!r}", problem=str(error)) from error
    if request.user not in (None, record.owner):
        problem = f"it belongs to {record.owner!r} and is a turn of {request.user!r}"
        raise StoreDamaged(store=f"queued turn {record.id!r}", problem=problem)
    return request
