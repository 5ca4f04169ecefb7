"""Driving a turn to its end, whichever end it is."""

import asyncio
from collections.abc import Callable

import msgspec

from clew.core.encoding import plain
from clew.core.errors import ClewError, Conflict, LeaseLost
from clew.core.patch import delete
from clew.runtime.execution.pipeline import ended_by, worked
from clew.runtime.execution.safe_reply import answered, say
from clew.runtime.execution.start import Started
from clew.runtime.records.events import Event, events_of, failed
from clew.runtime.records.runs import CANCELLED, ERROR, Ending
from clew.runtime.respond.view import unanswered
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import Waiting, closing, doubtful
from clew.runtime.turn.draft import CALLS
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.lease import Lease
from clew.runtime.turn.result import Done, done
from clew.runtime.turn.turn import Turn


async def drive(
    started: Started, settings: Settings, emit: Callable[[Event], None], begun: set[str] | None = None
) -> Done:
    """Run the stages of a turn that was started, and make its end durable.

    Once a stage has declared a safe reply, that goes out whatever fails.

    Raises:
        ClewError: The turn failed; its end says so, unless the store could not be told.
    """
    turn = Turn(
        started.draft,
        started.journal,
        settings.patience,
        emit,
        clock=settings.clock,
        prices=settings.prices,
    )
    turn.begun |= begun or set()
    if started.change is not None:
        for event in events_of(started.change):
            emit(event)
    task = asyncio.current_task()
    assert task is not None
    lease = Lease(started.journal, settings.lease_seconds, settings.clock, task.cancel)
    lease.start()
    try:
        return await _driven(turn, started, settings, lease)
    except Exception as failure:
        if turn.safe is None:
            raise
        held = bool(started.journal.unwritten())
        return answered(turn, settings, failure, version=started.journal.version, held=held)
    finally:
        started.journal.leave_to(settings.held_crises)


async def _driven(turn: Turn, started: Started, settings: Settings, lease: Lease) -> Done:
    try:
        ending, waiting, error = await worked(turn, settings)
    finally:
        await lease.end()
    if isinstance(error, LeaseLost):
        turn.tell(failed(error))
        raise error
    await _finish(turn, started, settings, ending, waiting, error)
    if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
        raise error
    return done(
        turn,
        version=started.journal.version,
        kind=settings.output,
        termination=ending.termination,
        waiting=waiting,
    )


async def _finish(
    turn: Turn,
    started: Started,
    settings: Settings,
    ending: Ending,
    waiting: tuple[Waiting, ...],
    error: BaseException | None,
) -> None:
    """Make the end durable; if that fails, say so instead of telling that the run has finished."""
    if isinstance(error, Conflict):
        turn.draft.drop_delta()
    if ending.termination in (CANCELLED, ERROR):
        await _close_calls(turn, started.journal)
    if ending.termination == ERROR and turn.safe is not None:
        await say(turn)
    if started.journal.run.key is not None:
        shown = done(turn, version=0, kind=settings.output, termination=ending.termination, waiting=waiting)
        started.journal.output = plain(shown)
    try:
        await _ended(turn, ending)
    except (ClewError, asyncio.CancelledError) as failure:
        if turn.draft.held is None or isinstance(failure, Conflict | LeaseLost):
            raise
        turn.draft.held = None  # the answer was not kept: the run ends with that, and keeps it then
        await _ended(turn, ended_by(failure))
        raise


async def _ended(turn: Turn, ending: Ending) -> None:
    try:
        await turn.finish(ending)
    except ClewError as failure:
        turn.tell(failed(failure))
        raise


async def _close_calls(turn: Turn, journal: ThreadJournal) -> None:
    """Answer calls that will never be answered, so that the next turn finds the history whole."""
    log = turn.draft.schema.fields.get("history")
    if log is None:
        return
    messages = [entry for entry in await turn.draft.log("history").tail(64) if entry.run == turn.id]
    open = {call.id: turn.id for call in unanswered(messages)}
    if open:
        turn.add([closing(dict(open), turn.draft.state, "The run ended before the tool answered.")])
        journal.run = msgspec.structs.replace(journal.run, in_doubt=doubtful(turn.draft.state))
    if CALLS in turn.draft.state:
        turn.draft.patch(delete([CALLS]))
