"""PostgreSQL: one turn appended by one task, beside raw psycopg and LangGraph's saver."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import peers, raw
from bench.clock import one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

BOUND = Bound(what="PostgreSQL: append one turn, against raw async psycopg", sign="≤", target=2.0)


async def measure(ground: Ground) -> Section:
    """2,000 turns each."""
    async with AsyncExitStack() as stack:
        contestants = []
        if ground.with_us:
            from bench import ours

            contestants.append(await stack.enter_async_context(ours.append(ground.database())))
        contestants.append(await stack.enter_async_context(raw.postgres_append(ground.database())))
        contestants.append(await stack.enter_async_context(peers.langgraph_postgres(ground.database())))
        timings = await one_by_one(contestants, ground.pace(rounds=40, block=50))
    return Section(
        title="PostgreSQL: append one turn",
        timings=timings,
        verdicts=of_latency(BOUND, timings, "Clew", "raw psycopg"),
    )
