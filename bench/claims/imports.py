"""`import clew` is quick and loads no driver."""

from __future__ import annotations

import statistics
import subprocess
import sys

from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict

DRIVERS = frozenset({"apsw", "sqlite3", "psycopg", "psycopg_pool", "asyncpg", "aiosqlite"})
CPU = Bound(what="`import clew`", sign="≤", target=0.15, unit="s of CPU")
NONE_LOADED = Bound(what="`import clew`: drivers imported", sign="≤", target=0, unit="")
PROGRAM = "import time; start = time.process_time(); import clew; print(time.process_time() - start)"


async def measure(ground: Ground) -> Section:
    """The median of eleven new processes."""
    seconds = [_seconds() for _ in range(ground.count(11, 3))]
    drivers = sorted(_imports() & DRIVERS)
    return Section(
        title="Import",
        timings=[],
        verdicts=[
            Verdict(bound=CPU, value=statistics.median(seconds)),
            Verdict(bound=NONE_LOADED, value=len(drivers)),
        ],
        notes=("Drivers imported: " + (", ".join(drivers) or "none") + ".",),
    )


def _seconds() -> float:
    return float(_child("-c", PROGRAM).stdout)


def _imports() -> set[str]:
    lines = _child("-X", "importtime", "-c", "import clew").stderr.splitlines()
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def _child(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
