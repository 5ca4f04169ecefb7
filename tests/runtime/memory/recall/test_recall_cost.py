"""The cost of a recall: as many questions for many hits as for few, and no waiting for what is not needed."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from clew.core.errors import StoreUnavailable
from clew.core.log.rows import Ask, AskTermCounts, StoreRead
from clew.core.values import Scope
from clew.database.database import Database
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.recall.retrieval import RecallLimits, Retriever
from clew.runtime.memory.values import Candidate
from clew.stores.memory import MemoryStore
from clew.testing.embedder import SpellingEmbedder

MOST_QUESTIONS = 16


class WatchedStore(MemoryStore):
    """A store that notes its questions, and may be down for searches."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[Ask[Any]] = []
        self.is_searched = asyncio.Event()
        self.is_down = False

    async def read(self, scope: Scope, read: StoreRead[Any]) -> Any:
        return await super().read(scope, self._watch(read))

    def _watch(self, read: StoreRead[Any]) -> Generator[Any, Any, Any]:
        answer: Any = None
        while True:
            try:
                question = read.send(answer)
            except StopIteration as end:
                return end.value
            self.questions.append(question)
            if isinstance(question, AskTermCounts):
                self.is_searched.set()
                if self.is_down:
                    raise StoreUnavailable(problem="it is down")
            answer = yield question


class PatientEmbedder(SpellingEmbedder):
    """Makes vectors only once the store was searched for words."""

    def __init__(self, store: WatchedStore) -> None:
        super().__init__()
        self._store = store

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        await self._store.is_searched.wait()
        return await super().embed(texts)


async def remember_walks(store: WatchedStore, count: int) -> Memory:
    """A memory of so many facts about walks."""
    memory = Memory(Database(store), "alice")
    await memory.learn(
        [
            Candidate(category="context", predicate=f"P{n}", object=f"walk {n}", quote=f"I took walk {n}")
            for n in range(count)
        ]
    )
    await Retriever(memory, SpellingEmbedder()).embed_missing()
    await memory.db.index()
    return memory


async def count_questions(facts: int) -> int:
    """The number of questions that a recall takes which finds so many facts."""
    store = WatchedStore()
    memory = await remember_walks(store, facts)
    store.questions.clear()
    result = await Retriever(memory, SpellingEmbedder(), limits=RecallLimits(facts=facts)).recall("a walk")
    assert len(result.entries) == facts
    return len(store.questions)


@pytest.mark.promise("B-12")
async def test_many_hits_take_no_more_questions_than_few() -> None:
    few, many = await count_questions(2), await count_questions(20)

    assert many == few <= MOST_QUESTIONS


async def test_words_are_looked_for_while_the_vector_is_made() -> None:
    store = WatchedStore()
    memory = await remember_walks(store, 2)
    store.is_searched.clear()
    result = await Retriever(memory, PatientEmbedder(store)).recall("a walk")

    assert (result.path, len(result.entries)) == ("hybrid_rrf", 2)


async def test_what_a_store_raises_in_a_recall_is_raised_as_it_is() -> None:
    store = WatchedStore()
    memory = await remember_walks(store, 2)
    store.is_down = True

    with pytest.raises(StoreUnavailable):
        await Retriever(memory, SpellingEmbedder()).recall("a walk")


async def test_of_a_kind_that_is_limited_to_none_nothing_is_recalled() -> None:
    memory = await remember_walks(WatchedStore(), 2)
    result = await Retriever(memory, limits=RecallLimits(facts=0)).recall("a walk")

    assert result.entries == ()
