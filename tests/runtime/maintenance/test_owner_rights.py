"""Background work acts with the rights of the owner of what it touches, however a row came to be there."""

from __future__ import annotations

import logging
import time

import pytest

import clew
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, StoreDamaged
from clew.core.log.vectors import VECTOR_KIND
from clew.core.values import Job, Record, RecordQuery
from clew.database.database import Database
from clew.runtime.execution import queue
from clew.runtime.execution.start import turn_request
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.vectors.jobs import embedding_job, run_embedding_jobs
from clew.runtime.records.episodes import (
    ACTIVE_EPISODE,
    ENDED,
    EPISODE,
    active_episode,
    episode_of,
    request_end,
)
from clew.runtime.records.runs import KIND, RUNNING
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.testing.embedder import SpellingEmbedder
from clew.testing.scripted_model import ScriptedModel

pytestmark = pytest.mark.promise("F-10")
SECRET = "I like the harbour lantern."


def runtime_of(db: Database) -> Runtime[clew.State, object]:
    """A runtime that looks around only when it is told to."""
    runtime: Runtime[clew.State, object] = Runtime(
        db,
        model=ScriptedModel(*["I see."] * 200),
        finalize=Finalizer(),
        config=RuntimeConfig(sessions=SessionConfig(idle_seconds=0, finalize_active_sessions_on_close=False)),
    )
    runtime._sweeper.start = lambda: None  # type: ignore[method-assign]  # it would look around at once
    return runtime


def episode_row(id: str, owner: str | None, **about: JSON) -> Record:
    body = {"id": "episode-forged", "thread": id, "user": owner, "started": 1, "touched": 1, **about}
    return Record(kind=ACTIVE_EPISODE, id=id, owner=owner, tags=("modality:text:default",), sort=1, body=body)


async def end_her_session(runtime: Runtime[clew.State, object]) -> None:
    await runtime.run_turn("hers", SECRET, user="alice")
    await runtime.end_session("hers", user="alice")


async def episode_owners(db: Database) -> dict[str, str | None]:
    records = await db.records.find(RecordQuery(kind=EPISODE, tags=(ENDED,)))
    return {episode_of(record).thread: record.owner for record in records}


@pytest.mark.promise("R-16")
async def test_an_episode_that_names_anothers_thread_leaves_nothing(db: Database) -> None:
    async with runtime_of(db) as runtime:
        await end_her_session(runtime)
        await db.records.put(episode_row("hers", "bob"))
        await runtime.sweep()
        export = await Memory(db, "bob").export()

    assert (export["facts"], export["arcs"]) == ([], [])
    assert await db.records.find(RecordQuery(kind=ACTIVE_EPISODE)) == []


async def test_an_episode_of_nobody_reads_no_thread_of_somebodys(db: Database) -> None:
    async with runtime_of(db) as runtime:
        await end_her_session(runtime)
        await db.records.put(episode_row("hers", None))
        await runtime.sweep()
        export = await Memory(db, "hers", of_thread=True).export()

    assert (export["facts"], export["arcs"]) == ([], [])


MISFITS = {
    "under another id": episode_row("elsewhere", "bob", thread="his"),
    "of another user": episode_row("his", "bob", user="alice"),
    "that is over": episode_row("his", "bob", status="ended"),
}


@pytest.mark.parametrize("row", MISFITS.values(), ids=MISFITS)
async def test_a_row_that_does_not_fit_is_reported_once_and_keeps_no_other_waiting(
    db: Database, row: Record, caplog: pytest.LogCaptureFixture
) -> None:
    async with runtime_of(db) as runtime:
        await db.create("his", owner="bob")
        await db.records.put(row)
        await runtime.run_turn("other", "Hello", user="carol")
        with caplog.at_level(logging.WARNING, "clew"):
            for _ in range(3):
                await runtime.sweep()

    assert await episode_owners(db) == {"other": "carol"}
    assert len([line for line in caplog.messages if "is passed over" in line]) == 1


@pytest.mark.promise("R-09")
@pytest.mark.parametrize("row", MISFITS.values(), ids=MISFITS)
async def test_ending_a_row_that_does_not_fit_is_refused_at_once(db: Database, row: Record) -> None:
    await db.records.put(row)

    with pytest.raises(StoreDamaged, match="is not that of episode"):
        await request_end(db, row.id, by="api", now=1)


