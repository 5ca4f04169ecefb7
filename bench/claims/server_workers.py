"""The server on loopback and PostgreSQL: turns a second of 500 clients, by one process and by several."""

from __future__ import annotations

import os

from bench.claims.server import under_load
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict

SECONDS = 12.0
WORKERS = 2
SPREAD = Bound(
    what="Server on PostgreSQL: 500 clients, turns/s of 2 workers, against one", sign="≥", target=1.5
)


async def measure(ground: Ground) -> Section:
    """One worker, then two, each on a database of its own; the clients run beside them."""
    one, several = [
        (
            await under_load(
                ground,
                "uvicorn",
                name=f"PostgreSQL, {workers} worker{'s' if workers > 1 else ''}",
                seconds=SECONDS,
                url=ground.database(),
                workers=workers,
            )
        )[0]
        for workers in (1, WORKERS)
    ]
    return Section(
        title="The server: several workers",
        timings=[one, several],
        verdicts=[Verdict(bound=SPREAD, value=several.per_second / one.per_second)],
        notes=(
            f"500 clients, the workers and PostgreSQL share {os.cpu_count()} cores: what the clients and "
            "PostgreSQL use of them, no worker has.",
        ),
    )
