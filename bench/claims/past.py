"""SQLite: the state at any past version costs little more than the head."""

from __future__ import annotations

from bench import ours
from bench.clock import one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

BOUND = Bound(what="state_at any of 10,000 versions, against head", sign="≤", target=10.0)


async def measure(ground: Ground) -> Section:
    """1,000 versions drawn at random."""
    turns = ground.count(10_000, 1_000)
    url = f"sqlite:///{await ours.fill_file(ground.folder(), turns)}"
    async with ours.past_and_head(url, versions=turns) as contestants:
        timings = await one_by_one(contestants, ground.pace(rounds=40, block=25))
    return Section(
        title=f"SQLite: state at any of {turns:,} versions",
        timings=timings,
        verdicts=of_latency(BOUND, timings, "state_at", "head"),
    )
