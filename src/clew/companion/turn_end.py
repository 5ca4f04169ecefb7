"""The end of a turn: the reply goes into the history, the turn is counted, what was noticed is held."""

from typing import Any

import msgspec

from clew.companion.exercises.guide import under_way
from clew.companion.memory.load import is_first, source_in
from clew.companion.memory.session import kept_up
from clew.companion.state import Companion
from clew.companion.values import Style
from clew.runtime.context import Context
from clew.runtime.memory import Candidate, stated
from clew.runtime.model.messages import Message
from clew.runtime.turn.draft import Delta

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

MOST_HELD = 64
"""What is stated again and again in a long session is held once, and no more than so much of it."""


async def finalize_turn(state: Companion, ctx: Context) -> Delta:
    """Stamp the reply, count the turn, keep up the session's memory, and hold what was stated plainly."""
    if state.route not in UNNOTICED:
        await _notice(state, ctx)
    return {
        "history": [answer_of(state)],
        "response_type": "crisis" if state.route == "crisis" else "therapeutic",
        "response_style_type": STYLE_TYPES.get(state.response_style, "conversation"),
        "session_progress": {"turn_count": state.session_progress.turn_count + 1},
        "session_memory": _session(state, ctx),
    }


def answer_of(state: Companion) -> Message:
    """The reply as it stands in the history, with its style and, if it leads through one, the exercise."""
    meta: dict[str, Any] = {"response_style": state.response_style}
    found = under_way(state)
    if found is not None and state.response_style == "guided_exercise":
        exercise, standing = found
        meta["exercise"] = {"name": exercise.name, "step": standing.step + 1, "steps": len(exercise.steps)}
    return Message(role="assistant", content=state.response_text, meta=meta)


async def _notice(state: Companion, ctx: Context) -> None:
    """Hold what the message states plainly and is not held yet, with where it stands."""
    held = ctx.session_memory_buffer
    if held is None or not stated(state.message):
        return
    source = await source_in(ctx)
    before = [msgspec.convert(entry, Candidate) for entry in held.held()]
    there = {_said(candidate) for candidate in before}
    for candidate in stated(state.message, source=source):
        if _said(candidate) not in there and len(there) < MOST_HELD:
            held.hold(msgspec.to_builtins(candidate))
            there.add(_said(candidate))


def _said(candidate: Candidate) -> tuple[str, str, str, str, bool]:
    return (candidate.kind, candidate.subject, candidate.predicate, candidate.object, candidate.negated)


def _session(state: Companion, ctx: Context) -> dict[str, Any]:
    if state.route in UNNOTICED:
        return {}
    return kept_up(state.session_memory, state.message, begins=is_first(ctx))
