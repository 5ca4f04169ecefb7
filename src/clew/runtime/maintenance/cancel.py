"""Cancel a run of another process, which is asked to end it, or one that waits, which is closed here."""

from clew.core.errors import NotFound, RevisionConflict, VersionConflict
from clew.core.values import AppendTo, Exact
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.execution.takeover import request_stop
from clew.runtime.records.events import RUN_FINISHED
from clew.runtime.records.runs import CANCELLED, KIND, RUNNING, Ending, is_orphaned, run_of
from clew.runtime.settings import Settings
from clew.runtime.state.run_state import RunState
from clew.runtime.state.thread_agent import check_thread_agent
from clew.runtime.turn.closure import close_run

ENDING = Ending(termination=CANCELLED)


async def is_visible(db: Database, thread: str) -> bool:
    """Return whether the user may cancel on a thread: their own, or any if the database is for all users."""
    if db.user is None:
        return True
    try:
        await db.thread(thread).head()
    except NotFound:
        return False
    return True


async def cancel_elsewhere(db: Database, thread: str, settings: Settings) -> bool:
    """End the run that a thread's state names, and return whether there was one.

    Raises:
        ThreadOfAnotherAgent: The thread is not this agent's to write.
        Conflict: Others wrote again and again.
    """
    attempts = Attempts()
    while True:
        try:
            head = await db.thread(thread).head()
            run_state = RunState.of(head.state)
            if not run_state.is_open:
                return False
            run = run_of(await db.records.get(KIND, run_state.id))
        except NotFound:
            return False
        # A fork that was made in the middle of a run names a run of its parent, and a state can be made up.
        if run.thread != thread:
            return False
        await check_thread_agent(db.thread(thread), head, settings.agent)
        try:
            if run.status == RUNNING and not is_orphaned(run, settings.clock()):
                await request_stop(db, head, run, CANCELLED)
            else:
                closure = close_run(run, head, ENDING, settings.clock(), owner=head.owner)
                change = closure.changeset(RUN_FINISHED)
                append = AppendTo(thread=thread, change=change, expect=Exact(head.version))
                await db.commit([append, *closure.writes])
        except (VersionConflict, RevisionConflict) as conflict:
            attempts.count(conflict)
            continue
        return True
