"""SQLite: one turn appended by one task, beside raw apsw and the stores people use today."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import peers, raw
from bench.clock import Contestant, one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

AGAINST_RAW = Bound(what="SQLite: append one turn, against raw synchronous apsw", sign="≤", target=1.75)
AGAINST_OPENAI = Bound(what="SQLite: append one turn, against SQLiteSession.add_items", sign="≤", target=0.82)


async def measure(ground: Ground) -> Section:
    """2,000 turns each, with a WAL checkpoint about every 250."""
    async with AsyncExitStack() as stack:
        contestants = await _contestants(stack, ground)
        timings = await one_by_one(contestants, ground.pace(rounds=40, block=50))
    return Section(
        title="SQLite: append one turn",
        caption="Append a turn of four items to a SQLite file",
        timings=timings,
        verdicts=[
            *of_latency(AGAINST_RAW, timings, "Clew", "raw apsw"),
            *of_latency(AGAINST_OPENAI, timings, "Clew", "OpenAI Agents SQLiteSession"),
        ],
    )


async def _contestants(stack: AsyncExitStack, ground: Ground) -> list[Contestant]:
    folder = ground.folder()
    contestants = []
    if ground.with_us:
        from bench import ours

        contestants.append(await stack.enter_async_context(ours.append(f"sqlite:///{folder / 'ours.db'}")))
    return [
        *contestants,
        stack.enter_context(raw.sqlite_append(folder)),
        stack.enter_context(peers.openai_sqlite(folder)),
        await stack.enter_async_context(peers.openai_sqlalchemy(folder)),
        await stack.enter_async_context(peers.langgraph_sqlite(folder)),
        await stack.enter_async_context(peers.adk_sqlite(folder)),
        stack.enter_context(raw.hop()),
    ]
