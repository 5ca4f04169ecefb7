"""Both stores: 30 turns at once on each of 16 threads, beside the same turns with nobody in front of them."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import runs
from bench.clock import all_at_once
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict

THREADS = 16
WAITING = 30
STORES = ("SQLite", "PostgreSQL")
WAITS = {
    store: Bound(
        what=f"{store}: turns/s with 30 turns waiting on each of 16 threads, against none waiting",
        sign="≥",
        target=0.8,
    )
    for store in STORES
}
AGAINST_SQLITE = Bound(
    what="30 turns at once on each of 16 threads: PostgreSQL against SQLite", sign="≤", target=1.5
)


async def measure(ground: Ground) -> Section:
    """Blocks of 480 turns: all at once, or one after another on each thread."""
    at_once, in_turn = THREADS * WAITING, THREADS
    async with AsyncExitStack() as stack:
        contestants = []
        for store in STORES:
            for way, tasks in (("waiting", at_once), ("not waiting", in_turn)):
                # Each has a database of its own: what one leaves is not where another goes on.
                turns = runs.turns(_url(ground, store), name=f"{store}, {way}", threads=THREADS)
                contestants.append((await stack.enter_async_context(turns), tasks))
        pace = ground.pace(rounds=5, block=at_once, warmup=at_once)
        timings = await all_at_once(contestants, pace)
    rates = {timing.name: timing.per_second for timing in timings}
    waits = {store: rates[f"{store}, waiting"] / rates[f"{store}, not waiting"] for store in STORES}
    against = rates["SQLite, waiting"] / rates["PostgreSQL, waiting"]
    return Section(
        title="30 turns at once on each of 16 threads",
        timings=timings,
        verdicts=[
            *(Verdict(bound=WAITS[store], value=waits[store]) for store in STORES),
            Verdict(bound=AGAINST_SQLITE, value=against),
        ],
    )


def _url(ground: Ground, store: str) -> str:
    return ground.database() if store == "PostgreSQL" else f"sqlite:///{ground.folder() / 'turns.db'}"
