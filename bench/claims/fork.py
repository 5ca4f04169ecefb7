"""SQLite: a fork at any version of a thread with a large state costs about one append."""

from __future__ import annotations

from bench import ours
from bench.clock import one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

STATE_BYTES = 1_000_000
BOUND = Bound(what="fork at any version (1 MB state), against one append", sign="≤", target=2.0)


async def measure(ground: Ground) -> Section:
    """1,000 forks of one thread, beside appends to it."""
    url = f"sqlite:///{ground.folder() / 'ours.db'}"
    async with ours.fork_and_append(url, state_bytes=STATE_BYTES, versions=200) as contestants:
        timings = await one_by_one(contestants, ground.pace(rounds=40, block=25))
    return Section(
        title="SQLite: fork at any version",
        timings=timings,
        verdicts=of_latency(BOUND, timings, "fork", "append"),
    )