async def test_a_dead_run_closes_nothing_on_anothers_thread(db: Database) -> None:
    async with runtime_of(db) as runtime:
        await runtime.run_turn("hers", SECRET, user="alice")
        before = await db.thread("hers").head()
        run = before.state["$run"]["id"]
        body = {"id": run, "thread": "hers", "user": "bob", "started": 1, "until": 1}
        tags = ("thread:hers", f"status:{RUNNING}")
        for _ in range((await db.records.get(KIND, run)).revision):  # hers would be written at its revision
            await db.records.put(Record(kind=KIND, id="other", owner="bob", tags=tags, body=body))
        await runtime.sweep()

    assert (await db.thread("hers").head()).version == before.version
    assert (await db.records.get(KIND, run)).owner == "alice"


async def test_a_thread_whose_state_names_anothers_run_leaves_that_alone(db: Database) -> None:
    async with runtime_of(db) as runtime:
        await runtime.run_turn("hers", SECRET, user="alice")
        run = await db.records.get(KIND, (await db.thread("hers").head()).state["$run"]["id"])
        at_work = {**run.body, "status": RUNNING, "until": 1 << 60}
        before = await db.records.put(Record(kind=KIND, id=run.id, owner="alice", body=at_work))
        await db.create("his", owner="bob")
        await db.thread("his").append(patches=[clew.set(["$run"], {"id": run.id, "status": RUNNING})])
        is_cancelled = await runtime.cancel("his")
        with pytest.raises(InvalidArgument, match="no run to resume"):
            await runtime.resume("his")
        await runtime.run_turn("his", "Hello", user="bob")

    assert not is_cancelled
    assert await db.records.get(KIND, run.id) == before


async def test_no_vectors_are_made_for_one_of_anothers_words(db: Database) -> None:
    await db.create("hers", owner="alice")
    await db.thread("hers").append(items=[clew.user(SECRET)])
    await db.commit([embedding_job("hers", "bob", "forged", ["history"])])
    await run_embedding_jobs(db, SpellingEmbedder())

    assert await db.records.find(RecordQuery(kind=VECTOR_KIND)) == []


async def test_an_end_acts_for_the_owner_of_its_job(db: Database) -> None:
    async with runtime_of(db) as runtime:
        await runtime.run_turn("hers", SECRET, user="alice")
        of = await request_end(db.scope(tenant=db.tenant, user="alice"), "hers", by="api", now=1)
        assert of is not None
        await db.jobs.enqueue(
            Job(id="forged", kind="end episode:default", owner="bob", body={"episode": of.id})
        )
        (forgery,) = [job for job in await db.jobs.list() if job.id == "forged"]
        await runtime.sweep()
        after = await db.jobs.get(forgery.id)

    assert after.problem is not None
    assert "There is no episode" in after.problem
    assert len((await Memory(db, "alice").page()).facts) == 1


async def test_a_queued_turn_of_another_user_never_begins(db: Database) -> None:
    body = {"thread": "hers", "inputs": {}, "items": [], "user": "alice"}
    tags = ("thread:hers",)
    async with runtime_of(db) as runtime:
        await runtime.run_turn("hers", SECRET, user="alice")
        before = (await db.thread("hers").head()).version
        await db.records.put(Record(kind=queue.KIND, id="q", owner="bob", tags=tags, body=body))
        await runtime.sweep()
        await runtime._scheduler.stop()

    assert (await db.thread("hers").head()).version == before


async def test_queued_turns_begin_behind_a_hundred_that_cannot(db: Database) -> None:
    async with runtime_of(db) as runtime:
        for number in range(101):
            body = {"thread": "hers", "inputs": {}, "items": [], "user": "alice"}
            await db.records.put(Record(kind=queue.KIND, id=f"q{number:03}", owner="bob", body=body))
        request = turn_request(runtime.schema, "his", "Hello", user="bob", key="k")
        await queue.enqueue_turn(db, "z", request, int(time.time() * 1000))
        await runtime.sweep()
        while not runtime.is_idle:
            await db.thread("his").wait_for_change(99, timeout=0.05)

    assert (await db.thread("his").head()).owner == "bob"


async def test_a_thread_of_a_users_database_has_an_episode_of_theirs(db: Database) -> None:
    async with runtime_of(db.scope(tenant=db.tenant, user="alice")) as runtime:
        await runtime.run_turn("hers", SECRET)
    episode = await active_episode(db, "hers")

    assert episode is not None
    assert episode.user == "alice"
