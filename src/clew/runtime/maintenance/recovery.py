"""Runs whose process died: found by their lease, closed as interrupted, so that nothing waits for them."""

from collections.abc import AsyncIterator

import msgspec

from clew.core import patch
from clew.core.errors import NotThere, RevisionConflict, VersionConflict
from clew.core.values import AppendTo, Changeset, Exact, Put, Record, RecordQuery, Write
from clew.database.database import Database, owner_database
from clew.runtime.execution.start import is_over
from clew.runtime.records.refusals import REFUSED
from clew.runtime.records.runs import INTERRUPTED, KIND, RUNNING, Ending, Run, record_of, run_of
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import doubtful
from clew.runtime.turn.draft import RUN
from clew.runtime.turn.inbound import spent, standing
from clew.runtime.turn.journal import ended

PAGE = 100
LOST = Ending(termination=INTERRUPTED, problem="Its process ended before it did.")


async def recover(db: Database, settings: Settings) -> list[Run]:
    """Close every run that nobody holds any more; those that were closed now.

    Its thread is left as it is, but for the mark that the run is interrupted: it can be resumed, and the
    next turn closes what it left open. Each is closed with the rights of its owner, so a record that names
    another's thread closes nothing there.
    """
    closed: list[Run] = []
    async for record in _running(db):
        if settings.refusals.covers(record):
            continue
        try:
            run = run_of(record)
            if is_over(run, settings.clock()):
                own = owner_database(db, record.owner)
                closed.append(await _closed(own, run, record, settings.clock()))
        except (VersionConflict, RevisionConflict):
            continue  # somebody else is at it, or the run is alive after all
        except REFUSED as error:
            settings.refusals.add(record, error)
    return closed


async def _running(db: Database) -> AsyncIterator[Record]:
    after: tuple[int, str] | None = None
    while True:
        query = RecordQuery(kind=KIND, tags=(f"status:{RUNNING}",), limit=PAGE, after=after)
        found = await db.records.find(query)
        for record in found:
            yield record
        if len(found) < PAGE:
            return
        after = (found[-1].sort, found[-1].id)


async def _closed(db: Database, run: Run, record: Record, now: int) -> Run:
    over = ended(run, LOST, now)
    writes: list[Write] = []
    try:
        head = await db.thread(run.thread).head()
    except NotThere:
        head = None  # the thread was deleted; only its record is left
    if head is not None and standing(head.state).id == run.id:
        over = spent(over, standing(head.state))
        over = msgspec.structs.replace(over, epoch=run.epoch + 1, in_doubt=doubtful(head.state))
        change = Changeset(
            patches=(patch.merge([RUN], {"status": INTERRUPTED, "epoch": over.epoch}),),
            reason="RunInterrupted",
            run_id=run.id,
            run_meta={"status": INTERRUPTED, "termination": INTERRUPTED, "problem": LOST.problem},
        )
        writes.append(AppendTo(thread=run.thread, change=change, expect=Exact(head.version)))
    writes.append(Put(record=record_of(over, record.owner), expect=record.revision))
    await db.commit(writes)
    return over
