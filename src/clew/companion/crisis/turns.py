"""The turns before this one, as far as the store gives them."""

import logging
from collections.abc import Sequence

from clew.companion.crisis.floor import TURNS
from clew.companion.crisis.listening import legible
from clew.companion.state import WINDOW, Companion
from clew.runtime.context import Context
from clew.runtime.messages import Message

log = logging.getLogger("clew")


async def turns_before(state: Companion, ctx: Context) -> Sequence[Message]:
    """What was said before this turn; nothing, if the store cannot say."""
    try:
        recent = await state.history.tail(WINDOW)
    except Exception as error:  # noqa: BLE001  # whatever fails, the message itself is judged
        log.warning("A message is judged without the turns before it: %s", type(error).__name__)
        return ()
    said = [
        turn
        for turn in recent[-2 * TURNS - 2 :]
        if turn.run != ctx.turn.id and turn.role in ("user", "assistant") and turn.text
    ]
    if said and said[-1].role == "user" and said[-1].text == state.message:
        said.pop()
    return [Message(role=turn.role, content=legible(turn.text)) for turn in said]


def said_by_person(message: str, before: Sequence[Message]) -> list[str]:
    """What the person said, oldest first."""
    return [*(turn.text for turn in before if turn.role == "user"), legible(message)]
