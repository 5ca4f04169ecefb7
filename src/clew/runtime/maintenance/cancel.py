"""Ending a run that is not at work in this process: one elsewhere is told, one that waits is closed."""

import msgspec

from clew.core.errors import NotFound, RevisionConflict, VersionConflict
from clew.core.patch import delete, merge
from clew.core.values import AppendTo, Changeset, Exact, Head, Put
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.execution.start import is_orphaned
from clew.runtime.records.events import RUN_FINISHED
from clew.runtime.records.runs import CANCELLED, DONE, KIND, RUNNING, Ending, Run, meta_of, record_of, run_of
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import closing_item, doubtful_calls
from clew.runtime.turn.draft import CALLS, RUN
from clew.runtime.turn.inbound import run_state_of
from clew.runtime.turn.journal import run_with_ending

ENDING = Ending(termination=CANCELLED)


async def is_visible(db: Database, thread: str) -> bool:
    """Whether a thread may be cancelled: a user's own, or any where the database is used for all users."""
    if db.user is None:
        return True
    try:
        await db.thread(thread).head()
    except NotFound:
        return False
    return True


async def cancel_elsewhere(db: Database, thread: str, settings: Settings) -> bool:
    """End the run that a thread's state names; whether there was one. A run of another thread is left alone.

    Raises:
        Conflict: Others wrote again and again.
    """
    attempts = Attempts()
    while True:
        try:
            head = await db.thread(thread).head()
            run_state = run_state_of(head.state)
            if run_state.status == DONE or not run_state.id:
                return False
            run = run_of(await db.records.get(KIND, run_state.id))
        except NotFound:
            return False
        if run.thread != thread:  # a fork stands in the middle of its parent's, or the state was made up
            return False
        try:
            if run.status == RUNNING and not is_orphaned(run, settings.clock()):
                cancel_request = msgspec.structs.replace(run, cancel=True)
                await db.records.put(record_of(cancel_request, head.owner), expect=run.revision)
            else:
                await _close_run(db, head, run, settings.clock())
        except (VersionConflict, RevisionConflict) as conflict:
            attempts.count(conflict)
            continue
        return True


async def _close_run(db: Database, head: Head, run: Run, now: int) -> None:
    """End a run that nobody is at: its calls are closed by one explicit item."""
    open_calls = head.counters.open
    change = Changeset(
        items=(closing_item(open_calls, head.state, "The run was cancelled before the tool answered."),)
        if open_calls
        else (),
        patches=(delete([CALLS]), merge([RUN], {"status": DONE, "epoch": run.epoch + 1})),
        reason=RUN_FINISHED,
        run_id=run.id,
        parent_run_id=run.parent,
        run_meta=meta_of(run, ENDING),
    )
    final_run = msgspec.structs.replace(
        run_with_ending(run, ENDING, now), epoch=run.epoch + 1, in_doubt=doubtful_calls(head.state)
    )
    await db.commit(
        [
            AppendTo(thread=run.thread, change=change, expect=Exact(head.version)),
            Put(record=record_of(final_run, head.owner), expect=run.revision),
        ]
    )
