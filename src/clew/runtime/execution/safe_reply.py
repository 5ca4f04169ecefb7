"""The fixed reply that goes out whatever fails: the store, the model or a later stage."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from clew.core.arguments import check_arguments
from clew.core.errors import StateInvalid, StoreFailed
from clew.core.values import HISTORY, LogSize
from clew.database.database import Database
from clew.runtime.execution.pipeline import add_diagnostics, context_of, run_stages
from clew.runtime.execution.start import TurnRequest
from clew.runtime.model.messages import Message
from clew.runtime.model.redaction import error_name
from clew.runtime.records.events import Event, TextDelta
from clew.runtime.records.runs import ERROR, Run
from clew.runtime.respond.respond import Stage
from clew.runtime.settings import Settings
from clew.runtime.state.schema import Lifecycle
from clew.runtime.turn.draft import Draft
from clew.runtime.turn.journal import TransientJournal
from clew.runtime.turn.result import REPLY_FIELDS, TurnResult, result_of_turn
from clew.runtime.turn.turn import Turn

log = logging.getLogger("clew")
GATE = "is_gate"
RECENT_MESSAGES = 64
PROBLEM, PENDING = "turn_problem", "pending_records"
S = TypeVar("S", bound=Stage)


@check_arguments
def gate(stage: S) -> S:
    """Mark a stage that is run even if the store fails, so that a person in danger gets an answer.

    It sees this turn's message and an empty state then. It must do nothing to the world.
    """
    setattr(stage, GATE, True)
    return stage


async def run_gates_without_store(
    db: Database,
    request: TurnRequest,
    settings: Settings,
    emit: Callable[[Event], None],
    failure: StoreFailed,
) -> TurnResult[Any]:
    """Run the gates alone, without a store; return the safe reply, if one of them declares it.

    Raises:
        StoreFailed: None does; it is ``failure``.
    """
    gates = [stage for stage in settings.stages if getattr(stage, GATE, False)]
    if not gates:
        raise failure
    turn = _transient_turn(request, settings, emit)
    try:
        await run_stages(gates, context_of(turn, settings))
    except Exception as error:  # noqa: BLE001  # a stage is not ours: what it declared before goes out
        log.warning("A gate failed while the store did: %s", log_text_of(error))
    records = turn.journal.pending_records()
    settings.pending_records.add(db, records)
    if turn.safe_reply_text is None:
        raise failure
    return safe_result(turn, settings, failure, pending_count=len(records))


def _transient_turn(request: TurnRequest, settings: Settings, emit: Callable[[Event], None]) -> Turn:
    """Return a turn with the request alone, and nothing of the store."""
    run = Run(id=settings.new_id(), thread=request.thread, user=request.user, started=settings.clock())
    journal = TransientJournal(run, {HISTORY: list(request.items)}, clock=settings.clock)
    sizes = {HISTORY: LogSize(len(request.items), len(request.items))}
    draft = Draft(settings.schema, {}, sizes, request.inputs, journal.read)
    return Turn(draft, journal, settings.config.retry_policy, emit, deadlines=settings.config.deadlines)


async def add_safe_reply(turn: Turn) -> None:
    """Add the safe reply to the draft, unless a stage has done so."""
    _set_reply_fields(turn)
    if not turn.draft.schema.has_history:
        return
    messages = await own_messages(turn)
    if not any(entry.role == "assistant" and entry.content == turn.safe_reply_text for entry in messages):
        turn.add([Message(role="assistant", content=turn.safe_reply_text)])


async def own_messages(turn: Turn) -> list[Message]:
    """Return the messages of a turn among the newest of the history."""
    return [
        message for message in await turn.draft.log(HISTORY).tail(RECENT_MESSAGES) if message.run == turn.id
    ]


def _set_reply_fields(turn: Turn) -> None:
    """Put the safe reply into the fields that hold the reply of a turn."""
    fields = turn.draft.schema.fields
    for name in REPLY_FIELDS:
        if name in fields and fields[name].lifecycle is Lifecycle.TURN:
            turn.write("the runtime", {name: turn.safe_reply_text})


def safe_result(
    turn: Turn, settings: Settings, failure: Exception, *, version: int = 0, pending_count: int = 0
) -> TurnResult[Any]:
    """Return the safe reply as the result of a turn that failed, with the failure in its diagnostics.

    ``pending_count`` is the number of its records that wait for the store.
    """
    _set_reply_fields(turn)
    pending = {PENDING: pending_count} if pending_count else {}
    add_diagnostics(turn, {PROBLEM: error_name(failure), **pending})
    log.warning("Thread %s got its safe reply, though the turn failed: %s", turn.thread, log_text_of(failure))
    turn.notify(TextDelta(text=turn.safe_reply_text or "", step=0))
    kind = settings.output
    try:
        result = result_of_turn(turn, version=version, kind=kind, termination=ERROR)
    except StateInvalid:  # the output is what failed; the reply goes out without it
        result = TurnResult[Any](
            thread=turn.thread, run=turn.id, version=version, termination=ERROR, usage=turn.usage
        )
    return msgspec.structs.replace(result, text=turn.safe_reply_text or "")


def log_text_of(failure: Exception) -> str:
    """Return the text of a failure for the program's log. Words of a model or a stage may be the person's."""
    return str(failure) if isinstance(failure, StoreFailed) else error_name(failure)
