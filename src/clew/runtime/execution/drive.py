"""Drive a turn that was started to its end, whichever end it is."""

import asyncio
from collections.abc import Callable

import msgspec

from clew.core.encoding import as_json
from clew.core.errors import ClewError, Conflict, LeaseLost, StateConflict
from clew.runtime.execution.pipeline import ending_of, run_pipeline
from clew.runtime.execution.safe_reply import add_safe_reply, own_messages, safe_result
from clew.runtime.execution.start import StartedTurn
from clew.runtime.model.messages import CUT_SHORT, Message
from clew.runtime.records.events import Event, error_event
from clew.runtime.records.runs import CANCELLED, ERROR, ROLLED_BACK, SUPERSEDED, Ending
from clew.runtime.respond.view import open_calls
from clew.runtime.settings import Settings
from clew.runtime.telemetry.scope import current_scope
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.lease import Lease
from clew.runtime.turn.result import TurnResult, result_of_turn
from clew.runtime.turn.turn import Turn

UNFINISHED = (CANCELLED, ERROR, SUPERSEDED, ROLLED_BACK)
"""The endings of a run whose open calls will never be answered."""


async def drive_turn(start: StartedTurn, settings: Settings, emit: Callable[[Event], None]) -> TurnResult:
    """Run the stages of a turn that was started, and make its end durable.

    Once a stage has declared a safe reply, that goes out whatever fails.

    Raises:
        ClewError: The turn failed; its end says so, unless the store failed too.
    """
    recorder = settings.live_texts.start(start.journal)
    turn = Turn(
        start.draft,
        start.journal,
        settings.config.retry_policy,
        emit,
        clock=settings.clock,
        deadlines=settings.config.deadlines,
        prices=settings.config.prices,
        recorder=recorder,
    )
    current_scope().begin_run(turn.id)
    turn.own_calls |= start.own_calls
    turn.rolled_back_effects = start.effects
    turn.notify_of(start.change)
    task = asyncio.current_task()
    assert task is not None
    lease = Lease(start.journal, settings.config.leases.seconds, settings.clock, task.cancel)
    lease.start()
    try:
        result = await _drive(turn, start, settings, lease)
        current_scope().end_run(result.termination)
        return result
    except Exception as failure:
        if turn.safe_reply_text is None:
            raise
        current_scope().end_run(ERROR, failure)
        return safe_result(
            turn,
            settings,
            failure,
            version=start.journal.version,
            pending_count=len(start.journal.pending_records()),
        )
    finally:
        start.journal.hand_over_records(settings.pending_records)
        await settings.live_texts.end(start.journal, recorder)


async def _drive(turn: Turn, start: StartedTurn, settings: Settings, lease: Lease) -> TurnResult:
    try:
        ending, error = await run_pipeline(turn, settings)
    finally:
        await lease.end()
    if ending.termination == CANCELLED:
        ending = _stop_ending(turn, start.journal)
    if isinstance(error, LeaseLost):
        turn.notify(error_event(error))
        raise error
    if isinstance(error, Conflict):
        turn.draft.drop_delta()  # the same changes would be refused once more, and the end with them
    await _finish_turn(turn, start.journal, settings, ending)
    if error is not None and not isinstance(error, asyncio.CancelledError):
        raise error
    version, kind = start.journal.version, settings.output
    return result_of_turn(turn, version=version, kind=kind, termination=ending.termination)


def _stop_ending(turn: Turn, journal: ThreadJournal) -> Ending:
    """Return the ending of a run that was stopped: as it was asked for, or else cancelled.

    A run that has declared a safe reply is not taken back: that reply has to be read.
    """
    stop = journal.run.stop or CANCELLED
    if stop == ROLLED_BACK and turn.safe_reply_text is not None:
        stop = SUPERSEDED
    return Ending(termination=stop)


async def _finish_turn(turn: Turn, journal: ThreadJournal, settings: Settings, ending: Ending) -> None:
    """Make the end durable; if that fails, send the failure instead of the event of the end."""
    if ending.termination in UNFINISHED:
        await _close_calls(turn, journal)
    if ending.termination in (ERROR, SUPERSEDED) and turn.safe_reply_text is not None:
        await add_safe_reply(turn)
        turn.defer_answer()
    elif ending.termination == SUPERSEDED:
        _add_unfinished_answer(turn)
    if journal.run.key is not None:
        # The version is that of the commit which stores this, so the journal fills it in.
        result = result_of_turn(turn, version=0, kind=settings.output, termination=ending.termination)
        journal.output = as_json(result)
    try:
        await _commit_ending(turn, ending)
    except (ClewError, asyncio.CancelledError) as failure:
        if isinstance(failure, StateConflict):
            turn.draft.drop_delta()  # the same changes would be refused once more, and the end with them
        elif turn.draft.deferred_checkpoint is None or isinstance(failure, Conflict):
            raise
        # The answer was not stored: the run ends with that failure. Unless it was refused, the answer is
        # stored with that end.
        turn.draft.drop_deferred_checkpoint()
        await _commit_ending(turn, ending_of(failure))
        raise


def _add_unfinished_answer(turn: Turn) -> None:
    """Add what an answer had said so far to the history, marked as cut short."""
    if turn.unfinished_text and turn.draft.schema.has_history:
        answer = Message(role="assistant", content=turn.unfinished_text, meta={CUT_SHORT: True})
        turn.add([answer])


async def _commit_ending(turn: Turn, ending: Ending) -> None:
    try:
        await turn.finish(ending)
    except ClewError as failure:
        turn.notify(error_event(failure))
        raise


async def _close_calls(turn: Turn, journal: ThreadJournal) -> None:
    """Close the calls that will never be answered, so that the next turn finds the history whole."""
    if not turn.draft.schema.has_history:
        return
    run_state = turn.run_state
    runs_by_call = {call.id: turn.id for call in open_calls(await own_messages(turn))}
    items = run_state.closing_items(runs_by_call, "The run ended before the tool answered.")
    if items:
        turn.add(items)
        journal.run = msgspec.structs.replace(journal.run, in_doubt=run_state.doubtful_calls)
    turn.draft.patch(*run_state.drop_calls_ops())
