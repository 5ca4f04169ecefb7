"""Feedback on sessions: apart from their end, once for each key, one row for each episode, never text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clew.core.errors import InvalidArgument, KeyReused, ThreadNotFound
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.records.feedback import FEEDBACK, Feedback, feedback_of, feedback_query, feedback_rows
from clew.runtime.runtime import Runtime
from clew.testing.scripted_model import ScriptedModel
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]
pytestmark = pytest.mark.promise("R-23")


@pytest.fixture
async def runtime(db: Database) -> AsyncIterator[Runtime]:
    """A runtime that answers, whatever is said."""
    async with Runtime(db, model=ScriptedModel(*["Hello."] * 9)) as new_runtime:
        yield new_runtime


async def rows(db: Database) -> list[Feedback]:
    """All feedback in a database."""
    return [feedback_of(record) for record in await db.records.find(RecordQuery(kind=FEEDBACK))]


async def test_feedback_is_recorded_while_the_session_goes_on(runtime: Runtime, db: Database) -> None:
    await runtime.run_turn("a", "Hi", user="ada")
    await runtime.run_turn("a", "Me again", user="ada")
    feedback = await runtime.record_session_feedback("a", "positive", source="web", user="ada")
    status = await runtime.session_status("a")

    assert await rows(db) == [feedback]
    assert (feedback.label, feedback.source, feedback.modality, feedback.turns, feedback.user) == (
        ("positive", "web", "text", 2, "ada")
    )
    assert (status.status, status.feedback, feedback.id) == (
        ("active", "positive", status.episode.id if status.episode else None)
    )


@pytest.mark.promise("R-08")
@pytest.mark.parametrize(("at_end", "label"), [(None, "positive"), ("negative", "negative")])
async def test_feedback_and_then_an_end_make_one_row(
    runtime: Runtime, db: Database, at_end: str | None, label: str
) -> None:
    await runtime.run_turn("a", "Hi")
    await runtime.record_session_feedback("a", "positive")
    episode = await runtime.end_session("a", feedback=at_end)

    assert episode is not None
    assert [(row.id, row.label) for row in await rows(db)] == [(episode.id, label)]
    assert episode.feedback == label


async def test_feedback_after_the_end_is_about_the_session_that_ended(runtime: Runtime, db: Database) -> None:
    await runtime.run_turn("a", "Hi")
    episode = await runtime.end_session("a", feedback="positive")
    await runtime.record_session_feedback("a", "negative")

    assert episode is not None
    assert [(row.id, row.label, row.turns) for row in await rows(db)] == [(episode.id, "negative", 1)]


async def test_each_session_of_a_thread_has_feedback_of_its_own(runtime: Runtime, db: Database) -> None:
    for label in ("positive", "negative"):
        await runtime.run_turn("a", "Hi")
        await runtime.record_session_feedback("a", label)
        await runtime.end_session("a")

    assert sorted(row.label for row in await rows(db)) == ["negative", "positive"]


@pytest.mark.promise("B-02")
async def test_asking_twice_with_one_key_records_once(runtime: Runtime, db: Database) -> None:
    await runtime.run_turn("a", "Hi")
    first = await runtime.record_session_feedback("a", "positive", key="k")
    second = await runtime.record_session_feedback("a", "negative", key="another")
    again = await runtime.record_session_feedback("a", "positive", key="k")

    assert (first.label, second.label, again.label) == ("positive", "negative", "negative")
    assert len(await rows(db)) == 1


@pytest.mark.promise("B-02")
async def test_a_key_that_comes_again_after_the_end_records_nothing_more(
    runtime: Runtime, db: Database
) -> None:
    await runtime.run_turn("a", "Hi")
    await runtime.record_session_feedback("a", "positive", key="k")
    await runtime.end_session("a", feedback="negative")
    await runtime.run_turn("a", "Hi again")
    await runtime.record_session_feedback("a", "positive", key="k")

    assert [row.label for row in await rows(db)] == ["negative"]


@pytest.mark.promise("B-02")
async def test_a_key_that_was_used_for_another_label_is_refused(runtime: Runtime, db: Database) -> None:
    await runtime.run_turn("a", "Hi")
    await runtime.record_session_feedback("a", "positive", key="k")
    with pytest.raises(KeyReused):
        await runtime.record_session_feedback("a", "negative", key="k")

    assert [row.label for row in await rows(db)] == ["positive"]


@pytest.mark.race
async def test_many_who_click_at_once_make_one_row(runtime: Runtime, db: Database) -> None:
    await runtime.run_turn("a", "Hi")
    await asyncio.gather(
        *(runtime.record_session_feedback("a", "positive", key=f"k{number % 2}") for number in range(6))
    )

    assert [(row.label, len(row.keys)) for row in await rows(db)] == [("positive", 2)]


@pytest.mark.parametrize("label", ["it was all right I suppose", "", "positive\n"])
async def test_what_is_no_label_is_refused(runtime: Runtime, db: Database, label: str) -> None:
    await runtime.run_turn("a", "Hi")
    with pytest.raises(InvalidArgument, match="never text"):
        await runtime.record_session_feedback("a", label)

    assert await rows(db) == []


async def test_a_thread_without_a_session_takes_no_feedback(runtime: Runtime, db: Database) -> None:
    await db.create("empty")
    with pytest.raises(InvalidArgument, match="has had no session"):
        await runtime.record_session_feedback("empty", "positive")

    with pytest.raises(ThreadNotFound):
        await runtime.record_session_feedback("none", "positive")


@pytest.mark.promise("R-14")
async def test_feedback_on_an_incognito_session_stays_in_memory(runtime: Runtime, db: Database) -> None:
    await runtime.run_turn("a", "Hi", mode=MemoryMode.INCOGNITO)
    await runtime.record_session_feedback("a", "positive", key="k")
    await runtime.end_session("a")
    incognito_rows = await rows(runtime.incognito_records())

    assert [row.label for row in incognito_rows] == ["positive"]
    assert await rows(db) == []


async def test_feedback_is_found_by_thread_user_and_time(runtime: Runtime, db: Database) -> None:
    for thread, user in (("a", "ada"), ("b", "ada"), ("c", "bob")):
        await runtime.run_turn(thread, "Hi", user=user)
        await runtime.record_session_feedback(thread, "positive", user=user)
    newest = max(row.recorded for row in await rows(db))
    found = [
        [row.thread async for row in feedback_rows(db, query)]
        for query in (
            feedback_query(thread="b"),
            feedback_query(owner="ada"),
            feedback_query(since=newest + 1),
        )
    ]

    assert [sorted(each) for each in found] == [["b"], ["a", "b"], []]
