"""Noticing while the session goes on: a stage that holds what each message tells, until the episode ends."""

from typing import Any

from clew.core.arguments import check_arguments
from clew.core.values import HISTORY
from clew.runtime.context import Context
from clew.runtime.memory.learn.extraction import Fill, Noticed, Said, extracted, said_by_user
from clew.runtime.model.protocol import Model, Request
from clew.runtime.respond.respond import Stage
from clew.runtime.turn.draft import Delta

RECENT = 64
"""How many of the newest items are looked through for the message of the turn."""


@check_arguments
def noticing(model: Model | None = None, *, by_model: bool = True) -> Stage:
    """A stage that notices what the user's message tells, and holds it for the end of the episode.

    It asks the model given, or the one that classifies and decides; if there is none, or it fails, what was
    stated plainly is held. Nothing is kept for good before the episode ends, so "don't remember that" still
    counts. Put it behind the stage that answers, and the user does not wait for it.
    """

    async def notice(state: Any, ctx: Context) -> Delta | None:
        held = ctx.session_memory_buffer
        if held is not None:
            asked = (model or ctx.control_llm) if by_model else None
            noticed = await extracted(await _said(ctx), None if asked is None else _filling(ctx, asked))
            for candidate in noticed.candidates:
                held.hold(candidate)
        return None

    return notice


async def _said(ctx: Context) -> list[Said]:
    """What the user said in this turn, with where it stands."""
    if ctx.turn.stored is None:
        return []
    items = await ctx.turn.stored.items(last=RECENT, log=HISTORY)
    return said_by_user([item for item in items if item.run == ctx.turn.id], ctx.turn.thread)


def _filling(ctx: Context, model: Model) -> Fill:
    async def fill(request: Request, kind: type[Noticed]) -> Noticed:
        return await ctx.turn.fill(model, request, kind)

    return fill
