"""SQLite: 200 turns at once in one process, beside as many raw commits as their checkpoints."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import raw, runs
from bench.clock import all_at_once
from bench.ground import Ground
from bench.verdict import Bound, Section, of_throughput

TASKS = 200
BOUND = Bound(
    what="SQLite: 200 threads with turns at once, turns/s, against their 3 checkpoints as raw commits",
    sign="≥",
    target=0.33,
)


async def measure(ground: Ground) -> Section:
    """Blocks of turns on 200 threads beside raw commits, one after another."""
    async with AsyncExitStack() as stack:
        folder = ground.folder()
        turns = await stack.enter_async_context(
            runs.turns(f"sqlite:///{folder / 'turns.db'}", name="turns", threads=TASKS)
        )
        commits = stack.enter_context(raw.sqlite_commits(folder, runs.CHECKPOINTS))
        pace = ground.pace(rounds=10, block=2 * TASKS, warmup=TASKS)
        timings = await all_at_once([(turns, TASKS), (commits, 1)], pace)
    return Section(
        title="SQLite: 200 threads with turns at once",
        timings=timings,
        verdicts=of_throughput(BOUND, timings, "turns", "raw apsw"),
        notes=(
            "The floor is that of the disk alone: the checkpoints of each turn as raw commits of one row, "
            "one after another. Turns at once may share a transaction, but not the processor.",
        ),
    )
