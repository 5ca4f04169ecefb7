"""From what was said to what is known: notice, decide, keep. One call, at the end of an episode or before."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from clew.core.arguments import check_arguments
from clew.runtime.memory.extracting import Extracted, Fill, Said, extracted
from clew.runtime.memory.keeping import Memory
from clew.runtime.memory.merging import Learned
from clew.runtime.memory.promoting import Decision, decided, promoted
from clew.runtime.memory.values import Candidate

EARLIER = 100
"""How many arcs are read to see whether something was said in an earlier episode."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about each candidate, what became of those kept, and who noticed them."""

    decisions: tuple[Decision, ...]
    learned: Learned
    by: Literal["model", "statements"]
    problem: str | None = None


@check_arguments
async def remember(
    memory: Memory,
    turns: Sequence[Said],
    *,
    fill: Fill | None = None,
    held: Iterable[Candidate] = (),
    run: str | None = None,
    key: str | None = None,
) -> Remembered:
    """Keep what some turns of the user tell, by the rules of promotion, in one change of the memory.

    ``held`` is what was noticed in them before. With a ``key``, as the episode's id, it happens once.
    """
    noticed: Extracted = await extracted(turns, fill)
    decisions = await weighed(memory, turns, [*held, *noticed.candidates])
    learned = await memory.learn(promoted(decisions), run=run, key=key)
    return Remembered(decisions=tuple(decisions), learned=learned, by=noticed.by, problem=noticed.problem)


async def weighed(memory: Memory, turns: Sequence[Said], candidates: Iterable[Candidate]) -> list[Decision]:
    """What becomes of candidates, given what the user said in these turns and in earlier episodes."""
    earlier = [f"{arc.text} {arc.summary}" for arc in (await memory.page("arcs", limit=EARLIER)).arcs]
    return decided(_once(candidates), [said.text for said in turns], earlier)


def _once(candidates: Iterable[Candidate]) -> list[Candidate]:
    """What was noticed twice in one turn counts once."""
    named = {
        (each.kind, each.turn, each.subject, each.predicate, each.object, each.negated): each
        for each in candidates
    }
    return list(named.values())
