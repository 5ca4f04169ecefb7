"""The fixed reply that goes out whatever becomes of the store, the model or a later stage."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from clew.core.arguments import check_arguments
from clew.core.errors import ClewError, StateInvalid, StoreFailed
from clew.core.values import HISTORY, LogSize
from clew.database.database import Database
from clew.runtime.execution.pipeline import context_of, note, run_stages
from clew.runtime.execution.start import Asked
from clew.runtime.model.messages import Message
from clew.runtime.records.events import Event, TextDelta
from clew.runtime.records.runs import ERROR, Run
from clew.runtime.respond.respond import Stage
from clew.runtime.settings import Settings
from clew.runtime.state.schema import Fold, Lifecycle
from clew.runtime.turn.draft import Draft
from clew.runtime.turn.journal import Nowhere
from clew.runtime.turn.result import REPLIES, Done, done
from clew.runtime.turn.turn import Turn

log = logging.getLogger("clew")
GATE = "is_gate"
RECENT = 64
PROBLEM, CRISIS_LOG = "turn_problem", "crisis_log"
S = TypeVar("S", bound=Stage)


@check_arguments
def gate(stage: S) -> S:
    """Mark a stage that is run even if the store fails, so that a person in danger gets an answer.

    It sees this turn's message and an empty state then. It must do nothing to the world.
    """
    setattr(stage, GATE, True)
    return stage


async def without_store(
    db: Database, asked: Asked, settings: Settings, emit: Callable[[Event], None], failure: StoreFailed
) -> Done[Any]:
    """Run the gates alone, though nothing can be kept; the safe reply, if one of them declares it.

    Raises:
        StoreFailed: None does; it is the failure that was given.
    """
    gates = [stage for stage in settings.stages if getattr(stage, GATE, False)]
    if not gates:
        raise failure
    draft, journal = _passing(asked, settings)
    turn = Turn(draft, journal, settings.patience, emit)
    try:
        await run_stages(gates, context_of(turn, settings))
    except Exception as error:  # noqa: BLE001  # a stage is not ours: what it declared before goes out
        log.warning("A gate failed while the store did: %s", said_of(error))
    rows = [*journal.logged, *journal.unwritten()]
    settings.held_crises.hold(db, rows)
    if turn.safe is None:
        raise failure
    return answered(turn, settings, failure, held=bool(rows))


def _passing(asked: Asked, settings: Settings) -> tuple[Draft, Nowhere]:
    """What a turn stands on that has what the caller gave, and nothing else."""
    run = Run(id=settings.new_id(), thread=asked.thread, user=asked.user, started=settings.clock())
    journal = Nowhere(run, {HISTORY: list(asked.items)}, clock=settings.clock, days=settings.crisis_days)
    sizes = {HISTORY: LogSize(len(asked.items), len(asked.items))}
    return Draft(settings.schema, {}, sizes, asked.inputs, journal.read), journal


async def say(turn: Turn) -> None:
    """Put the safe reply into what is about to be committed, unless a stage has done so."""
    _show(turn)
    history = turn.draft.schema.fields.get(HISTORY)
    if history is None or history.fold is not Fold.APPEND:
        return
    said = [entry for entry in await turn.draft.log(HISTORY).tail(RECENT) if entry.run == turn.id]
    if not any(entry.role == "assistant" and entry.content == turn.safe for entry in said):
        turn.add([Message(role="assistant", content=turn.safe)])


def _show(turn: Turn) -> None:
    """Put the safe reply where the reply of a turn is looked for."""
    fields = turn.draft.schema.fields
    for name in REPLIES:
        if name in fields and fields[name].lifecycle is Lifecycle.TURN:
            turn.write("the runtime", {name: turn.safe})


def answered(
    turn: Turn, settings: Settings, failure: Exception, *, version: int = 0, held: bool = False
) -> Done[Any]:
    """The safe reply of a turn that failed, with what went wrong in its diagnostics."""
    _show(turn)
    note(turn, {PROBLEM: _name(failure), **({CRISIS_LOG: "held"} if held else {})})
    log.warning("Thread %s got its safe reply, though the turn failed: %s", turn.thread, said_of(failure))
    turn.tell(TextDelta(text=turn.safe or "", step=0))
    kind = settings.output
    try:
        result = done(turn, version=version, kind=kind, termination=ERROR)
    except StateInvalid:  # the output is what failed; the reply goes out without it
        result = Done[Any](
            thread=turn.thread, run=turn.id, version=version, termination=ERROR, usage=turn.usage
        )
    return msgspec.structs.replace(result, text=turn.safe or "")


def said_of(failure: Exception) -> str:
    """What the program's log says of a failure. A model's or a stage's own words may be the person's."""
    return str(failure) if isinstance(failure, StoreFailed) else _name(failure)


def _name(failure: Exception) -> str:
    return failure.code if isinstance(failure, ClewError) else type(failure).__name__
