"""What is known is found again: by words, by vectors, by both; and the last episode as a new one begins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec
import pytest

from clew.core.erasure.retention import DAY_MS
from clew.core.errors import ModelFailed
from clew.core.log.vectors import VECTOR_KIND
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.recall.render import render_entry
from clew.runtime.memory.recall.retrieval import RecallLimits, RecallResult, Retriever
from clew.runtime.memory.values import Arc, Candidate
from clew.testing.clock import Clock
from clew.testing.embedder import SpellingEmbedder
from tests.runtime.memory.candidates import allergic, rule, sister

LIKES = Candidate(category="preference", predicate="LIKES", object="hiking", quote="I love hiking in autumn")


class FailingEmbedder:
    name = "broken"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise ModelFailed(model="embedder", problem="it is down")


class Odd:
    name = "odd"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise RuntimeError("hunter2 was refused")


class Slow:
    name = "slow"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        await asyncio.Event().wait()
        return []


class Alike:
    """Says that every text is like every other, so that only vectors can have found it."""

    name = "alike"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[1.0, 0.5] for _ in texts]


@pytest.fixture
async def memory(db: Database) -> Memory:
    store = Memory(db, "alice")
    await store.learn([sister("Ann"), allergic("peanuts"), LIKES])
    return store


def objects(result: RecallResult) -> list[str]:
    return [getattr(entry, "object", "") for entry in result.entries]


@pytest.mark.promise("B-12")
async def test_a_fact_is_found_by_any_of_its_words(memory: Memory) -> None:
    result = await Retriever(memory).recall("What is my sister's name?")

    assert (objects(result), result.path) == (["Ann"], "token_recall")


@pytest.mark.promise("B-12")
@pytest.mark.parametrize("message", ["Any hikes?", "She hiked", "I am loving it"])
async def test_a_fact_is_found_by_any_form_of_its_words(memory: Memory, message: str) -> None:
    assert objects(await Retriever(memory).recall(message)) == ["hiking"]


@pytest.mark.promise("B-12")
async def test_whoever_is_named_is_found_by_what_they_are_and_the_other_way_round(memory: Memory) -> None:
    lives = Candidate(subject="sister", predicate="LIVES_IN", object="Graz", quote="she lives in Graz")
    baker = Candidate(subject="Ann", predicate="WORKS_AS", object="baker", quote="Ann is a baker")
    await memory.learn([lives, baker])
    by_name = await Retriever(memory).recall("Which town for Ann?")
    by_kinship = await Retriever(memory).recall("What is my sister's job?")

    assert set(objects(by_name)) == set(objects(by_kinship)) == {"Ann", "Graz", "baker"}


@pytest.mark.promise("B-12")
async def test_nothing_is_found_where_nothing_bears_on_it(memory: Memory) -> None:
    assert objects(await Retriever(memory).recall("The weather is awful")) == []
    assert objects(await Retriever(memory).recall("")) == []


@pytest.mark.promise("B-12")
async def test_words_and_vectors_are_fused(memory: Memory) -> None:
    retriever = Retriever(memory, Alike())
    count = await retriever.embed_missing()
    result = await retriever.recall("my sister")

    assert (count, result.path) == (3, "hybrid_rrf")
    assert objects(result)[0] == "Ann"
    assert sorted(objects(result)) == ["Ann", "hiking", "peanuts"]


async def test_the_hashing_embedder_finds_words_that_are_spelled_alike(memory: Memory) -> None:
    retriever = Retriever(memory, SpellingEmbedder())
    await retriever.embed_missing()

    assert objects(await retriever.recall("allergies?"))[:1] == ["peanuts"]


@pytest.mark.promise("B-12")
async def test_when_embedding_fails_words_answer(memory: Memory) -> None:
    result = await Retriever(memory, FailingEmbedder()).recall("sister")

    assert (objects(result), result.path) == (["Ann"], "token_recall_after_embed_error")
    assert "it is down" in (result.problem or "")


@pytest.mark.parametrize(("level", "is_logged"), [(logging.INFO, False), (logging.DEBUG, True)])
async def test_what_an_embedder_says_that_nobody_foresaw_is_for_who_looks_for_it(
    memory: Memory, caplog: pytest.LogCaptureFixture, level: int, *, is_logged: bool
) -> None:
    with caplog.at_level(level, logger="clew"):
        result = await Retriever(memory, Odd()).recall("sister")

    assert (objects(result), result.path) == (["Ann"], "token_recall_after_embed_error")
    assert (result.problem, "RuntimeError" in caplog.text) == (
        "Model 'odd' failed: it raised RuntimeError.",
        True,
    )
    assert ("hunter2 was refused" in caplog.text) is is_logged


@pytest.mark.promise("B-12")
async def test_a_turn_does_not_wait_for_a_slow_embedder(memory: Memory) -> None:
    result = await Retriever(memory, Slow(), timeout_seconds=0.01).recall("sister")

    assert (objects(result), result.path) == (["Ann"], "token_recall_after_embed_error")
    assert "0.01 seconds" in (result.problem or "")


async def test_vectors_are_made_once_and_only_for_what_is_new(memory: Memory) -> None:
    retriever = Retriever(memory, SpellingEmbedder())
    counts = [await retriever.embed_missing(), await retriever.embed_missing()]
    await memory.learn([sister("Beth")])

    assert [*counts, await retriever.embed_missing()] == [3, 0, 1]


async def test_what_is_forgotten_leaves_no_vector_and_is_not_found(memory: Memory, db: Database) -> None:
    retriever = Retriever(memory, SpellingEmbedder())
    await retriever.embed_missing()
    (entry,) = (await retriever.recall("hiking")).entries
    await memory.propose_forgetting([entry.id])
    await memory.confirm_forgetting()
    records = await db.records.find(RecordQuery(kind=VECTOR_KIND))

    assert len(records) == 2
    assert objects(await retriever.recall("hiking")) == []


async def test_what_is_forgotten_while_its_vector_is_made_leaves_none(memory: Memory, db: Database) -> None:
    class Forgetful(Alike):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            if len(texts) == 3:
                await memory.propose_forgetting([(await memory.page(limit=1)).facts[0].id])
                await memory.confirm_forgetting()
            return await super().embed(texts)

    await Retriever(memory, Forgetful()).embed_missing()

    assert len(await db.records.find(RecordQuery(kind=VECTOR_KIND))) == 2


async def test_what_was_superseded_is_not_found(memory: Memory) -> None:
    retriever = Retriever(memory, SpellingEmbedder())
    await retriever.embed_missing()
    await memory.learn([sister("Beth")])

    assert objects(await retriever.recall("sister Ann")) == ["Beth"]


@pytest.mark.promise("R-16")
async def test_nobody_finds_what_is_another_users(memory: Memory, db: Database) -> None:
    bob = Retriever(Memory(db, "bob"), SpellingEmbedder())
    await Retriever(memory, SpellingEmbedder()).embed_missing()

    assert objects(await bob.recall("my sister Ann")) == []
    assert await bob.embed_missing() == 0


async def test_arcs_are_recalled_while_they_are_young(memory: Memory) -> None:
    now = (await memory.db.thread(memory.thread).head()).updated
    await memory.db.commit(
        await memory.episode_writes(
            Arc(id="", episode="e1", summary="talked about the exam", themes=("exams",)), []
        )
    )
    clocks = [Clock(now + days * DAY_MS) for days in (1, 40)]
    results = [await Retriever(memory, clock=clock).recall("my exam") for clock in clocks]
    always = Retriever(memory, clock=clocks[1], limits=RecallLimits(arc_days=None))

    assert [len(result.entries) for result in results] == [1, 0]
    assert len((await always.recall("my exam")).entries) == 1


@pytest.mark.promise("R-18")
async def test_the_first_turn_is_told_the_last_episode_the_facts_and_the_rules(memory: Memory) -> None:
    await memory.learn([rule("name", "Call the user Sam.")])
    for number, theme in enumerate(("sleep", "anxiety")):
        await memory.db.commit(
            await memory.episode_writes(
                Arc(id="", episode=f"e{number}", summary=f"talked about {theme}", themes=(theme,)), []
            )
        )
    late = Retriever(
        memory, clock=Clock((await memory.db.thread(memory.thread).head()).updated + 400 * DAY_MS)
    )
    first = await late.working_memory("Hey", first_turn=True)
    later = await late.working_memory("Hey", first_turn=False)

    assert render_entry(first.result.entries[0]) == "Last session (anxiety): talked about anxiety."
    assert set(objects(first.result)[1:]) == {"Ann", "peanuts", "hiking"}
    assert [rule.text for rule in first.profile.rules] == ["Call the user Sam."]
    assert later.result.entries == ()


async def test_a_first_turn_of_somebody_new_is_told_nothing(db: Database) -> None:
    opening = await Retriever(Memory(db, "nobody")).working_memory("Hey", first_turn=True)

    assert (opening.result.entries, opening.profile.rules) == ((), ())


@pytest.mark.promise("A-04")
async def test_entries_stay_structured_until_they_are_rendered(memory: Memory) -> None:
    (entry,) = (await Retriever(memory).recall("hiking")).entries

    assert msgspec.to_builtins(entry)["predicate"] == "LIKES"
    assert render_entry(entry) == '[preference] User LIKES hiking — "I love hiking in autumn"'
