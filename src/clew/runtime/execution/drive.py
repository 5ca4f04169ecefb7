"""Driving a turn to its end, whichever end it is."""

import asyncio
from collections.abc import Callable

import msgspec

from clew.core.encoding import as_json
from clew.core.errors import ClewError, Conflict, LeaseLost
from clew.core.patch import delete
from clew.runtime.execution.pipeline import ending_of, run_pipeline
from clew.runtime.execution.safe_reply import add_safe_reply, safe_result
from clew.runtime.execution.start import StartedTurn
from clew.runtime.records.events import Event, error_event, events_of
from clew.runtime.records.runs import CANCELLED, ERROR, Ending
from clew.runtime.respond.view import open_calls
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import Approval, closing_item, doubtful_calls
from clew.runtime.turn.draft import CALLS
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.lease import Lease
from clew.runtime.turn.result import TurnResult, result_of_turn
from clew.runtime.turn.turn import Turn


async def drive_turn(
    start: StartedTurn, settings: Settings, emit: Callable[[Event], None], own_calls: set[str] | None = None
) -> TurnResult:
    """Run the stages of a turn that was started, and make its end durable.

    Once a stage has declared a safe reply, that goes out whatever fails.

    Raises:
        ClewError: The turn failed; its end says so, unless the store could not be told.
    """
    turn = Turn(
        start.draft,
        start.journal,
        settings.config.retry_policy,
        emit,
        clock=settings.clock,
        deadlines=settings.config.deadlines,
        prices=settings.config.prices,
    )
    turn.own_calls |= own_calls or set()
    if start.change is not None:
        for event in events_of(start.change):
            emit(event)
    task = asyncio.current_task()
    assert task is not None
    lease = Lease(start.journal, settings.config.leases.seconds, settings.clock, task.cancel)
    lease.start()
    try:
        return await _drive(turn, start, settings, lease)
    except Exception as failure:
        if turn.safe_reply_text is None:
            raise
        is_log_pending = bool(start.journal.pending_rows())
        return safe_result(
            turn, settings, failure, version=start.journal.version, is_log_pending=is_log_pending
        )
    finally:
        start.journal.hand_over_rows(settings.pending_crises)


async def _drive(turn: Turn, start: StartedTurn, settings: Settings, lease: Lease) -> TurnResult:
    try:
        ending, approvals, error = await run_pipeline(turn, settings)
    finally:
        await lease.end()
    if isinstance(error, LeaseLost):
        turn.notify(error_event(error))
        raise error
    await _finish_turn(turn, start, settings, ending, approvals, error)
    if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
        raise error
    return result_of_turn(
        turn,
        version=start.journal.version,
        kind=settings.output,
        termination=ending.termination,
        approvals=approvals,
    )


async def _finish_turn(
    turn: Turn,
    start: StartedTurn,
    settings: Settings,
    ending: Ending,
    approvals: tuple[Approval, ...],
    error: BaseException | None,
) -> None:
    """Make the end durable; if that fails, say so instead of telling that the run has finished."""
    if isinstance(error, Conflict):
        turn.draft.drop_delta()
    if ending.termination in (CANCELLED, ERROR):
        await _close_calls(turn, start.journal)
    if ending.termination == ERROR and turn.safe_reply_text is not None:
        await add_safe_reply(turn)
    if start.journal.run.key is not None:
        result = result_of_turn(
            turn, version=0, kind=settings.output, termination=ending.termination, approvals=approvals
        )
        start.journal.output = as_json(result)
    try:
        await _commit_ending(turn, ending)
    except (ClewError, asyncio.CancelledError) as failure:
        if turn.draft.deferred_checkpoint is None or isinstance(failure, Conflict | LeaseLost):
            raise
        turn.draft.deferred_checkpoint = (
            None  # the answer was not kept: the run ends with that, and keeps it then
        )
        await _commit_ending(turn, ending_of(failure))
        raise


async def _commit_ending(turn: Turn, ending: Ending) -> None:
    try:
        await turn.finish(ending)
    except ClewError as failure:
        turn.notify(error_event(failure))
        raise


async def _close_calls(turn: Turn, journal: ThreadJournal) -> None:
    """Answer calls that will never be answered, so that the next turn finds the history whole."""
    history = turn.draft.schema.fields.get("history")
    if history is None:
        return
    messages = [entry for entry in await turn.draft.log("history").tail(64) if entry.run == turn.id]
    runs_by_call = {call.id: turn.id for call in open_calls(messages)}
    if runs_by_call:
        turn.add(
            [closing_item(dict(runs_by_call), turn.draft.state, "The run ended before the tool answered.")]
        )
        journal.run = msgspec.structs.replace(journal.run, in_doubt=doubtful_calls(turn.draft.state))
    if CALLS in turn.draft.state:
        turn.draft.patch(delete([CALLS]))
