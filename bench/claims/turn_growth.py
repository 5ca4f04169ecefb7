"""SQLite: a turn on a long thread costs what it costs on a short one."""

from __future__ import annotations

from bench import runs
from bench.clock import turn_by_turn
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

BOUND = Bound(what="SQLite: a turn at turn 10,000, against turn 10", sign="≤", target=1.1)


async def measure(ground: Ground) -> Section:
    """Two files, one of which has had many turns, turn by turn."""
    long, short = ground.count(10_000, 500), 10
    folder = ground.folder()
    late, early = f"turn {long:,}", f"turn {short}"
    async with (
        runs.turns(f"sqlite:///{folder / 'long.db'}", name=late, start=long) as first,
        runs.turns(f"sqlite:///{folder / 'short.db'}", name=early, start=short) as second,
    ):
        timings = await turn_by_turn((first, second), ground.pace(rounds=10, block=20, warmup=5))
    return Section(
        title="SQLite: a turn on a long thread",
        timings=list(timings),
        verdicts=of_latency(BOUND, timings, late, early),
    )
