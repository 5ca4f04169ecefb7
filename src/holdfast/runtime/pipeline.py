"""Stages, one after another: the one pipeline of the stateless call and the persistent runtime."""

import asyncio
from collections.abc import Sequence

from holdfast.core.errors import DeadlineExceeded
from holdfast.core.making import set as put
from holdfast.runtime.context import Context
from holdfast.runtime.draft import RUN
from holdfast.runtime.events import USER_MESSAGE, StageStarted
from holdfast.runtime.loop import Stage
from holdfast.runtime.turn import Turn


async def run_stages(stages: Sequence[Stage], ctx: Context) -> None:
    """Run every stage that is not done yet, and fold what each returns.

    A stage that asked a model is made durable when it ends: it is not asked again after a crash.

    Raises:
        DeadlineExceeded: All of it took too long.
    """
    turn, seconds = ctx.turn, ctx.turn.patience.turn
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            for number, stage in enumerate(stages[_done(turn) :], start=_done(turn) + 1):
                await _run(stage, ctx, number, last=number == len(stages))
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise DeadlineExceeded(what=f"The turn of thread {turn.thread!r}", seconds=seconds) from error


async def _run(stage: Stage, ctx: Context, number: int, *, last: bool) -> None:
    turn = ctx.turn
    name = name_of(stage)
    turn.trace.append(name)
    turn.tell(StageStarted(name=name))
    asked = turn.asked
    turn.write(name, await stage(turn.draft.view(), ctx))
    if turn.asked > asked and not last:
        turn.draft.patch(put([RUN, "stage"], number))
        await turn.checkpoint(USER_MESSAGE)


def name_of(stage: Stage) -> str:
    """What a stage is called."""
    return getattr(stage, "__name__", type(stage).__name__)


def _done(turn: Turn) -> int:
    standing = turn.draft.state.get(RUN)
    return int(standing.get("stage", 0)) if isinstance(standing, dict) else 0
