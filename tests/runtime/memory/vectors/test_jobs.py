"""Vectors are made in the queue: never in a turn, again after a failure, in one space at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import clew
from clew.core.errors import ModelFailed
from clew.core.log.vectors import VECTOR_KIND
from clew.core.values import HISTORY, Item, Job, RecordQuery
from clew.database.database import Database
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import Candidate
from clew.runtime.memory.vectors.embedding import ITEMS_PER_BATCH
from clew.runtime.memory.vectors.jobs import EMBED_JOB, embedding_job, run_embedding_jobs
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.testing.clock import Clock
from clew.testing.scripted_model import ScriptedModel
from tests.runtime.memory.candidates import allergic, sister
from tests.support.openai_server import letters_of
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]


class Letters:
    """Counts letters; fails as it is told, and keeps what it was asked for."""

    def __init__(self, name: str = "letters", size: int = 8, *, failing: int = 0) -> None:
        self.name = name
        self.size = size
        self.failing = failing
        self.refusing = ""
        self.batches: list[list[str]] = []
        self.began = asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.began.set()
        if self.failing:
            self.failing -= 1
            raise ModelFailed(model=self.name, problem="it is down", retry=True)
        if self.refusing and any(self.refusing in text for text in texts):
            raise ModelFailed(model=self.name, problem="it takes no such text")
        self.batches.append(list(texts))
        return [letters_of(text, self.size) for text in texts]


@pytest.fixture
async def memory(db: Database) -> Memory:
    store = Memory(db, "alice")
    await store.learn([sister("Ann"), allergic("peanuts")])
    return store


async def spaces(db: Database) -> list[str]:
    """The space of every vector."""
    return sorted(record.tags[2] for record in await db.records.find(RecordQuery(kind=VECTOR_KIND)))


async def test_what_is_asked_for_is_made_when_it_is_due(db: Database, memory: Memory) -> None:
    await db.commit([embedding_job(memory.thread, "alice", "new")])
    count = [await run_embedding_jobs(db, Letters()), await run_embedding_jobs(db, Letters())]

    assert (count, await db.jobs.list()) == ([2, 0], [])
    assert await spaces(db) == ["letters:8", "letters:8"]


async def test_nobody_is_asked_while_nothing_is_due(db: Database, memory: Memory) -> None:
    await run_embedding_jobs(db, Letters())
    again = Letters()
    await run_embedding_jobs(db, again)

    assert again.batches == []


async def test_many_vectors_are_made_in_batches(db: Database) -> None:
    memory, letters = Memory(db, "alice"), Letters()
    await memory.learn(
        [Candidate(predicate="LIKES", object=f"tea {n}", quote="tea") for n in range(ITEMS_PER_BATCH + 6)]
    )
    count = await run_embedding_jobs(db, letters)

    assert count == ITEMS_PER_BATCH + 6
    assert [len(texts) for texts in letters.batches] == [1, ITEMS_PER_BATCH, 6]


@pytest.mark.promise("B-12")
async def test_what_was_known_before_there_was_an_embedder_gets_vectors_too(
    db: Database, memory: Memory
) -> None:
    await Memory(db, "bob").learn([allergic("milk")])
    await Memory(db, "chat", of_thread=True).learn([allergic("nuts")])
    await (await db.create("chat")).append(items=[clew.user("no vector for me")])

    assert await run_embedding_jobs(db, Letters()) == 4


@pytest.mark.promise("B-12")
@pytest.mark.parametrize("other", [Letters("others"), Letters(size=5)], ids=["name", "size"])
async def test_another_embedder_makes_all_vectors_anew_and_spaces_are_never_mixed(
    db: Database, memory: Memory, other: Letters
) -> None:
    await run_embedding_jobs(db, Letters())
    before = await Retriever(memory, other).places_by_vector(letters_of("sister", other.size))
    await db.commit([embedding_job(memory.thread, "alice", "something new")])
    await run_embedding_jobs(db, other)
    places = await Retriever(memory, other).places_by_vector(
        letters_of("my sister is called Ann", other.size)
    )

    assert (before, len(places)) == ([], 2)
    assert await spaces(db) == [f"{other.name}:{other.size}"] * 2


async def test_a_failed_job_is_tried_again_and_in_the_end_shown_as_dead(db: Database, memory: Memory) -> None:
    await run_embedding_jobs(db, Letters())
    await memory.learn([allergic("milk")])
    await db.jobs.enqueue(
        Job(id="j", kind=EMBED_JOB, limit=1, owner="alice", body={"thread": memory.thread, "logs": ["facts"]})
    )
    await db.commit([embedding_job(memory.thread, "alice", "new")])
    count = await run_embedding_jobs(db, Letters(failing=2))
    jobs = {job.status: job for job in await db.jobs.list()}

    assert count == 0
    assert (jobs["dead"].id, jobs["waiting"].attempts) == ("j", 1)
    assert "it is down" in str(jobs["dead"].problem)
    assert "it is down" in str(jobs["waiting"].problem)


async def test_an_embedder_that_is_down_when_it_is_new_is_asked_again(db: Database, memory: Memory) -> None:
    letters = Letters(failing=1)
    count = [await run_embedding_jobs(db, letters), await run_embedding_jobs(db, letters)]

    assert count == [0, 2]


async def test_a_text_that_is_refused_keeps_no_other_from_its_vector(db: Database, memory: Memory) -> None:
    letters = Letters()
    letters.refusing = "peanuts"
    await run_embedding_jobs(db, letters)
    places = await Retriever(memory, letters).places_by_vector(letters_of("my sister is called Ann", 8))

    assert len(places) == 1
    assert [job.status for job in await db.jobs.list()] == []


async def test_an_embedder_of_ones_own_may_raise_whatever_it_likes(db: Database, memory: Memory) -> None:
    class Careless(Letters):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            raise KeyError("vectors")

    await db.commit([embedding_job(memory.thread, "alice", "new")])
    count = await run_embedding_jobs(db, Careless())
    result = await Retriever(memory, Careless()).recall("my sister")
    (job,) = await db.jobs.list()

    assert (count, job.status, job.problem) == (
        0,
        "waiting",
        "Model 'letters' failed: it raised KeyError.",
    )
    assert (result.path, len(result.entries)) == ("token_recall_after_embed_error", 1)


async def test_a_memory_that_was_deleted_is_no_failure(db: Database, memory: Memory) -> None:
    await db.commit([embedding_job(memory.thread, "alice", "new")])
    await db.thread(memory.thread).delete()

    assert (await run_embedding_jobs(db, Letters()), await db.jobs.list()) == (0, [])


async def test_a_memory_that_is_made_anew_has_nothing_to_do_with_the_vectors_of_the_old_one(
    db: Database, memory: Memory
) -> None:
    letters = Letters()
    await run_embedding_jobs(db, letters)
    await db.thread(memory.thread).delete()
    await memory.learn([allergic("milk")])
    before = await Retriever(memory, letters).places_by_vector(letters_of("my sister is called Ann", 8))
    await db.commit([embedding_job(memory.thread, "alice", "new")])
    count = await run_embedding_jobs(db, letters)
    after = await Retriever(memory, letters).places_by_vector(letters_of("my sister is called Ann", 8))

    assert (before, count, len(after)) == ([], 1, 1)


async def test_what_is_deleted_while_its_vectors_are_made_leaves_none(db: Database, memory: Memory) -> None:
    class Deleting(Letters):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            if len(texts) == 2:
                await db.thread(memory.thread).delete()
            return await super().embed(texts)

    await run_embedding_jobs(db, Deleting())

    assert (await spaces(db), await db.jobs.list()) == ([], [])


async def test_what_says_nothing_gets_no_vector(db: Database) -> None:
    thread, letters = await db.create("chat", owner="alice"), Letters()
    await thread.append(items=[clew.user("hello"), clew.user(" "), Item(body=b"bytes", codec="msgpack")])
    await db.commit([embedding_job("chat", "alice", "asked for", [HISTORY])])
    await run_embedding_jobs(db, letters)

    assert letters.batches == [["."], ["hello"]]


# Beside the turns of a runtime.


@pytest.mark.promise("B-12")
async def test_a_turn_and_the_end_of_its_session_embed_nothing_and_the_sweeper_does(db: Database) -> None:
    letters = Letters()
    runtime = Runtime(
        db,
        model=ScriptedModel("I see."),
        finalize=Finalizer(embedder=letters),
        embedding_provider=letters,
        config=RuntimeConfig(clock=Clock(1)),
    )
    await runtime.run_turn("s1", "My sister is called Ann.", user="alice")
    await runtime.end_session("s1", user="alice")
    before = list(letters.batches)
    await runtime.sweep()
    await runtime.close()

    assert before == []
    assert len(await spaces(db)) == 2  # the fact and the arc


async def test_items_get_vectors_only_if_that_is_asked_for(db: Database) -> None:
    letters = Letters()
    for thread, finalizer in {
        "without": Finalizer(embedder=letters),
        "with": Finalizer(embedder=letters, embed_items=True),
    }.items():
        async with Runtime(db, model=ScriptedModel("I see."), finalize=finalizer) as runtime:
            await runtime.run_turn(thread, "Hello there", user="alice")
            await runtime.end_session(thread, user="alice")
    await run_embedding_jobs(db, letters)
    await run_embedding_jobs(db, Letters("others"))
    records = await db.records.find(RecordQuery(kind=VECTOR_KIND, tags=(HISTORY, "others:8")))

    assert [record.tags[0] for record in records] == ["with"] * 2


async def test_closing_a_runtime_does_not_wait_for_an_embedder(db: Database, memory: Memory) -> None:
    class Hanging(Letters):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            self.began.set()
            await asyncio.Event().wait()
            return []

    await run_embedding_jobs(db, Letters("hanging"))
    await db.commit([embedding_job(memory.thread, "alice", "new")])
    hanging = Hanging("hanging")
    async with asyncio.timeout(10), Runtime(db, embedding_provider=hanging) as runtime:
        await hanging.began.wait()
        await runtime.close()
    (job,) = await db.jobs.list()

    assert (job.status, job.attempts) == ("waiting", 0)
