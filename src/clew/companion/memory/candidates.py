"""What was noted in a conversation and is kept only when it ends, as the person may see it before."""

from collections.abc import Sequence

import msgspec

from clew.companion.state import WINDOW, Companion
from clew.runtime.context import Context
from clew.runtime.memory import Candidate, Fact, Rule
from clew.runtime.memory.phrases.refusals import is_refused, refusals


async def noted(state: Companion, ctx: Context) -> list[Candidate]:
    """What is held for the end of the session, without what the person asked not to keep."""
    held = ctx.session_memory_buffer
    candidates = [] if held is None else [msgspec.convert(entry, Candidate) for entry in held.held()]
    if not candidates:
        return []
    said = [message.text for message in await state.history.tail(WINDOW) if message.role == "user"]
    return unrefused_among(candidates, said)


def unrefused_among(candidates: Sequence[Candidate], said: Sequence[str]) -> list[Candidate]:
    """The candidates that nothing said later speaks against; ``said`` are the newest turns."""
    among = refusals(said)
    left: list[Candidate] = []
    for candidate in candidates:
        turn = next((at for at, text in enumerate(said) if candidate.quote in text), 0)
        placed = msgspec.structs.replace(candidate, turn=turn)
        if not is_refused(placed, among, said[turn] if said else ""):
            left.append(candidate)
    return left


def as_known(candidate: Candidate) -> Fact | Rule:
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
