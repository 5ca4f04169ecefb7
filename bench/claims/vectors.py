"""One owner's vectors: 100,000 searched, and 20,000 facts recalled by words and vectors, on both stores."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AsyncExitStack

import clew
from bench.claims.memory import contestant, fill_memory
from bench.clock import Act, Contestant, Timing, one_by_one
from bench.embedder import WordVectors
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict
from clew.core.encoding import as_json
from clew.core.log.vectors import VECTOR_KIND, quantize_vector
from clew.core.values import HISTORY, Put, Record, VectorQuery
from clew.runtime.memory.recall.retrieval import Retriever

SIZE = 384
SPACE = f"random:{SIZE}"
PER_COMMIT = 1_000
STORES = ("SQLite", "PostgreSQL")
BOUNDS = {
    "SQLite, vectors": Bound(
        what="SQLite: the 20 most alike of 100,000 vectors of one owner", sign="≤", target=30.0, unit="ms"
    ),
    "PostgreSQL, vectors": Bound(
        what="PostgreSQL: the 20 most alike of 100,000 vectors of one owner", sign="≤", target=15.0, unit="ms"
    ),
    "PostgreSQL, words and vectors": Bound(
        what="PostgreSQL: recall by words and vectors among 20,000 facts", sign="≤", target=30.0, unit="ms"
    ),
}


async def measure(ground: Ground) -> Section:
    """Vectors drawn around a few hundred middles, as those of texts lie; and facts with real ones."""
    count, facts = ground.count(100_000, 3_000), ground.count(20_000, 1_000)
    async with AsyncExitStack() as stack:
        contestants: list[Contestant] = []
        for store, url in zip(
            STORES, (f"sqlite:///{ground.folder() / 'vectors.db'}", ground.database()), strict=True
        ):
            db = await stack.enter_async_context(clew.open(url))
            await _fill_vectors(db, count)
            contestants.append(_vector_contestant(db, store, count))
            embedder = WordVectors()
            retriever = Retriever(await fill_memory(db, facts), embedder)
            await retriever.embed_missing()
            detail = f"top 20 of {facts:,} facts, {embedder.name}"
            contestants.append(contestant(f"{store}, words and vectors", detail, retriever.recall))
        timings = await one_by_one(contestants, ground.pace(rounds=20, block=2, warmup=2))
    return Section(
        title=f"Search among {count:,} vectors of one owner",
        timings=timings,
        verdicts=_verdicts(timings),
        notes=(
            f"A vector has {SIZE} numbers; they are compared by their signs, and the best of them exactly.",
            "Words and vectors: a message is embedded, and looked for both ways among facts.",
        ),
    )


async def _fill_vectors(db: clew.Database, count: int) -> None:
    chance = random.Random("vectors")
    middles = [[chance.gauss(0, 1) for _ in range(SIZE)] for _ in range(300)]
    for first in range(0, count, PER_COMMIT):
        numbers = range(first, min(first + PER_COMMIT, count))
        vectors = [_vector_near(chance.choice(middles), chance) for _ in numbers]
        await db.commit(
            [
                Put(record=_vector_record(number, vector))
                for number, vector in zip(numbers, vectors, strict=True)
            ]
        )


def _vector_near(middle: Sequence[float], chance: random.Random) -> list[float]:
    return [number + chance.gauss(0, 0.8) for number in middle]


def _vector_record(number: int, vector: Sequence[float]) -> Record:
    tags = (f"thread-{number // 50}", HISTORY, SPACE)
    body = as_json(quantize_vector(vector))
    return Record(kind=VECTOR_KIND, id=f"v{number}", owner="many", tags=tags, sort=number, body=body)


def _vector_contestant(db: clew.Database, store: str, count: int) -> Contestant:
    chance = random.Random("queries")
    origin = [0.0] * SIZE

    def ready(number: int) -> Act:
        vector = tuple(_vector_near(origin, chance))
        query = VectorQuery(vector=vector, space=SPACE, logs=(HISTORY,), owner="many", limit=20)
        return lambda: db.records.nearest(query)

    return Contestant(name=f"{store}, vectors", detail=f"top 20 of {count:,} vectors", ready=ready)


def _verdicts(timings: Sequence[Timing]) -> list[Verdict]:
    return [
        Verdict(bound=BOUNDS[timing.name], value=timing.p50 / 1_000, by_mean=timing.mean / 1_000)
        for timing in timings
        if timing.name in BOUNDS
    ]
