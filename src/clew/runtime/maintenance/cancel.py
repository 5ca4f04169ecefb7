"""Ending a run that is not at work in this process: one elsewhere is told, one that waits is closed."""

import msgspec

from clew.core.errors import NotThere, RevisionConflict, VersionConflict
from clew.core.patch import delete, merge
from clew.core.values import AppendTo, Changeset, Exact, Head, Put
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.execution.start import is_over
from clew.runtime.records.events import RUN_FINISHED
from clew.runtime.records.runs import CANCELLED, DONE, KIND, RUNNING, Ending, Run, meta_of, record_of, run_of
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import closing, doubtful
from clew.runtime.turn.draft import CALLS, RUN
from clew.runtime.turn.inbound import standing
from clew.runtime.turn.journal import ended

ENDING = Ending(termination=CANCELLED)


async def is_seen(db: Database, thread: str) -> bool:
    """Whether a thread may be cancelled: a user's own, or any where the database is used for all users."""
    if db.user is None:
        return True
    try:
        await db.thread(thread).head()
    except NotThere:
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
            now = standing(head.state)
            if now.status == DONE or not now.id:
                return False
            run = run_of(await db.records.get(KIND, now.id))
        except NotThere:
            return False
        if run.thread != thread:  # a fork stands in the middle of its parent's, or the state was made up
            return False
        try:
            if run.status == RUNNING and not is_over(run, settings.clock()):
                told = msgspec.structs.replace(run, cancel=True)
                await db.records.put(record_of(told, head.owner), expect=run.revision)
            else:
                await _closed(db, head, run, settings.clock())
        except (VersionConflict, RevisionConflict) as conflict:
            attempts.count(conflict)
            continue
        return True


async def _closed(db: Database, head: Head, run: Run, now: int) -> None:
    """End a run that nobody is at: its calls are closed by one explicit item."""
    open = head.counters.open
    change = Changeset(
        items=(closing(open, head.state, "The run was cancelled before the tool answered."),) if open else (),
        patches=(delete([CALLS]), merge([RUN], {"status": DONE, "epoch": run.epoch + 1})),
        reason=RUN_FINISHED,
        run_id=run.id,
        parent_run_id=run.parent,
        run_meta=meta_of(run, ENDING),
    )
    over = msgspec.structs.replace(
        ended(run, ENDING, now), epoch=run.epoch + 1, in_doubt=doubtful(head.state)
    )
    await db.commit(
        [
            AppendTo(thread=run.thread, change=change, expect=Exact(head.version)),
            Put(record=record_of(over, head.owner), expect=run.revision),
        ]
    )
