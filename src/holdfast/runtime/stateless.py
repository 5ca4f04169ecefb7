"""One turn that keeps nothing: the same pipeline, without a store."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.core.encoding import JSON
from holdfast.core.values import HISTORY
from holdfast.runtime.asking import Patience
from holdfast.runtime.context import Context, MemoryMode
from holdfast.runtime.draft import Draft
from holdfast.runtime.events import Event
from holdfast.runtime.inputs import checked_inputs, user_item
from holdfast.runtime.journal import Nowhere
from holdfast.runtime.loop import Stage, respond
from holdfast.runtime.messages import Message, item_of
from holdfast.runtime.models import Model
from holdfast.runtime.outputs import Done, done
from holdfast.runtime.pipeline import run_stages
from holdfast.runtime.runs import NATURAL, Ending, Run
from holdfast.runtime.schema import Conversation, Schema, State
from holdfast.runtime.turn import Turn


async def run_agent(
    message: str | Mapping[str, Any],
    *,
    schema: type[State] = Conversation,
    stages: Sequence[Stage] | None = None,
    model: Model | None = None,
    response_model: Model | None = None,
    history: Sequence[Message] = (),
    state: Mapping[str, JSON] | None = None,
    patience: Patience | None = None,
    told: Callable[[Event], None] = lambda event: None,
) -> Done:
    """Run one turn on what is given, and keep nothing. What came before comes in as history and state."""
    shape = Schema.of(schema)
    inputs = checked_inputs(shape, message)
    run = Run(id=f"run-{secrets.token_hex(8)}", thread="", started=0)
    journal = Nowhere(run, {HISTORY: [item_of(entry) for entry in history]})
    draft = Draft(shape, dict(state or {}), {HISTORY: len(history)}, inputs, journal.read)
    turn = Turn(draft, journal, patience or Patience(), told)
    ctx = Context(
        llm_client=model,
        memory_store=None,
        crisis_log_backend=None,
        memory_mode=MemoryMode.INCOGNITO,
        response_llm=response_model,
        turn=turn,
    )
    turn.add(user_item(shape, inputs))
    await run_stages([respond()] if stages is None else stages, ctx)
    await turn.finish(Ending(termination=NATURAL))
    return done(turn, version=0)
