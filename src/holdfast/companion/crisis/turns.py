"""The turns before this one, as far as the store gives them."""

from collections.abc import Sequence

from holdfast.companion.crisis.floor import TURNS
from holdfast.companion.state import WINDOW, Companion
from holdfast.core.errors import StoreFailed
from holdfast.runtime.context import Context
from holdfast.runtime.messages import Message


async def turns_before(state: Companion, ctx: Context) -> Sequence[Message]:
    """What was said before this turn; nothing, if the store cannot say."""
    try:
        recent = await state.history.tail(WINDOW)
    except StoreFailed:
        return ()
    said = [
        turn
        for turn in recent[-2 * TURNS - 2 :]
        if turn.run != ctx.turn.id and turn.role in ("user", "assistant") and turn.text
    ]
    if said and said[-1].role == "user" and said[-1].text == state.message:
        return said[:-1]
    return said


def said_by_person(message: str, before: Sequence[Message]) -> list[str]:
    """What the person said, oldest first."""
    return [*(turn.text for turn in before if turn.role == "user"), message]
