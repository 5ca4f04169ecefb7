"""The end of a turn: the reply goes into the history, the turn is counted, what was noticed is held."""

from typing import Any

from holdfast.companion.memory import is_first
from holdfast.companion.session import kept_up
from holdfast.companion.state import Companion
from holdfast.companion.values import Style
from holdfast.runtime.context import Context
from holdfast.runtime.draft import Delta
from holdfast.runtime.memory import noticing
from holdfast.runtime.messages import Message

STYLE_TYPES: dict[Style, str] = {
    "guided_exercise": "exercise",
    "technique": "exercise",
    "safety_check": "safety",
    "crisis_response": "safety",
    "memory_control": "service",
    "grounded_lookup": "service",
}
"""What kind of a style each is; the others are conversation."""

UNNOTICED = ("crisis", "memory_control", "grounded_lookup")
"""Routes whose messages are not looked through for what may be remembered."""

notice = noticing(by_model=False)


async def finalize_turn(state: Companion, ctx: Context) -> Delta:
    """Stamp the reply, count the turn, keep up the session's memory, and hold what was stated plainly."""
    if state.route not in UNNOTICED:
        await notice(state, ctx)
    return {
        "history": [answer_of(state)],
        "response_type": "crisis" if state.route == "crisis" else "therapeutic",
        "response_style_type": STYLE_TYPES.get(state.response_style, "conversation"),
        "session_progress": {"turn_count": state.session_progress.turn_count + 1},
        "session_memory": _session(state, ctx),
    }


def answer_of(state: Companion) -> Message:
    """The reply as it stands in the history, with its style."""
    return Message(
        role="assistant", content=state.response_text, meta={"response_style": state.response_style}
    )


def _session(state: Companion, ctx: Context) -> dict[str, Any]:
    if state.route in UNNOTICED:
        return {}
    return kept_up(state.session_memory, state.message, begins=is_first(ctx))
