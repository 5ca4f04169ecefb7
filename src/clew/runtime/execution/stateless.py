"""One turn that keeps nothing: the same pipeline, without a store."""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from clew.core.arguments import check_arguments, check_fields
from clew.core.encoding import JSON
from clew.core.values import HISTORY, LogSize
from clew.database.database import Database
from clew.runtime.context import CrisisLog, MemoryMode, MemoryStore
from clew.runtime.execution.pipeline import worked
from clew.runtime.execution.safe_reply import answered, said_of
from clew.runtime.model.call import Patience
from clew.runtime.model.messages import Message, item_of
from clew.runtime.model.names import ModelOrName, model_of
from clew.runtime.records.events import Event
from clew.runtime.records.runs import Run
from clew.runtime.records.steps import Prices
from clew.runtime.respond.respond import Stage, respond
from clew.runtime.settings import Settings
from clew.runtime.state.declaration import schema_of
from clew.runtime.state.inputs import Given, checked_inputs, user_item
from clew.runtime.state.schema import Conversation, State
from clew.runtime.state.upgrades import replaced
from clew.runtime.tools.tool import Function, Tool
from clew.runtime.turn.draft import Draft
from clew.runtime.turn.journal import Nowhere
from clew.runtime.turn.result import Done, Output, done
from clew.runtime.turn.turn import Turn
from clew.stores import memory

log = logging.getLogger("clew")


@check_arguments
async def run_agent(
    message: Given,
    *,
    schema: type[State] = Conversation,
    stages: Sequence[Stage] | None = None,
    model: ModelOrName | None = None,
    response_model: ModelOrName | None = None,
    tools: Sequence[Tool | Function] = (),
    instructions: str = "",
    output: type[Output] | None = None,
    history: Sequence[Message] = (),
    state: Mapping[str, JSON] | None = None,
    memory_store: MemoryStore | None = None,
    crisis_log_backend: CrisisLog | None = None,
    patience: Patience | None = None,
    prices: Prices | None = None,
    told: Callable[[Event], None] = lambda event: None,
) -> Done[Output]:
    """Run one turn on what is given, and keep nothing. What came before comes in as history and state.

    A model may be given by its name, and a tool as the function that it is made of.

    Raises:
        StateInvalid: An input, or the state given, does not fit the schema.
        RunFailed: The turn could not be finished.
    """
    passing = Database(memory.MemoryStore()).records  # they last as long as the turn that writes them
    opened = AsyncExitStack()
    settings = Settings(
        schema=schema_of(schema),
        stages=[respond(instructions=instructions, tools=tools)] if stages is None else list(stages),
        model=model_of(model, opened),
        response_model=model_of(response_model, opened),
        output=output,
        patience=patience or Patience(),
        prices=prices or {},
        memory_mode=MemoryMode.INCOGNITO,
        memory_store=memory_store or passing,
        crisis_log_backend=crisis_log_backend or passing,
    )
    async with opened:
        return await _run(settings, *_turn(settings, message, history, state or {}, told))


async def _run(settings: Settings, turn: Turn, journal: Nowhere) -> Done[Any]:
    ending, waiting, error = await worked(turn, settings)
    await turn.finish(ending)
    problem = await _logged(settings, journal) or error
    if turn.safe is not None and isinstance(problem, Exception):
        return answered(turn, settings, problem)
    if error is not None:
        raise error
    return done(turn, version=0, kind=settings.output, termination=ending.termination, waiting=waiting)


async def _logged(settings: Settings, journal: Nowhere) -> Exception | None:
    """Write the rows of the crisis log; what kept one of them from being written."""
    problem: Exception | None = None
    for row in journal.logged:
        try:
            await settings.crisis_log_backend.put(row, expect=0)
        except Exception as failure:  # noqa: BLE001  # a log is not ours: its bug must not withhold a reply
            log.warning("A row of the crisis log is lost: %s, %s. %s", row.id, row.tags[0], said_of(failure))
            problem = failure
    return problem


def _turn(
    settings: Settings,
    message: Given,
    history: Sequence[Message],
    state: Mapping[str, JSON],
    told: Callable[[Event], None],
) -> tuple[Turn, Nowhere]:
    inputs = checked_inputs(settings.schema, message)
    for entry in history:
        check_fields(entry)
    before = [item_of(entry) for entry in history]
    journal = Nowhere(Run(id=f"run-{secrets.token_hex(8)}", thread="", started=0), {HISTORY: before})
    sizes = {HISTORY: LogSize(len(before), len(before))}
    draft = Draft(settings.schema, replaced(state, {}, settings.schema), sizes, inputs, journal.read)
    turn = Turn(draft, journal, settings.patience, told, prices=settings.prices)
    turn.add(user_item(settings.schema, inputs))
    return turn, journal
