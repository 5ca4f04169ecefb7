"""Recovery: runs whose process died are found by their lease and closed as interrupted."""

from clew.core.errors import NotFound, RevisionConflict, VersionConflict
from clew.core.values import AppendTo, Exact, Head, Put, Record, RecordQuery, Write
from clew.database.database import Database, owner_database
from clew.database.records import record_pages
from clew.runtime.records.refusals import REFUSED
from clew.runtime.records.runs import KIND, RUNNING, Run, is_orphaned, record_of, run_of, run_with_ending
from clew.runtime.settings import Settings
from clew.runtime.state.run_state import RunState
from clew.runtime.turn.closure import PROCESS_LOST, close_run

RUNS_PER_PAGE = 100
RUN_INTERRUPTED = "RunInterrupted"


async def recover_runs(db: Database, settings: Settings) -> list[Run]:
    """Close every run of this agent that no process holds any more; return those that were closed.

    The thread is left as it is, but for the status of the run: it can be resumed, and the next turn closes
    the calls that it left open.
    """
    runs: list[Run] = []
    query = RecordQuery(kind=KIND, tags=(f"status:{RUNNING}",), limit=RUNS_PER_PAGE)
    async for records in record_pages(db.records, query):
        for record in records:
            if settings.refusals.covers(record):
                continue
            try:
                run = run_of(record)
                if run.agent == settings.agent and is_orphaned(run, settings.clock()):
                    # With its owner's rights a record that names another user's thread closes nothing there.
                    own = owner_database(db, record.owner)
                    runs.append(await _recover_run(own, run, record, settings.clock()))
            except (VersionConflict, RevisionConflict):
                continue  # another process closes or resumes it, or it is alive after all
            except REFUSED as error:
                # One record that cannot be read or closed must not keep the sweep from all the others.
                settings.refusals.add(record, error)
    return runs


async def _recover_run(db: Database, run: Run, record: Record, now: int) -> Run:
    """Close one run, on its thread as far as the thread still names it."""
    head = await _head_naming(db, run)
    if head is None:
        closed_run = run_with_ending(run, PROCESS_LOST, now)
        await db.commit([Put(record=record_of(closed_run, record.owner), expect=record.revision)])
        return closed_run
    closure = close_run(run, head, PROCESS_LOST, now, owner=record.owner)
    assert closure.run is not None
    # Both or none: at this exact version the run is the one that the thread names, and at this revision its
    # holder has neither renewed its lease nor ended it.
    change = closure.changeset(RUN_INTERRUPTED)
    append: Write = AppendTo(thread=run.thread, change=change, expect=Exact(head.version))
    await db.commit([append, *closure.writes])
    return closure.run


async def _head_naming(db: Database, run: Run) -> Head | None:
    """Return the head of a run's thread, if it names the run; None also if the thread was deleted."""
    try:
        head = await db.thread(run.thread).head()
    except NotFound:
        return None
    return head if RunState.of(head.state).id == run.id else None
