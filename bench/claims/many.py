"""SQLite: 64 tasks, each on a thread of its own, share their commits."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import raw
from bench.clock import all_at_once
from bench.ground import Ground
from bench.verdict import Bound, Section, of_throughput

TASKS = 64
BOUND = Bound(
    what="SQLite: 64 tasks on 64 threads, turns/s, against raw one commit per turn", sign="≥", target=1.8
)


async def measure(ground: Ground) -> Section:
    """Blocks of ten turns per task beside as many turns of the raw loop."""
    async with AsyncExitStack() as stack:
        folder = ground.folder()
        contestants = [(stack.enter_context(raw.sqlite_append(folder)), 1)]
        if ground.with_us:
            from bench import ours

            url = f"sqlite:///{folder / 'ours.db'}"
            contestants.append((await stack.enter_async_context(ours.many(url, threads=TASKS)), TASKS))
        pace = ground.pace(rounds=10, block=10 * TASKS, warmup=2 * TASKS)
        timings = await all_at_once(contestants, pace)
    return Section(
        title="SQLite: 64 tasks on 64 threads",
        timings=timings,
        verdicts=of_throughput(BOUND, timings, "Clew", "raw apsw"),
    )
