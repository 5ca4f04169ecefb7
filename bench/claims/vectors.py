"""What one owner's memory of 20,000 facts knows about a message by vectors, on SQLite and PostgreSQL."""

from __future__ import annotations

from contextlib import AsyncExitStack

import clew
from bench.claims.memory import contestant, fill_memory
from bench.clock import Contestant, one_by_one
from bench.ground import Ground
from bench.verdict import Section
from clew.runtime.memory.recall.retrieval import MOST_VECTORS, Retriever
from clew.runtime.memory.vectors.embedding import HashingEmbedder


async def measure(ground: Ground) -> Section:
    """Every fact has a vector; it is measured by vectors alone, and together with words. No target is set."""
    count = ground.count(20_000, 3_000)
    async with AsyncExitStack() as stack:
        contestants: list[Contestant] = []
        for store, url in (
            ("SQLite", f"sqlite:///{ground.folder() / 'vectors.db'}"),
            ("PostgreSQL", ground.database()),
        ):
            db = await stack.enter_async_context(clew.open(url))
            contestants += await _contestants(db, store, count)
        timings = await one_by_one(contestants, ground.pace(rounds=20, block=2, warmup=2))
    return Section(
        title=f"Recall by vectors among {count:,} facts of one owner",
        timings=timings,
        verdicts=[],
        notes=(
            "No target is set: this is what it takes.",
            "Every fact has a vector of 512 numbers. "
            f"The newest {MOST_VECTORS:,} are compared: by their signs, "
            "and the best of them exactly.",
            "What is older is found by words.",
        ),
    )


async def _contestants(db: clew.Database, store: str, count: int) -> list[Contestant]:
    embedder = HashingEmbedder()
    retriever = Retriever(await fill_memory(db, count), embedder)
    total = await retriever.embed_missing()

    async def by_vector(text: str) -> object:
        (vector,) = await embedder.embed([text])
        return await retriever.places_by_vector(vector)

    return [
        contestant(f"{store}, vectors", f"{total:,} vectors, hashing", by_vector),
        contestant(f"{store}, words and vectors", f"top 20 of {count:,} facts", retriever.recall),
    ]
