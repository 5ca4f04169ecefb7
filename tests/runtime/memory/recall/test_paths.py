"""A turn's diagnostics name the path by which something was found; a turn asks for one vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pytest

import clew
from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.vectors.jobs import run_embedding_jobs
from clew.runtime.runtime import Runtime
from clew.runtime.state.schema import State, input
from clew.runtime.turn.draft import Delta
from clew.testing.embedder import SpellingEmbedder
from tests.runtime.memory.candidates import allergic, sister
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]


class Chat(State):
    message: Annotated[str, input]
    diagnostics: Annotated[dict[str, Any], clew.merge]
    known: int = 0


class CountingEmbedder(SpellingEmbedder):
    """Keeps how many texts it was asked for, and fails if it is told to."""

    def __init__(self, *, down: bool = False) -> None:
        super().__init__()
        self.down = down
        self.sizes: list[int] = []

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.sizes.append(len(texts))
        if self.down:
            raise ModelFailed(model=self.name, problem="it is down")
        return await super().embed(texts)


async def diagnostics_of(db: Database, embedder: CountingEmbedder | None) -> dict[str, Any]:
    """What the state holds after one turn that recalls."""

    async def recall(state: Chat, ctx: Context) -> Delta:
        memory = memory_of(db, ctx.turn.thread, ctx.turn.user)
        recall_result = await Retriever(memory, ctx.embedding_provider).recall(state.message)
        return {"known": len(recall_result.entries), "diagnostics": recall_result.diagnostics}

    runtime = Runtime(db, schema=Chat, stages=[recall], embedding_provider=embedder)
    await runtime.run_turn("s1", "How is my sister?", user="alice")
    await runtime.close()
    diagnostics: dict[str, Any] = (await db.thread("s1").state())["diagnostics"]
    return diagnostics


@pytest.fixture
async def memory(db: Database) -> Memory:
    store = Memory(db, "alice")
    await store.learn([sister("Ann"), allergic("peanuts")])
    return store


@pytest.mark.promise("A-10", "B-12")
@pytest.mark.parametrize(
    ("embedder", "path"),
    [
        (None, "token_recall"),
        (CountingEmbedder(), "hybrid_rrf"),
        (CountingEmbedder(down=True), "token_recall_after_embed_error"),
    ],
)
async def test_the_diagnostics_of_a_turn_name_the_path(
    db: Database, memory: Memory, embedder: CountingEmbedder | None, path: str
) -> None:
    diagnostics = await diagnostics_of(db, embedder)

    assert diagnostics["retrieval_path"] == path
    assert ("it is down" in diagnostics.get("retrieval_problem", "")) is (path.endswith("error"))


@pytest.mark.promise("B-12")
async def test_a_turn_asks_for_the_vector_of_its_message_and_for_no_other(
    db: Database, memory: Memory
) -> None:
    await run_embedding_jobs(db, SpellingEmbedder())
    await memory.learn([allergic("milk")])
    embedder = CountingEmbedder()
    await diagnostics_of(db, embedder)

    assert embedder.sizes == [1]
