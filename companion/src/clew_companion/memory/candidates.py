"""Candidates: notes of a conversation that are stored when it ends, shown to the person before."""

import msgspec

from clew.runtime.context import Context
from clew.runtime.memory import Candidate
from clew.runtime.memory.merge import candidates_that_hold
from clew.runtime.memory.phrases.refusals import candidates_without_refusal
from clew_companion.state import HISTORY_WINDOW, CompanionState


async def session_notes(state: CompanionState, context: Context) -> list[Candidate]:
    """The candidates of the session that hold, without those that the person asked not to store."""
    buffer = context.session_memory_buffer
    candidates = (
        [] if buffer is None else [msgspec.convert(entry, Candidate) for entry in buffer.candidates()]
    )
    if not candidates:
        return []
    texts = [message.text for message in await state.history.tail(HISTORY_WINDOW) if message.role == "user"]
    return candidates_that_hold(candidates_without_refusal(candidates, texts))
