"""What sessions leave beside their threads: it goes with the thread, with its forks, and after it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import clew
from clew.core.errors import ThreadNotFound
from clew.core.values import Job, Record, RecordQuery
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.memory import memory_of
from clew.runtime.records.episodes import EPISODE
from clew.runtime.records.feedback import FEEDBACK
from clew.testing import ScriptedModel
from tests.support.tenants import db, postgres_url, tenant

pytestmark = pytest.mark.usefixtures("long_lock_wait")

__all__ = ["db", "postgres_url", "tenant"]

KINDS = ("run", EPISODE, FEEDBACK)


@pytest.fixture
async def sessions_db(db: clew.Database) -> AsyncIterator[clew.Database]:
    """A thread and a fork of it that belong to nobody, each with a session that was ended."""
    runtime = clew.Runtime(db, model=ScriptedModel("Hi", "Hi"), finalize=Finalizer())
    await runtime.run_turn("one", "My dog is called Rex.")
    await runtime.fork("one", "two")
    await runtime.run_turn("two", "My cat is called Tom.")
    for thread in ("one", "two"):
        await runtime.end_session(thread, feedback="positive")
    yield db
    await runtime.close()


async def remnants(db: clew.Database) -> list[str]:
    """What is there of anybody."""
    records = [record for kind in KINDS for record in await db.records.find(RecordQuery(kind=kind))]
    threads = (await db.threads(system=True)).threads
    names = [*(record.kind for record in records), *(thread.id for thread in threads)]
    return sorted(name for name in names if name != "clew/receipts")


@pytest.mark.promise("B-07")
async def test_a_thread_goes_with_its_fork_and_what_both_left_behind(sessions_db: clew.Database) -> None:
    before = await remnants(sessions_db)
    preview = await sessions_db.erase(thread="one", dry_run=True)
    receipt = await sessions_db.erase(thread="one")

    assert before == [
        EPISODE,
        EPISODE,
        FEEDBACK,
        FEEDBACK,
        "memory/@one",
        "memory/@two",
        "one",
        "run",
        "run",
        "two",
    ]
    assert await remnants(sessions_db) == []
    assert preview.counts == receipt.counts


@pytest.mark.promise("B-07")
async def test_what_an_owner_remembers_of_one_thread_alone_goes_too(db: clew.Database) -> None:
    await db.create("one", owner="ann")
    await memory_of(db, "one").set_recall(on=False)
    await memory_of(db, "two").set_recall(on=False)
    await db.erase(owner="ann")

    assert await remnants(db) == ["memory/@two"]


@pytest.mark.promise("B-07")
async def test_what_is_about_a_deleted_thread_can_still_be_erased(sessions_db: clew.Database) -> None:
    for id in ("one", "two"):
        await sessions_db.thread(id).delete()
    await sessions_db.jobs.enqueue(Job(id="later", kind="k", body={"thread": "two"}))
    receipt = await sessions_db.erase(thread="two")
    records = [await sessions_db.records.find(RecordQuery(kind=kind)) for kind in KINDS]

    assert receipt.counts == {
        "jobs": 1,
        "records of kind episode": 1,
        "records of kind feedback": 1,
        "records of kind run": 1,
    }
    assert [len(each) for each in records] == [1, 1, 1]
    with pytest.raises(ThreadNotFound):
        await sessions_db.erase(thread="two")


@pytest.mark.promise("B-07")
async def test_what_somebody_else_keeps_about_a_deleted_thread_stays(db: clew.Database) -> None:
    await db.records.put(Record(kind="note", id="1", owner="bob", tags=("thread:one",), body="mine"))

    with pytest.raises(ThreadNotFound):
        await db.erase(thread="one")
    assert (await db.records.get("note", "1")).body == "mine"
