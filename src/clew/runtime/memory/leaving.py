"""What an ended episode left behind in a memory, as far as it is still known."""

import msgspec

from clew.runtime.episodes import Episode
from clew.runtime.memory.keeping import Memory
from clew.runtime.memory.values import Arc, Fact, Rule, Source

NEWEST = 200
"""So many of the newest facts are looked through: an episode teaches a few."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An episode in short, and what was learned in it, the newest first."""

    arc: Arc | None = None
    facts: tuple[Fact, ...] = ()
    rules: tuple[Rule, ...] = ()


async def kept_of(memory: Memory, episode: Episode) -> Kept:
    """What an episode left behind. What was corrected, forgotten or undone since is not among it."""
    facts = (await memory.page(limit=NEWEST)).facts
    rules = (await memory.profile()).rules
    return Kept(
        arc=None if episode.arc is None else msgspec.convert(episode.arc, Arc),
        facts=tuple(fact for fact in facts if _is_from(fact.source, episode)),
        rules=tuple(rule for rule in rules if _is_from(rule.source, episode)),
    )


def _is_from(source: Source | None, episode: Episode) -> bool:
    """Whether something was learned from a turn of an episode."""
    if source is None or source.thread != episode.thread or source.place < episode.first:
        return False
    return episode.last is None or source.version <= episode.last
