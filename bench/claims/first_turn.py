"""The first turn of a process: what is left to do once everything is imported."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict

FIRST = Bound(
    what="SQLite: the first turn of a process, plain runtime, after imports", sign="≤", target=150, unit="ms"
)
PROCESSES = 11
PROGRAM = """
import asyncio, sys, time
import clew
from bench.runs import Parrot

async def main(url):
    start = time.perf_counter()
    async with clew.open(url) as db, clew.Runtime(db, model=Parrot("Yes.")) as runtime:
        await runtime.run_turn("t", "Hello.")
        first = time.perf_counter() - start
        start = time.perf_counter()
        await runtime.run_turn("t", "Hello again.")
        print(first * 1e3, (time.perf_counter() - start) * 1e3)

asyncio.run(main(sys.argv[1]))
"""


async def measure(ground: Ground) -> Section:
    """The median of new processes, each of which opens a new file and runs two turns."""
    runs = [_milliseconds(ground.folder()) for _ in range(ground.count(PROCESSES, 3))]
    firsts = sorted(first for first, _ in runs)
    second = statistics.median(second for _, second in runs)
    note = f"First turns: {firsts[0]:.0f} to {firsts[-1]:.0f} ms with the opening; second: {second:.1f} ms."
    return Section(
        title="SQLite: the first turn of a process",
        timings=[],
        verdicts=[Verdict(bound=FIRST, value=statistics.median(firsts))],
        notes=(note,),
    )


def _milliseconds(folder: Path) -> tuple[float, float]:
    """The time of the first turn with the opening of its database, and that of the second."""
    command = [sys.executable, "-c", PROGRAM, f"sqlite:///{folder / 'first.db'}"]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    first, second = map(float, child.stdout.split())
    return first, second
