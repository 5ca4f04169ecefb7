"""SQLite: a turn appended to a long thread costs what it costs on a short one."""

from __future__ import annotations

import statistics

from bench import ours
from bench.clock import Timing, turn_by_turn
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict

BOUND = Bound(what="SQLite: append at turn 10,000, against turn 100", sign="≤", target=1.1)
REPETITIONS = 5


async def measure(ground: Ground) -> Section:
    """Five pairs of files, appended to turn by turn; the median of the five ratios."""
    pairs = [await _pair(ground) for _ in range(REPETITIONS)]
    ratios = sorted(late.p50 / early.p50 for late, early in pairs)
    late, early = pairs[-1]
    return Section(
        title="SQLite: append to a long thread",
        timings=[late, early],
        verdicts=[Verdict(bound=BOUND, value=statistics.median(ratios))],
        notes=(f"Ratios of the {REPETITIONS} repetitions: " + ", ".join(f"{ratio:.2f}" for ratio in ratios),),
    )


async def _pair(ground: Ground) -> tuple[Timing, Timing]:
    long, short = ground.count(10_000, 1_000), 100
    late = f"sqlite:///{await ours.fill_file(ground.folder(), long)}"
    early = f"sqlite:///{await ours.fill_file(ground.folder(), short)}"
    async with (
        ours.append(late, name=f"turn {long:,}", start=long) as first,
        ours.append(early, name=f"turn {short}", start=short) as second,
    ):
        return await turn_by_turn((first, second), ground.pace(rounds=10, block=50, warmup=10))
