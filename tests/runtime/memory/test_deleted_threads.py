"""Threads that take the id of a deleted one: they know nothing of it, whoever they belong to."""

from __future__ import annotations

import pytest

from clew.core.errors import UserMissing
from clew.core.items import user
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.memory.memory import memory_of
from clew.runtime.records.episodes import EPISODE, episode_of, request_end
from clew_companion.agent import companion
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]
pytestmark = [pytest.mark.promise("R-16"), pytest.mark.security]
QUESTION = "What do you remember about me?"


@pytest.mark.parametrize("is_made_first", [False, True], ids=["by a turn", "before its turn"])
@pytest.mark.parametrize(
    ("before", "after"), [("alice", None), (None, None), (None, "alice")], ids=["alice's", "nobody's", "hers"]
)
async def test_nothing_noted_in_a_deleted_thread_is_heard_in_the_next(
    db: Database, before: str | None, after: str | None, *, is_made_first: bool
) -> None:
    async with companion(db) as runtime:
        await runtime.run_turn("t", "I like marmalade.", user=before)
        await db.thread("t").delete()
        if is_made_first:
            await db.create("t", owner=after)
        turn = await runtime.run_turn("t", QUESTION, user=after)
        await runtime.end_session("t", user=after)
        facts = (await memory_of(db, "t", after).page()).facts

    assert "marmalade" not in turn.text
    assert facts == ()


async def test_the_episode_of_a_deleted_thread_is_ended_by_the_next_of_its_id(db: Database) -> None:
    async with companion(db) as runtime:
        await runtime.run_turn("t", "I like marmalade.", user="alice")
        await db.thread("t").delete()
        await runtime.run_turn("t", "Hello")
        await runtime.sweep()
        episodes = [episode_of(record) for record in await db.records.find(RecordQuery(kind=EPISODE))]

    assert [(of.user, of.ended_by, of.status) for of in episodes] == [("alice", "deleted", "ended")]


async def test_an_end_that_comes_after_the_thread_has_gone_leaves_nothing_of_nobodys(db: Database) -> None:
    async with companion(db) as runtime:
        await runtime.run_turn("t", "I like marmalade.")
        await request_end(db, "t", by="timeout", now=db.store.now())
        await db.thread("t").delete()
        await runtime.sweep()

    assert (await memory_of(db, "t").page()).facts == ()


async def test_nobody_goes_on_with_no_thread_of_a_user_whoever_was_first(db: Database) -> None:
    async with companion(db) as runtime:
        await runtime.run_turn("t", "Hello")
        await db.thread("t").delete()
        await runtime.run_turn("t", "I like marmalade.", user="alice")
        await runtime.run_turn("t", "And toast.", user="alice")
        with pytest.raises(UserMissing):
            await runtime.run_turn("t", QUESTION)

    assert (await db.thread("t").head()).owner == "alice"


@pytest.mark.promise("F-10")
async def test_a_process_that_remembers_a_deleted_thread_does_not_write_to_another_persons(
    db: Database,
) -> None:
    async with companion(db) as runtime:
        version = (await runtime.run_turn("t", "I like marmalade.")).version
        await db.thread("t").delete()
        thread = await db.create("t", owner="bob")
        for _ in range(version):
            await thread.append(items=[user("I like plums.")])
        with pytest.raises(UserMissing):
            await runtime.run_turn("t", "Go on.")

    assert (await db.thread("t").head()).version == version
