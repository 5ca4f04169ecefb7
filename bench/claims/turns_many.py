"""SQLite: 200 turns at once in one process, in commits a second, beside the store's own appends."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import ours, runs
from bench.clock import all_at_once
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict

TASKS = 200
BOUND = Bound(
    what="SQLite: 200 threads with turns at once, in commits, against the store's own appends",
    sign="≥",
    target=0.6,
)


async def measure(ground: Ground) -> Section:
    """Blocks of turns on 200 threads beside as many appends on 200 threads."""
    async with AsyncExitStack() as stack:
        folder = ground.folder()
        turns = await stack.enter_async_context(
            runs.turns(f"sqlite:///{folder / 'turns.db'}", name="turns", threads=TASKS)
        )
        appends = await stack.enter_async_context(
            ours.many(f"sqlite:///{folder / 'appends.db'}", threads=TASKS)
        )
        pace = ground.pace(rounds=5, block=2 * TASKS, warmup=TASKS)
        timings = await all_at_once([(turns, TASKS), (appends, TASKS)], pace)
    commits, rate = timings[0].per_second * runs.CHECKPOINTS, timings[1].per_second
    return Section(
        title="SQLite: 200 threads with turns at once",
        timings=timings,
        verdicts=[Verdict(bound=BOUND, value=commits / rate)],
    )
