"""SQLite: a whole turn of the runtime, beside as many raw commits as it has checkpoints."""

from __future__ import annotations

from contextlib import AsyncExitStack

from bench import peers, raw, runs
from bench.clock import one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

BOUND = Bound(
    what="SQLite: a turn with a scripted model and no tools, against its 3 checkpoints as raw commits",
    sign="≤",
    target=3.0,
)


async def measure(ground: Ground) -> Section:
    """1,000 turns each."""
    async with AsyncExitStack() as stack:
        folder = ground.folder()
        url = f"sqlite:///{folder / 'ours.db'}"
        contestants = [
            await stack.enter_async_context(runs.turns(url)),
            stack.enter_context(raw.sqlite_commits(folder, runs.CHECKPOINTS)),
            stack.enter_context(peers.openai_runner(folder)),
            await stack.enter_async_context(peers.langgraph_turns(folder)),
        ]
        timings = await one_by_one(contestants, ground.pace(rounds=20, block=50))
    return Section(
        title="SQLite: a turn of the runtime",
        caption="A whole turn with a model that answers at once, kept in a SQLite file",
        timings=timings,
        verdicts=of_latency(BOUND, timings, "Clew", "raw apsw"),
    )
