"""Candidates: notes of a conversation that are stored when it ends, shown to the person before."""

from collections.abc import Sequence

import msgspec

from clew.runtime.context import Context
from clew.runtime.memory import Candidate, Fact, Rule
from clew.runtime.memory.phrases.refusals import is_refused, refusals_in
from clew_companion.state import HISTORY_WINDOW, CompanionState


async def session_notes(state: CompanionState, context: Context) -> list[Candidate]:
    """The candidates of the session, without those that the person asked not to store."""
    buffer = context.session_memory_buffer
    candidates = (
        [] if buffer is None else [msgspec.convert(entry, Candidate) for entry in buffer.candidates()]
    )
    if not candidates:
        return []
    texts = [message.text for message in await state.history.tail(HISTORY_WINDOW) if message.role == "user"]
    return candidates_without_refusal(candidates, texts)


def candidates_without_refusal(candidates: Sequence[Candidate], texts: Sequence[str]) -> list[Candidate]:
    """The candidates that nothing said later speaks against; ``texts`` are the newest turns."""
    session_refusals = refusals_in(texts)
    remaining: list[Candidate] = []
    for candidate in candidates:
        turn = next((at for at, text in enumerate(texts) if candidate.quote in text), 0)
        candidate_in_turn = msgspec.structs.replace(candidate, turn=turn)
        if not is_refused(candidate_in_turn, session_refusals, texts[turn] if texts else ""):
            remaining.append(candidate)
    return remaining


def entry_of(candidate: Candidate) -> Fact | Rule:
    """A candidate in the shape that it will have once it is kept."""
    if candidate.kind == "rule":
        return Rule(id="", about=candidate.subject, text=candidate.object)
    return Fact(
        id="",
        category=candidate.category,
        subject=candidate.subject,
        predicate=candidate.predicate,
        object=candidate.object,
        quote=candidate.quote,
        negated=candidate.negated,
    )
