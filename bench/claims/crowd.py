"""Both stores: an append among a million other threads costs what it costs in an empty database."""

from __future__ import annotations

from pathlib import Path

from bench import ours
from bench.clock import Timing, turn_by_turn
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

THREADS = 1_000_000
BOUNDS = {
    backend: Bound(
        what=f"{backend}: append among 1,000,000 other threads, against an empty database",
        sign="≤",
        target=1.5,
    )
    for backend in ("SQLite", "PostgreSQL")
}


async def measure(ground: Ground) -> Section:
    """1,000 turns into each, turn by turn."""
    crowd = ground.count(THREADS, 20_000)
    full, empty = ground.folder() / "full.db", ground.folder() / "empty.db"
    await load_sqlite(full, crowd)
    sqlite = await _compared(ground, f"sqlite:///{full}", f"sqlite:///{empty}")
    full_url, empty_url = ground.database(), ground.database()
    await load_postgres(full_url, crowd)
    postgres = await _compared(ground, full_url, empty_url)
    return Section(
        title=f"Append among {crowd:,} other threads",
        timings=[*sqlite, *postgres],
        verdicts=[
            *of_latency(BOUNDS["SQLite"], sqlite, "crowded", "empty"),
            *of_latency(BOUNDS["PostgreSQL"], postgres, "crowded", "empty"),
        ],
    )


async def load_sqlite(path: Path, threads: int) -> None:
    """Write so many one-turn threads straight into the tables of a new file."""
    raise NotImplementedError(
        f"bulk load of {threads:,} threads into {path.name}: to be written with the schema"
    )


async def load_postgres(url: str, threads: int) -> None:
    """COPY so many one-turn threads straight into the tables of a new database."""
    database = url.rpartition("/")[2]
    raise NotImplementedError(
        f"bulk load of {threads:,} threads into {database}: to be written with the schema"
    )


async def _compared(ground: Ground, full: str, empty: str) -> tuple[Timing, Timing]:
    pace = ground.pace(rounds=20, block=50)
    async with ours.append(full, name="crowded") as crowded, ours.append(empty, name="empty") as alone:
        return await turn_by_turn((crowded, alone), pace)
