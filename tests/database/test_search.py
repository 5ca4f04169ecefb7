"""A search within a thread asks the store no more than it must, and finds what it would otherwise."""

from __future__ import annotations

import random
from typing import Any

import pytest

import clew
from clew.core.log.rows import Ask, AskThread, AskWordCounts, run_read
from clew.core.values import Changeset, Cut, Exact, SearchHit
from clew.database import search
from clew.database.search import CANDIDATES, CANDIDATES_OF_OWNER, WordQuery
from clew.stores.memory import MemoryStore

TEXT = "walk walks walked sister sisters garden gardens house tree river work works working day night"
WORDS = TEXT.split()


async def make_database(count: int) -> clew.Database:
    """A database with a thread of so many texts."""
    chance = random.Random(count)
    db = clew.Database(MemoryStore())
    thread = await db.create("thread")
    await thread.append(items=[clew.user(" ".join(chance.choices(WORDS, k=4))) for _ in range(count)])
    return db


def question_kinds(asking: Any) -> list[type]:
    """The kinds of questions that a reading asks of a store without any thread."""
    kinds: list[type] = []

    def answer(question: Ask[Any]) -> Any:
        kinds.append(type(question))
        return None if isinstance(question, AskThread) else []

    run_read(asking, answer)
    return kinds


async def hits(db: clew.Database, query: str) -> list[SearchHit]:
    return await db.search(query, any=True, thread="thread", limit=CANDIDATES)


@pytest.mark.promise("T-14", "B-12")
@pytest.mark.parametrize("count", [1, 20, CANDIDATES - 1])
@pytest.mark.parametrize("query", ["walking", "sister house", "day night working garden tree", "nothing"])
async def test_of_few_texts_one_question_finds_the_same_as_several(
    monkeypatch: pytest.MonkeyPatch, count: int, query: str
) -> None:
    db = await make_database(count)
    before = await hits(db, query)
    monkeypatch.setattr(search, "_read_small", lambda _: iter(()))

    assert before == await hits(db, query)


@pytest.mark.promise("T-14")
async def test_what_was_ended_does_not_hide_an_older_text_with_a_rarer_word() -> None:
    db = clew.Database(MemoryStore())
    thread = await db.create("thread")
    await thread.append(items=[clew.user("the river")])
    commit = await thread.append(items=[clew.user("walk in the garden") for _ in range(CANDIDATES)])
    places = [item.place for item in await thread.items(last=CANDIDATES)]
    cut = Cut(log="history", first=places[0], last=places[-1], count=len(places), open={})
    await thread.append(Changeset(cuts=(cut,)), expect=Exact(commit.version))

    assert [hit.text for hit in await hits(db, "river walk garden")] == ["the river"]


async def test_of_many_texts_no_more_than_asked_for_are_compared_and_those_are_the_newest() -> None:
    async with clew.open("memory:") as db:
        thread = await db.create("thread", owner="ada")
        await thread.append(items=[clew.user("a walk in the garden") for _ in range(CANDIDATES_OF_OWNER + 1)])
        newest = [item.place for item in await thread.items(last=8)]

        ranking = await db.search_index.rank("garden", owner="ada", most=8)

    assert sorted(ranked.place[2] for ranked in ranking if ranked.is_hit) == newest


async def test_of_few_texts_all_are_compared_however_few_were_asked_for() -> None:
    async with clew.open("memory:") as db:
        thread = await db.create("thread", owner="ada")
        await thread.append(items=[clew.user("a walk in the garden") for _ in range(20)])

        ranking = await db.search_index.rank("garden", owner="ada", most=8)

    assert sum(ranked.is_hit for ranked in ranking) == 20


async def test_of_few_texts_words_are_not_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    db = await make_database(20)

    def refuse(*words: object, **within: object) -> AskWordCounts:
        raise AssertionError("it was counted")

    monkeypatch.setattr(search, "AskWordCounts", refuse)

    assert await hits(db, "sister")


@pytest.mark.parametrize("any", [True, False])
def test_of_a_thread_without_texts_the_index_is_not_asked(*, any: bool) -> None:
    query = WordQuery(words=("fox",), thread="thread")
    asking = search._read_or_backlog(query, lambda _: search._search_all(query, 5), {}, any=any)

    assert question_kinds(asking) == [AskThread]
