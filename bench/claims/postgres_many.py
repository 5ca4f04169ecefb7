"""PostgreSQL: 64 tasks, each on a thread of its own, beside the same tasks inserting by hand."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import raw
from bench.clock import all_at_once
from bench.ground import Ground
from bench.verdict import Bound, Section, of_throughput

TASKS = 64
POOL = 16
"""Where raw psycopg is fastest on two cores; more connections only wait for each other."""

BOUND = Bound(
    what="PostgreSQL: 64 tasks on 64 threads, against the same tasks inserting raw", sign="≥", target=0.8
)


async def measure(ground: Ground) -> Section:
    """Blocks of ten turns per task."""
    async with AsyncExitStack() as stack:
        floor = raw.postgres_many(ground.database(), threads=TASKS, pool_size=POOL)
        contestants = [(await stack.enter_async_context(floor), TASKS)]
        if ground.with_us:
            from bench import ours

            us = ours.many(ground.database(), threads=TASKS)
            contestants.append((await stack.enter_async_context(us), TASKS))
        pace = ground.pace(rounds=10, block=10 * TASKS, warmup=10 * TASKS)
        timings = await all_at_once(contestants, pace)
    return Section(
        title="PostgreSQL: 64 tasks on 64 threads",
        timings=timings,
        verdicts=of_throughput(BOUND, timings, "Clew", "raw psycopg"),
    )
