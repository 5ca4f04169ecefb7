"""Noticing while the session goes on: a stage that holds what each message tells, until the episode ends."""

from typing import Any

from clew.core.arguments import check_arguments
from clew.core.values import HISTORY
from clew.runtime.context import Context
from clew.runtime.memory.learn.extraction import (
    FillFindings,
    ModelFindings,
    UserTurn,
    extract_candidates,
    user_turns,
)
from clew.runtime.model.protocol import Model, ModelRequest
from clew.runtime.respond.respond import Stage
from clew.runtime.turn.draft import Delta

RECENT_ITEMS = 64
"""How many of the newest items are looked through for the message of the turn."""


@check_arguments
def notice(model: Model | None = None, *, by_model: bool = True) -> Stage:
    """A stage that notices what the user's message tells, and holds it for the end of the episode.

    It asks the model given, or the one that classifies and decides; if there is none, or it fails, what was
    stated plainly is held. Nothing is kept for good before the episode ends, so "don't remember that" still
    counts. Put it behind the stage that answers, and the user does not wait for it.
    """

    async def notice(state: Any, context: Context) -> Delta | None:
        buffer = context.session_memory_buffer
        if buffer is not None:
            chosen_model = (model or context.control_llm) if by_model else None
            extraction = await extract_candidates(
                await _turns_of_run(context),
                None if chosen_model is None else _fill_with(context, chosen_model),
            )
            for candidate in extraction.candidates:
                buffer.add(candidate)
        return None

    return notice


async def _turns_of_run(context: Context) -> list[UserTurn]:
    """The messages of the user in this turn, each with its source."""
    if context.turn.store_thread is None:
        return []
    items = await context.turn.store_thread.items(last=RECENT_ITEMS, log=HISTORY)
    return user_turns([item for item in items if item.run == context.turn.id], context.turn.thread)


def _fill_with(context: Context, model: Model) -> FillFindings:
    async def fill(request: ModelRequest, kind: type[ModelFindings]) -> ModelFindings:
        return await context.turn.fill(model, request, kind)

    return fill
