"""The end of a turn: the reply goes into the history, the turn is counted, what was noticed is held."""

from typing import Any

import msgspec

from clew.runtime.context import Context
from clew.runtime.memory import Candidate, statements_in
from clew.runtime.model.messages import Message
from clew.runtime.turn.draft import Delta
from clew_companion.exercises.guide import current_exercise
from clew_companion.memory.load import NO_WRITES, is_first_turn, message_source
from clew_companion.memory.session import session_memory_changes
from clew_companion.state import CompanionState
from clew_companion.values import ResponseStyle, ResponseStyleType

STYLE_TYPES: dict[ResponseStyle, ResponseStyleType] = {
    "guided_exercise": "exercise",
    "technique": "exercise",
    "safety_check": "safety",
    "crisis_response": "safety",
    "memory_control": "service",
    "grounded_lookup": "service",
}
"""What kind of a style each is; the others are conversation."""

ROUTES_WITHOUT_NOTES = ("crisis", "memory_control", "grounded_lookup")
"""Routes whose messages are not looked through for what may be remembered."""

MOST_CANDIDATES = 64
"""What is stated again and again in a long session is held once, and no more than so much of it."""


async def finalize_turn(state: CompanionState, context: Context) -> Delta:
    """Stamp the reply, count the turn, keep up the session's memory, and hold what was stated plainly."""
    is_noted = state.route not in ROUTES_WITHOUT_NOTES
    candidate_count = await _note_candidates(state, context) if is_noted else 0
    return {
        "diagnostics": _turn_diagnostics(state, candidate_count),
        "history": [reply_message(state)],
        "response_type": "crisis" if state.route == "crisis" else "therapeutic",
        "response_style_type": STYLE_TYPES.get(state.response_style, "conversation"),
        "session_progress": {"turn_count": state.session_progress.turn_count + 1},
        "session_memory": _session_memory_changes(state, context),
    }


def reply_message(state: CompanionState) -> Message:
    """The reply as the history has it, with its style and, if it leads through one, the exercise."""
    meta: dict[str, Any] = {"response_style": state.response_style}
    current = current_exercise(state)
    if current is not None and state.response_style == "guided_exercise":
        exercise, position = current
        meta["exercise"] = {"name": exercise.name, "step": position.step + 1, "steps": len(exercise.steps)}
    return Message(role="assistant", content=state.response_text, meta=meta)


def _turn_diagnostics(state: CompanionState, candidate_count: int) -> dict[str, Any]:
    """The statuses of lookups, and what the turn wrote. All are set in every turn: diagnostics are kept."""
    counts = {**NO_WRITES, "candidates": candidate_count}
    return {
        "lookup_status": state.grounded_lookup.status,
        "resource_lookup_status": state.resource_lookup_status,
        **({} if state.route == "memory_control" else {"write_counts": counts}),
    }


async def _note_candidates(state: CompanionState, context: Context) -> int:
    """Hold the plain statements of a message that are not held yet, with their source; count them."""
    buffer = context.session_memory_buffer
    if buffer is None or not statements_in(state.message):
        return 0
    source = await message_source(context)
    candidates = [msgspec.convert(entry, Candidate) for entry in buffer.candidates()]
    keys = {_candidate_key(candidate) for candidate in candidates}
    held_count = len(keys)
    for candidate in statements_in(state.message, source=source):
        if _candidate_key(candidate) not in keys and len(keys) < MOST_CANDIDATES:
            buffer.add(msgspec.to_builtins(candidate))
            keys.add(_candidate_key(candidate))
    return len(keys) - held_count


def _candidate_key(candidate: Candidate) -> tuple[str, str, str, str, bool]:
    return (candidate.kind, candidate.subject, candidate.predicate, candidate.object, candidate.negated)


def _session_memory_changes(state: CompanionState, context: Context) -> dict[str, Any]:
    if state.route in ROUTES_WITHOUT_NOTES:
        return {}
    return session_memory_changes(state.session_memory, state.message, is_first=is_first_turn(context))
