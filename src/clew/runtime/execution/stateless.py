"""A turn that stores nothing: the same pipeline, without a store."""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from clew.core.arguments import check_arguments, check_fields
from clew.core.encoding import JSON
from clew.core.values import HISTORY, LogSize
from clew.database.database import Database
from clew.runtime.context import MakeContext, MemoryBackend, MemoryMode, RecordBackend, plain_context
from clew.runtime.execution.pipeline import run_pipeline
from clew.runtime.execution.safe_reply import log_text_of, safe_result
from clew.runtime.model.call import Deadlines, RetryPolicy
from clew.runtime.model.messages import Message, item_of
from clew.runtime.model.names import ModelOrName, model_of
from clew.runtime.records.events import Event
from clew.runtime.records.runs import Run
from clew.runtime.records.steps import Price
from clew.runtime.respond.respond import Stage, respond
from clew.runtime.settings import RuntimeConfig, Settings
from clew.runtime.state.declaration import schema_of
from clew.runtime.state.inputs import TurnInput, user_items, validate_inputs
from clew.runtime.state.schema import Conversation, State
from clew.runtime.state.upgrades import replacement_state
from clew.runtime.tools.tool import Tool, ToolFunction
from clew.runtime.turn.draft import Draft
from clew.runtime.turn.journal import TransientJournal
from clew.runtime.turn.result import Output, TurnResult, result_of_turn
from clew.runtime.turn.turn import Turn
from clew.stores.memory import MemoryStore

log = logging.getLogger("clew")


@check_arguments
async def run_agent(
    message: TurnInput,
    *,
    schema: type[State] = Conversation,
    stages: Sequence[Stage] | None = None,
    model: ModelOrName | None = None,
    response_model: ModelOrName | None = None,
    tools: Sequence[Tool | ToolFunction] = (),
    instructions: str = "",
    output: type[Output] | None = None,
    history: Sequence[Message] = (),
    state: Mapping[str, JSON] | None = None,
    memory_store: MemoryBackend | None = None,
    record_backend: RecordBackend | None = None,
    make_context: MakeContext = plain_context,
    retry_policy: RetryPolicy = RetryPolicy(),
    deadlines: Deadlines = Deadlines(),
    prices: Mapping[str, Price] | None = None,
    notify: Callable[[Event], None] = lambda event: None,
) -> TurnResult[Output]:
    """Run one turn and store nothing. ``history`` and ``state`` are what the turn starts from.

    A model may be given by its name, and a tool as the function that it is made of. What the turn records
    goes to ``record_backend``, such as ``db.records``; without one it is gone with the turn.

    Raises:
        StateInvalid: An input, or the state, does not fit the schema.
        RunFailed: The turn could not be finished.
    """
    # These records last as long as the turn that writes them.
    transient_records = Database(MemoryStore()).records
    exit_stack = AsyncExitStack()
    settings = Settings(
        schema=schema_of(schema),
        stages=[respond(instructions=instructions, tools=tools)] if stages is None else list(stages),
        model=model_of(model, exit_stack),
        response_model=model_of(response_model, exit_stack),
        output=output,
        config=RuntimeConfig(retry_policy=retry_policy, deadlines=deadlines, prices=prices or {}),
        memory_mode=MemoryMode.INCOGNITO,
        memory_store=memory_store or transient_records,
        record_backend=record_backend or transient_records,
        make_context=make_context,
    )
    async with exit_stack:
        turn = _transient_turn(settings, message, history, state or {}, notify)
        with settings.turn_scope(turn.thread, None) as scope:
            scope.begin_run(turn.id)
            result = await _run(settings, turn)
            scope.end_run(result.termination)
        return result


async def _run(settings: Settings, turn: Turn) -> TurnResult[Any]:
    ending, error = await run_pipeline(turn, settings)
    await turn.finish(ending)
    problem = await _write_records(settings, turn) or error
    if turn.safe_reply_text is not None and isinstance(problem, Exception):
        return safe_result(turn, settings, problem)
    if error is not None:
        raise error
    return result_of_turn(turn, version=0, kind=settings.output, termination=ending.termination)


async def _write_records(settings: Settings, turn: Turn) -> Exception | None:
    """Write the records of the turn; return the error if one of them was not written."""
    problem: Exception | None = None
    for record in turn.journal.pending_records():
        try:
            await settings.record_backend.put(record, expect=0)
        except Exception as failure:  # noqa: BLE001  # a backend is not ours: its bug must not withhold a reply
            tags = ", ".join(record.tags)
            log.warning("A record is lost: %s (%s). %s", record.id, tags, log_text_of(failure))
            problem = failure
    return problem


def _transient_turn(
    settings: Settings,
    message: TurnInput,
    history: Sequence[Message],
    state: Mapping[str, JSON],
    notify: Callable[[Event], None],
) -> Turn:
    inputs = validate_inputs(settings.schema, message)
    for entry in history:
        check_fields(entry)
    items = [item_of(entry) for entry in history]
    journal = TransientJournal(Run(id=f"run-{secrets.token_hex(8)}", thread="", started=0), {HISTORY: items})
    sizes = {HISTORY: LogSize(len(items), len(items))}
    draft = Draft(settings.schema, replacement_state(state, {}, settings.schema), sizes, inputs, journal.read)
    config = settings.config
    turn = Turn(draft, journal, config.retry_policy, notify, deadlines=config.deadlines, prices=config.prices)
    turn.add(user_items(settings.schema, inputs))
    return turn
