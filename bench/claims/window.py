"""SQLite: the last 20 items of a long thread, beside the raw SELECT."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import raw
from bench.clock import one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

LAST = 20
BOUND = Bound(
    what="SQLite: last 20 items at turn 10,000, against the raw SELECT with decoding", sign="≤", target=1.5
)


async def measure(ground: Ground) -> Section:
    """2,000 reads each, one thread hop each."""
    turns = ground.count(10_000, 1_000)
    async with AsyncExitStack() as stack:
        contestants = [stack.enter_context(raw.sqlite_window(ground.folder(), turns=turns, last=LAST))]
        if ground.with_us:
            from bench import ours

            url = f"sqlite:///{await ours.fill_file(ground.folder(), turns)}"
            contestants.append(await stack.enter_async_context(ours.window(url, last=LAST)))
        timings = await one_by_one(contestants, ground.pace(rounds=40, block=50))
    return Section(
        title=f"SQLite: last {LAST} items of {turns:,} turns",
        timings=timings,
        verdicts=of_latency(BOUND, timings, "Clew", "raw apsw read"),
    )
