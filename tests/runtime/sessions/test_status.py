"""Statuses: one word says where a thread stands, and what a caller can do next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

import clew
from clew.core.values import Job
from clew.database.database import Database
from clew.runtime.model.messages import Message
from clew.runtime.records.episodes import (
    Episode,
    EpisodeResult,
    active_episode,
    end_job_kind,
    episode_write,
    job_id,
    request_end,
)
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.status import ADVICE, SessionStatus
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import Replay
from clew.testing.clock import Clock
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.sample_state import Companion, crash, crash_turn

MINUTES = 60_000


async def answer(state: clew.State, ctx: clew.Context) -> clew.Delta:
    return {"reply": "ok"}


@clew.tool(approval=True)
async def post(to: str) -> str:
    """Post a letter."""
    return f"posted to {to}"


async def fail(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
    raise RuntimeError("the model is down")


async def test_a_thread_that_nobody_has_used_has_no_status(db: Database) -> None:
    await db.create("empty")
    runtime = Runtime(db)

    assert await runtime.session_status("never") == SessionStatus(thread="never")
    assert await runtime.session_status("empty") == SessionStatus(thread="empty")


async def test_an_active_session_says_since_when_it_is_idle_and_when_it_expires(db: Database) -> None:
    clock = Clock()
    runtime = Runtime(db, stages=[answer], config=RuntimeConfig(clock=clock))
    await runtime.run_turn("a", "Hi")
    clock.advance(5 * MINUTES)
    status = await runtime.session_status("a")

    assert (status.status, status.idle_since, status.expires_at) == (
        "active",
        clock.now - 5 * MINUTES,
        clock.now + 15 * MINUTES,
    )
    assert status.episode == await active_episode(db, "a")


@pytest.mark.promise("R-09")
async def test_a_call_does_not_expire_by_being_idle(db: Database) -> None:
    runtime = Runtime(db, stages=[answer])
    await runtime.run_turn("a", "Hi")
    active = await active_episode(db, "a")
    assert active is not None
    await db.commit([episode_write(msgspec.structs.replace(active, modality="voice"), None)])
    call = await runtime.session_status("a")
    active = await active_episode(db, "a")
    assert active is not None
    await db.commit([episode_write(msgspec.structs.replace(active, until=77), None)])
    status_with_lease = await runtime.session_status("a")

    assert (call.status, call.expires_at, status_with_lease.expires_at) == ("active", None, 77)


async def test_an_ended_session_says_so(db: Database) -> None:
    runtime = Runtime(db, stages=[answer])
    await runtime.run_turn("a", "Hi")
    episode = await runtime.end_session("a")
    status = await runtime.session_status("a")

    assert episode is not None
    assert status.episode is not None
    assert (status.status, status.episode.id, status.unfinished) == ("ended", episode.id, ())


@pytest.mark.promise("R-12")
async def test_a_session_whose_end_failed_says_why_and_when_it_is_tried_again(db: Database) -> None:
    runtime = Runtime(db, stages=[answer], finalize=fail)
    await runtime.run_turn("a", "Hi")
    await runtime.end_session("a")
    status = await runtime.session_status("a")
    (job,) = await db.jobs.list()

    assert status.status == "ending"
    (end,) = status.unfinished
    assert (end.job, end.attempts, end.next_try) == ("waiting", 1, job.due)
    assert end.problem == "RuntimeError: the model is down"


@pytest.mark.promise("R-12")
async def test_an_end_that_was_given_up_is_in_sight_and_can_be_retried(db: Database) -> None:
    runtime = Runtime(db, stages=[answer], finalize=fail)
    await runtime.run_turn("a", "Hi")
    before = await active_episode(db, "a")
    assert before is not None
    once = Job(
        id=job_id(before.id),
        kind=end_job_kind("default"),
        key=before.id,
        body={"episode": before.id},
        limit=1,
    )
    await db.jobs.enqueue(once)
    await request_end(db, "a", by="api", now=1)
    await runtime.sweep()
    given_up = await runtime.session_status("a")
    await db.jobs.retry(once.id)
    await Runtime(db).sweep()
    after = await runtime.session_status("a")

    assert (given_up.status, [end.job for end in given_up.unfinished]) == ("ending", ["dead"])
    assert "retry" in given_up.advice
    assert (after.status, after.unfinished) == ("ended", ())


async def test_a_new_episode_shows_that_the_end_of_the_one_before_is_not_finished(db: Database) -> None:
    runtime = Runtime(db, stages=[answer], finalize=fail)
    await runtime.run_turn("a", "Hi")
    episode = await runtime.end_session("a")
    await runtime.run_turn("a", "Back again")
    status = await runtime.session_status("a")

    assert episode is not None
    assert (status.status, [end.episode for end in status.unfinished]) == ("active", [episode.id])


async def test_a_run_at_work_says_so(db: Database) -> None:
    start, go = asyncio.Event(), asyncio.Event()

    async def wait(state: clew.State, ctx: clew.Context) -> clew.Delta:
        start.set()
        await go.wait()
        return {"reply": "ok"}

    runtime = Runtime(db, stages=[wait])
    turn = asyncio.create_task(runtime.run_turn("a", "Hi"))
    await start.wait()
    status = await runtime.session_status("a")
    go.set()
    result = await turn

    assert (status.status, status.run) == ("running", result.run)


@pytest.mark.promise("T-16")
async def test_a_run_that_waits_says_for_what(db: Database) -> None:
    model = ScriptedModel(calls(("c1", "post", {"to": "Ann"})), "Done.")
    runtime = Runtime(db, model=model, tools=[post])
    result = await runtime.run_turn("a", "Write to Ann")
    waiting = await runtime.session_status("a")
    await runtime.resume("a", {"c1": Replay()})
    over = await runtime.session_status("a")

    assert (waiting.status, waiting.run, waiting.waiting) == ("waiting", result.run, result.waiting)
    assert (over.status, over.run, over.waiting) == ("active", None, ())


@pytest.mark.promise("T-17", "R-24")
async def test_a_run_whose_process_died_is_interrupted_before_and_after_it_is_closed(db: Database) -> None:
    clock = Clock()
    turn_start = await crash_turn(db, "Hi", [crash], clock=clock)
    clock.advance(MINUTES)
    runtime = Runtime(db, schema=Companion, stages=[crash], config=RuntimeConfig(clock=clock))
    before = await runtime.session_status("a")
    await runtime.sweep()
    after = await runtime.session_status("a")

    assert {(status.status, status.run) for status in (before, after)} == {
        ("interrupted", turn_start.journal.run.id)
    }


async def test_a_session_of_somebody_else_is_not_there(db: Database) -> None:
    runtime = Runtime(db, stages=[answer])
    await runtime.run_turn("a", "Hi", user="alice")

    assert (await runtime.session_status("a", user="alice")).status == "active"
    assert (await runtime.session_status("a", user="bob")).status == "none"


def test_every_status_tells_a_caller_what_to_do() -> None:
    advice = {status: SessionStatus(thread="a", status=status).advice for status in ADVICE}

    assert sorted(advice) == ["active", "ended", "ending", "interrupted", "none", "running", "waiting"]
    assert all(advice.values())
