"""Runs whose process died: found by their lease, closed as interrupted, so that nothing waits for them."""

from collections.abc import AsyncIterator

import msgspec

from clew.core import patch
from clew.core.errors import NotFound, RevisionConflict, VersionConflict
from clew.core.values import AppendTo, Changeset, Exact, Put, Record, RecordQuery, Write
from clew.database.database import Database, owner_database
from clew.runtime.execution.start import is_orphaned
from clew.runtime.records.refusals import REFUSED
from clew.runtime.records.runs import INTERRUPTED, KIND, RUNNING, Ending, Run, record_of, run_of
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import doubtful_calls
from clew.runtime.turn.draft import RUN
from clew.runtime.turn.inbound import run_state_of, with_latest_usage
from clew.runtime.turn.journal import run_with_ending

RUNS_PER_PAGE = 100
PROCESS_LOST = Ending(termination=INTERRUPTED, problem="Its process ended before it did.")


async def recover_runs(db: Database, settings: Settings) -> list[Run]:
    """Close every run that nobody holds any more; those that were closed now.

    Its thread is left as it is, but for the mark that the run is interrupted: it can be resumed, and the
    next turn closes what it left open. Each is closed with the rights of its owner, so a record that names
    another's thread closes nothing there.
    """
    runs: list[Run] = []
    async for record in _running_records(db):
        if settings.refusals.covers(record):
            continue
        try:
            run = run_of(record)
            if is_orphaned(run, settings.clock()):
                own = owner_database(db, record.owner)
                runs.append(await _close_run(own, run, record, settings.clock()))
        except (VersionConflict, RevisionConflict):
            continue  # somebody else is at it, or the run is alive after all
        except REFUSED as error:
            settings.refusals.add(record, error)
    return runs


async def _running_records(db: Database) -> AsyncIterator[Record]:
    after: tuple[int, str] | None = None
    while True:
        query = RecordQuery(kind=KIND, tags=(f"status:{RUNNING}",), limit=RUNS_PER_PAGE, after=after)
        records = await db.records.find(query)
        for record in records:
            yield record
        if len(records) < RUNS_PER_PAGE:
            return
        after = (records[-1].sort, records[-1].id)


async def _close_run(db: Database, run: Run, record: Record, now: int) -> Run:
    final_run = run_with_ending(run, PROCESS_LOST, now)
    writes: list[Write] = []
    try:
        head = await db.thread(run.thread).head()
    except NotFound:
        head = None  # the thread was deleted; only its record is left
    if head is not None and run_state_of(head.state).id == run.id:
        final_run = with_latest_usage(final_run, run_state_of(head.state))
        final_run = msgspec.structs.replace(
            final_run, epoch=run.epoch + 1, in_doubt=doubtful_calls(head.state)
        )
        change = Changeset(
            patches=(patch.merge([RUN], {"status": INTERRUPTED, "epoch": final_run.epoch}),),
            reason="RunInterrupted",
            run_id=run.id,
            run_meta={"status": INTERRUPTED, "termination": INTERRUPTED, "problem": PROCESS_LOST.problem},
        )
        writes.append(AppendTo(thread=run.thread, change=change, expect=Exact(head.version)))
    writes.append(Put(record=record_of(final_run, record.owner), expect=record.revision))
    await db.commit(writes)
    return final_run
