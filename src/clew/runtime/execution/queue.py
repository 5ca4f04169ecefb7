"""Turns that wait their turn: kept in the store, and taken out by the commit that begins them."""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from clew.core.encoding import plain
from clew.core.errors import (
    ClewError,
    RecordNotFound,
    RevisionConflict,
    StoreDamaged,
    TurnBusy,
    TurnSuspended,
)
from clew.core.values import Drop, Record, RecordQuery
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.execution.start import Asked
from clew.runtime.execution.turn_lines import LOOK_AGAIN, BusyWait

log = logging.getLogger("clew")
KIND = "queued turn"


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that waits, and the write that takes it out of the queue."""

    asked: Asked
    leave: Drop


async def enqueue(db: Database, id: str, asked: Asked, now: int) -> None:
    """Put a turn at the end of its thread's queue."""
    await db.records.put(
        Record(
            kind=KIND,
            id=id,
            owner=asked.user,
            tags=(f"thread:{asked.thread}",),
            sort=now,
            body=plain(asked),
        ),
        expect=0,
    )


async def first(db: Database, thread: str | None = None) -> Queued | None:
    """The turn that has waited longest, of one thread or of all."""
    tags = () if thread is None else (f"thread:{thread}",)
    found = await db.records.find(RecordQuery(kind=KIND, tags=tags, limit=1))
    return queued_of(found[0]) if found else None


async def holds(db: Database, run: str) -> bool:
    """Whether a turn is in the queue."""
    try:
        await db.records.get(KIND, run)
    except RecordNotFound:
        return False
    return True


async def left(db: Database, thread: str, run: str, *, seconds: float) -> None:
    """Return once a turn is no longer in the queue.

    Raises:
        TurnBusy: It is still there after so many seconds.
    """
    attempts, wait = Attempts(seconds), BusyWait()
    while await holds(db, run):
        attempts.check_time(TurnBusy(thread=thread, run=run, retry_after_ms=int(LOOK_AGAIN * 1000)))
        version = (await db.thread(thread).head()).version
        await wait.until_change(db.thread(thread), version)


async def drained(db: Database, thread: str, begin: Callable[[Asked, Drop], Awaitable[object]]) -> None:
    """Run the turns that wait on a thread, one after another.

    A turn that fails is over, as its run says; one that somebody else began is theirs. If the thread waits
    for a decision, so do the rest; and if a turn cannot begin now, until it can.
    """
    while (queued := await first(db, thread)) is not None:
        try:
            await begin(queued.asked, queued.leave)
            continue
        except TurnSuspended:
            return
        except ClewError as error:
            if not _is_taken(error):
                log.warning("A queued turn of thread %s failed: %s", thread, error)
        except Exception:  # a stage is not ours; the next turn goes on
            log.exception("A queued turn of thread %s failed.", thread)
        if await holds(db, queued.leave.id):
            return


def _is_taken(error: ClewError) -> bool:
    """Whether somebody else has begun a turn."""
    return isinstance(error, RevisionConflict) and error.kind == KIND


def queued_of(record: Record) -> Queued:
    """The turn behind a record.

    Raises:
        StoreDamaged: The record cannot be read, or its turn is another user's.
    """
    try:
        asked = msgspec.convert(record.body, Asked)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"queued turn {record.id!r}", problem=str(error)) from error
    if asked.user not in (None, record.owner):
        problem = f"it belongs to {record.owner!r} and is a turn of {asked.user!r}"
        raise StoreDamaged(store=f"queued turn {record.id!r}", problem=problem)
    return Queued(asked=asked, leave=Drop(kind=KIND, id=record.id, expect=record.revision))
