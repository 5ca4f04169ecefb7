"""Takeover: a new turn ends the run that has its thread; what that run said stays, or is taken back."""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from clew.core.errors import NotFound, RecordNotFound, RevisionConflict, RewindRefused, VersionConflict
from clew.core.values import AppendTo, Changeset, Exact, Head, Put
from clew.database.database import Database
from clew.runtime.execution.rollback import take_back_run
from clew.runtime.records.effects import ExternalEffect
from clew.runtime.records.events import RUN_FINISHED
from clew.runtime.records.runs import (
    CANCELLED,
    KIND,
    ROLLED_BACK,
    RUNNING,
    SUPERSEDED,
    WAITING,
    Ending,
    Run,
    is_orphaned,
    record_of,
    run_of,
)
from clew.runtime.settings import Settings
from clew.runtime.state.run_state import RunState, stop_op
from clew.runtime.state.thread_agent import check_thread_agent
from clew.runtime.turn.closure import RunClosure, close_run

log = logging.getLogger("clew")

TAKEOVERS: Final = {"interrupt": SUPERSEDED, "rollback": ROLLED_BACK}
"""The ending of the run that has the thread, by what the turn that takes the thread over wants."""
STOP_REQUESTED: Final = "StopRequested"
"""The reason of the changeset that asks the holder of a run to end it."""
_WEIGHTS: Final = {None: 0, CANCELLED: 1, SUPERSEDED: 2, ROLLED_BACK: 3}
"""Of two requests to end a run the one that changes more is met."""


async def request_stop(db: Database, head: Head, run: Run, termination: str) -> None:
    """Ask the process that holds a run to end it, unless it was asked for that or more before.

    The request is a changeset of the thread, which wakes the holder at once, in whatever process it is.

    Raises:
        VersionConflict: The thread was written meanwhile, perhaps with the end of the run.
        RevisionConflict: The lease of the run was renewed meanwhile, or the run has ended.
    """
    if _WEIGHTS[run.stop] >= _WEIGHTS[termination]:
        return
    # Not in the name of the run: its holder knows every changeset of its own.
    change = Changeset(patches=(stop_op(termination),), reason=STOP_REQUESTED)
    marked_run = msgspec.structs.replace(run, stop=termination)
    await db.commit(
        [
            AppendTo(thread=run.thread, change=change, expect=Exact(head.version)),
            Put(record=record_of(marked_run, head.owner), expect=run.revision),
        ]
    )


async def stop_current_run(
    db: Database, thread: str, termination: str, settings: Settings, *, own_run: str | None
) -> None:
    """Ask for the end of the run that is at work on a thread, if one is, and if it is not ``own_run``.

    Nothing is done if the thread is written meanwhile: the caller looks again anyway.

    Raises:
        ThreadOfAnotherAgent: The thread is not this agent's to write.
    """
    try:
        head = await db.thread(thread).head()
        run = await _open_run(db, head)
        if run is None or run.id == own_run or not _is_at_work(run, settings):
            return
        await check_thread_agent(db.thread(thread), head, settings.agent)
        await request_stop(db, head, run, termination)
    except (NotFound, VersionConflict, RevisionConflict):
        return


async def take_over(
    db: Database, head: Head, busy: str, settings: Settings, *, own_run: str | None
) -> Sequence[ExternalEffect] | None:
    """Do to the run before what a turn asks for by ``busy``; None if the thread was not changed by it.

    A run at work is asked to end. One that waits for a decision is closed, and its calls count as not
    approved. One that is to be rolled back is taken back as soon as no process works on it, also if the turn
    that asked for it is gone. Then the result is what it did to the world.

    Raises:
        RewindRefused: Others wrote behind the run that should be taken back.
        VersionConflict: The thread was written meanwhile; nothing was changed.
        RevisionConflict: The record of the run was written meanwhile; nothing was changed.
    """
    run_state, termination = RunState.of(head.state), TAKEOVERS.get(busy)
    if termination is None and run_state.stop != ROLLED_BACK:
        return None
    run = await _open_run(db, head)
    if run is None or run.id == own_run:
        return None
    if _is_at_work(run, settings):
        if termination is not None:
            await request_stop(db, head, run, termination)
        return None
    if ROLLED_BACK in (run_state.stop, termination) and run_state.safe_reply is None:
        return await _roll_back(db, head, run, settings, must=termination == ROLLED_BACK)
    if termination is not None and run_state.status == WAITING:
        closure = close_run(run, head, Ending(termination=SUPERSEDED), settings.clock(), owner=head.owner)
        change = closure.changeset(RUN_FINISHED)
        await db.commit(
            [AppendTo(thread=head.id, change=change, expect=Exact(head.version)), *closure.writes]
        )
        return ()
    return None


def _is_at_work(run: Run, settings: Settings) -> bool:
    return run.status == RUNNING and not is_orphaned(run, settings.clock())


async def _open_run(db: Database, head: Head) -> Run | None:
    """Return the run that a thread names, if it has not ended, or has ended and is to be taken back."""
    run_state = RunState.of(head.state)
    if not run_state.is_open and run_state.stop != ROLLED_BACK:
        return None
    try:
        run = run_of(await db.records.get(KIND, run_state.id))
    except RecordNotFound:
        return None
    # One that ended by itself before it saw the request has given its answer, which stays.
    is_left = run_state.is_open or run.termination == ROLLED_BACK
    return run if is_left and run.thread == head.id else None  # a fork names a run of its parent


async def _roll_back(
    db: Database, head: Head, run: Run, settings: Settings, *, must: bool
) -> Sequence[ExternalEffect]:
    """Take back a run that no process works on; return what it did to the world."""
    run_state = RunState.of(head.state)
    closure = RunClosure()
    if run_state.is_open:
        ending = Ending(termination=ROLLED_BACK)
        closure = close_run(run, head, ending, settings.clock(), owner=head.owner)
    # Without the request, or the next turn would take it back once more.
    closure = msgspec.structs.replace(closure, patches=(*closure.patches, stop_op(None)))
    try:
        result = await take_back_run(db, head, run.id, closure, may_be_empty=True)
        if result.version <= head.version:  # a person did so meanwhile, and the request is still there
            await _drop_request(db, head, run)
        return result.effects
    except RewindRefused as refusal:
        if run_state.stop is not None:
            termination = SUPERSEDED if run.termination == ROLLED_BACK else run.termination
            await _drop_request(db, head, msgspec.structs.replace(run, termination=termination))
        if must:
            raise
        log.warning("Run %s of thread %s has ended, but is not taken back: %s", run.id, head.id, refusal)
        return ()


async def _drop_request(db: Database, head: Head, run: Run) -> None:
    """Drop the request to take back a run, which cannot or need not be met: every turn would try it again."""
    changed_run = msgspec.structs.replace(run, stop=None)
    change = Changeset(patches=(stop_op(None),), reason=STOP_REQUESTED)
    await db.commit(
        [
            AppendTo(thread=head.id, change=change, expect=Exact(head.version)),
            Put(record=record_of(changed_run, head.owner), expect=run.revision),
        ]
    )
