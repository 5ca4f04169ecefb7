"""The server on loopback: turns a second of 500 clients, by one process on SQLite."""

from __future__ import annotations

from bench.claims.server import under_load
from bench.ground import Ground
from bench.verdict import Section

SECONDS = 12.0


async def measure(ground: Ground) -> Section:
    """A short load, to be compared with another checkout: see ``--against``."""
    timing, load = await under_load(ground, "uvicorn", seconds=SECONDS)
    note = f"{load.errors} errors, {load.losses} turns lost. The clients run on the same machine."
    return Section(title="The server: turns a second", timings=[timing], verdicts=[], notes=(note,))
