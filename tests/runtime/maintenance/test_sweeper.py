"""What goes on beside the turns: ends of episodes, several at once, held while they last, in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

import clew
from clew.core.clock import now_ms
from clew.core.errors import InvalidArgument
from clew.core.values import Job, Record, RecordQuery
from clew.database.database import Database
from clew.runtime.execution.queue import enqueue_turn
from clew.runtime.execution.start import TurnRequest
from clew.runtime.maintenance.sweeper import Sweeper
from clew.runtime.model.call import Deadlines
from clew.runtime.model.messages import Message
from clew.runtime.records.episodes import (
    EPISODE,
    Episode,
    EpisodeResult,
    active_episode,
    end_expired_episodes,
    end_job_kind,
    episode_of,
    job_id,
    request_end,
)
from clew.runtime.records.runs import KIND, Run, record_of, run_id_for_key, run_of
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig, Settings
from clew.stores.memory import MemoryStore
from clew.testing.faults import FailingStore
from clew.writes import Put
from tests.runtime.episode_ends import work

T = TypeVar("T")
SOON = 10.0
"""Seconds after which something that should happen at once will never happen."""
SHORT = 0.6
"""Seconds of a lease that has to be extended to last."""


async def answer(state: clew.State, ctx: clew.Context) -> clew.Delta:
    return {"reply": "ok"}


class Slow:
    """A finalize that waits until it is let go, and counts."""

    def __init__(self) -> None:
        self.starts: asyncio.Queue[Episode] = asyncio.Queue()
        self.go = asyncio.Event()
        self.at_once = 0
        self.most = 0
        self.stop_count = 0

    async def __call__(self, db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.starts.put_nowait(of)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stop_count += 1
            raise
        finally:
            self.at_once -= 1
        once = Put(record=Record(kind="fact", id=of.id, body=None), expect=0)
        return EpisodeResult(episode=of, writes=[once])


def settings_of(db: Database, finalize: Slow, config: RuntimeConfig = RuntimeConfig()) -> Settings:
    """What a runtime with this finalize works with."""
    return Runtime(db, finalize=finalize, config=config)._settings


async def end_sessions(db: Database, *threads: str) -> None:
    """Threads whose episode was ended, and whose jobs wait."""
    runtime = Runtime(db, stages=[answer])
    for thread in threads:
        await runtime.run_turn(thread, "Hi")
        await request_end(db, thread, by="api", now=now_ms())


async def endings(db: Database) -> list[str]:
    return [episode_of(record).status for record in await db.records.find(RecordQuery(kind=EPISODE))]


async def facts(db: Database) -> int:
    return len(await db.records.find(RecordQuery(kind="fact")))


@asynccontextmanager
async def at_work(db: Database, settings: Settings) -> AsyncIterator[asyncio.Task[int]]:
    """Somebody who does the jobs that are due."""
    task = asyncio.create_task(work(db, settings))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def job_of(db: Database, of: Episode) -> Job:
    return await db.jobs.get(job_id(of.id))


async def steal_job(db: Database, of: Episode) -> Job:
    """The job of an episode, in the hands of somebody else from now on."""
    await db.jobs.release(await job_of(db, of))
    (job,) = await db.jobs.claim([end_job_kind("default")], lease_ms=60_000)
    return job


# Several at once, held while they last.


@pytest.mark.promise("R-09")
async def test_so_many_ends_are_made_at_once_and_no_more(db: Database) -> None:
    slow = Slow()
    settings = settings_of(db, slow, RuntimeConfig(sessions=SessionConfig(concurrent_ends=3)))
    await end_sessions(db, *"abcde")
    async with asyncio.timeout(SOON), at_work(db, settings) as working:
        for _ in range(3):
            await slow.starts.get()
        statuses = [job.status for job in await db.jobs.list()]
        slow.go.set()
        count = await working

    assert (sorted(statuses), slow.most, count) == (["running"] * 3 + ["waiting"] * 2, 3, 5)
    assert (await endings(db), await facts(db)) == (["ended"] * 5, 5)


@pytest.mark.promise("R-10")
async def test_an_end_that_takes_longer_than_its_lease_is_left_to_whoever_is_at_it(db: Database) -> None:
    slow = Slow()
    settings = settings_of(db, slow, RuntimeConfig(leases=LeaseConfig(seconds=SHORT)))
    await end_sessions(db, "a")
    async with asyncio.timeout(SOON), at_work(db, settings) as working:
        of = await slow.starts.get()
        first = (await job_of(db, of)).until
        while (await job_of(db, of)).until < first + SHORT * 1000:  # noqa: ASYNC110 - it is only in the store
            await asyncio.sleep(0.02)
        others = await work(db, settings)
        slow.go.set()
        count = await working

    assert (others, count, slow.most, await endings(db)) == (0, 1, 1, ["ended"])


@pytest.mark.promise("R-10")
async def test_whoever_lost_a_job_stops_and_commits_nothing(db: Database) -> None:
    slow = Slow()
    settings = settings_of(db, slow, RuntimeConfig(leases=LeaseConfig(seconds=SHORT)))
    await end_sessions(db, "a")
    async with asyncio.timeout(SOON), at_work(db, settings) as working:
        theirs = await steal_job(db, await slow.starts.get())
        count = await working
        now = await db.jobs.get(theirs.id)

    assert (count, slow.stop_count, await endings(db), await facts(db)) == (0, 1, ["ending"], 0)
    assert (now.token, now.status) == (theirs.token, "running")


@pytest.mark.promise("R-10")
async def test_an_end_made_after_its_job_was_lost_is_not_committed(db: Database) -> None:
    slow = Slow()
    settings = settings_of(db, slow)
    await end_sessions(db, "a")
    async with asyncio.timeout(SOON), at_work(db, settings) as working:
        await steal_job(db, await slow.starts.get())
        slow.go.set()
        count = await working

    assert (count, slow.stop_count, await endings(db), await facts(db)) == (0, 0, ["ending"], 0)


async def test_a_store_that_fails_while_a_job_is_held_does_not_stop_its_end(db: Database) -> None:
    slow = Slow()
    settings = settings_of(db, slow, RuntimeConfig(leases=LeaseConfig(seconds=SHORT)))
    await end_sessions(db, "a")
    shaky = Database(FailingStore(db.store, fail_at=1, only="change"))
    async with asyncio.timeout(SOON), at_work(shaky, settings) as working:
        of = await slow.starts.get()
        first = (await job_of(db, of)).until
        while (await job_of(db, of)).until == first:  # noqa: ASYNC110 - it is only in the store
            await asyncio.sleep(0.02)
        slow.go.set()
        count = await working

    assert (count, slow.stop_count, await endings(db)) == (1, 0, ["ended"])


def test_at_least_one_end_is_made_at_a_time() -> None:
    with pytest.raises(InvalidArgument):
        Runtime(Database(MemoryStore()), config=RuntimeConfig(sessions=SessionConfig(concurrent_ends=0)))


async def test_an_end_that_never_comes_to_its_end_is_given_up_and_tried_again(db: Database) -> None:
    slow = Slow()
    settings = settings_of(db, slow, RuntimeConfig(deadlines=Deadlines(turn_seconds=0.05)))
    await end_sessions(db, "a")
    async with asyncio.timeout(SOON):
        count = await work(db, settings)

    (job,) = await db.jobs.list()
    assert (count, job.status, slow.stop_count) == (0, "waiting", 1)
    assert "took longer than 0.05 s" in (job.problem or "")


async def test_an_end_that_cancels_itself_has_failed(db: Database) -> None:
    async def fail(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        raise asyncio.CancelledError

    runtime = Runtime(db, stages=[answer], finalize=fail)
    await runtime.run_turn("a", "Hi")
    episode = await runtime.end_session("a")

    (job,) = await db.jobs.list()
    assert episode is not None
    assert (episode.status, job.attempts, job.problem) == ("ending", 1, "RuntimeError: It cancelled itself.")


async def test_what_a_closing_runtime_was_at_is_given_back_untried(db: Database) -> None:
    slow = Slow()
    await end_sessions(db, "a")
    async with (
        asyncio.timeout(SOON),
        Runtime(
            db,
            stages=[answer],
            finalize=slow,
            config=RuntimeConfig(sessions=SessionConfig(close_seconds=0.1)),
        ),
    ):
        of = await slow.starts.get()

    job = await job_of(db, of)
    assert (job.status, job.attempts, slow.stop_count, await endings(db)) == ("waiting", 0, 1, ["ending"])


@pytest.mark.promise("R-11")
async def test_what_a_closing_runtime_was_at_is_finished_within_its_deadline(db: Database) -> None:
    slow = Slow()
    await end_sessions(db, "a")
    async with (
        asyncio.timeout(SOON),
        Runtime(
            db,
            stages=[answer],
            finalize=slow,
            config=RuntimeConfig(sessions=SessionConfig(close_seconds=SOON)),
        ) as runtime,
    ):
        await slow.starts.get()
        closing = asyncio.create_task(runtime.close())
        await asyncio.sleep(0)  # so that the close has begun before the end may go on
        slow.go.set()
        await closing

    assert (slow.stop_count, await endings(db), await facts(db)) == (0, ["ended"], 1)


async def test_closing_ends_several_sessions_at_once(db: Database) -> None:
    slow = Slow()
    runtime = Runtime(
        db, stages=[answer], finalize=slow, config=RuntimeConfig(sessions=SessionConfig(concurrent_ends=2))
    )
    for thread in "abc":
        await runtime.run_turn(thread, "Hi")
    closing = asyncio.create_task(runtime.close())
    async with asyncio.timeout(SOON):
        both = {(await slow.starts.get()).thread for _ in range(2)}
        slow.go.set()
        await closing

    assert (both, slow.most, await endings(db)) == ({"a", "b"}, 2, ["ended"] * 3)


# In nobody's way.


@pytest.mark.promise("T-17", "R-09")
async def test_a_run_that_died_is_closed_while_a_slow_end_goes_on(db: Database) -> None:
    slow = Slow()
    await end_sessions(db, "a")
    dead = Run(id="dead", thread="gone", started=1, until=1)
    async with (
        asyncio.timeout(SOON),
        Runtime(
            db, stages=[answer], finalize=slow, config=RuntimeConfig(leases=LeaseConfig(sweep_seconds=0.02))
        ),
    ):
        await slow.starts.get()
        await db.records.put(record_of(dead, None))
        while run_of(await db.records.get(KIND, "dead")).status == "running":  # noqa: ASYNC110 - only there
            await asyncio.sleep(0.01)
        waiting = slow.at_once
        slow.go.set()

    assert (waiting, run_of(await db.records.get(KIND, "dead")).termination) == (1, "interrupted")


async def test_an_end_that_is_due_is_made_while_another_is_slow(db: Database) -> None:
    slow = Slow()
    await end_sessions(db, "a")
    async with (
        asyncio.timeout(SOON),
        Runtime(
            db, stages=[answer], finalize=slow, config=RuntimeConfig(leases=LeaseConfig(sweep_seconds=0.02))
        ),
    ):
        first = await slow.starts.get()
        await end_sessions(db, "b")
        second = await slow.starts.get()
        slow.go.set()

    assert (first.thread, second.thread) == ("a", "b")


async def test_what_one_part_of_a_sweep_meets_keeps_no_other_from_being_done(db: Database) -> None:
    await db.records.put(Record(kind="queued turn", id="a", body={"no": "turn"}))
    clock = now_ms() + 30 * 60_000
    runtime = Runtime(db, stages=[answer], config=RuntimeConfig(leases=LeaseConfig(sweep_seconds=3600)))
    await runtime.run_turn("b", "Hi")
    late = Runtime(db, config=RuntimeConfig(clock=lambda: clock))
    await late.sweep()

    assert await endings(db) == ["ended"]


async def test_an_error_that_nobody_foresaw_does_not_end_the_sweeps() -> None:
    looks: asyncio.Queue[str] = asyncio.Queue()

    async def stumbling() -> None:
        looks.put_nowait("again")
        raise KeyError("nobody foresaw this")

    async with clew.open("memory://") as db:
        config = RuntimeConfig(leases=LeaseConfig(sweep_seconds=0.01))
        runtime = Runtime(db, stages=[answer], config=config)
        sweeper = Sweeper(db, runtime._settings, lambda db, thread: None, chores=[stumbling])
        sweeper.start()
        async with asyncio.timeout(SOON):
            calls = [await looks.get() for _ in range(2)]
        await sweeper.stop()
        await runtime.close()

    assert calls == ["again", "again"]


async def test_a_queued_turn_that_cannot_be_read_keeps_no_other_waiting(db: Database) -> None:
    await db.records.put(Record(kind="queued turn", id="a", body={"no": "turn"}))
    await enqueue_turn(
        db,
        run_id_for_key("b", "k"),
        TurnRequest(thread="b", inputs={"message": "Hi"}, items=(), key="k"),
        now=1,
    )
    threads: list[str] = []
    runtime = Runtime(db, stages=[answer])
    sweeper = Sweeper(db, runtime._settings, lambda db, thread: threads.append(thread))
    await sweeper.sweep_and_wait()

    assert threads == ["b"]


# A turn that arrives during the claim wins.


class PausingStore(FailingStore):
    """Another store, whose changes wait until they are let go."""

    def __init__(self, db: Database) -> None:
        super().__init__(db.store, fail_at=0)
        self.arrival = asyncio.Event()
        self.go = asyncio.Event()

    async def _call(self, call: Callable[[], Awaitable[T]], kind: str = "other") -> T:
        if kind == "change":
            self.arrival.set()
            await self.go.wait()
        return await call()


@pytest.mark.promise("R-09", "R-10")
async def test_a_turn_that_arrives_during_the_claim_wins(db: Database) -> None:
    then, later = now_ms(), now_ms() + 30 * 60_000
    await Runtime(db, stages=[answer], config=RuntimeConfig(clock=lambda: then)).run_turn("a", "Hi")
    before = await active_episode(db, "a")
    store = PausingStore(db)
    async with asyncio.timeout(SOON):
        ending = asyncio.create_task(end_expired_episodes(Database(store), idle_ms=20 * 60_000, now=later))
        await store.arrival.wait()
        await Runtime(db, stages=[answer], config=RuntimeConfig(clock=lambda: later)).run_turn(
            "a", "I am still here"
        )
        store.go.set()
        count = await ending
    now = await active_episode(db, "a")

    assert before is not None
    assert now is not None
    assert (count, now.id, now.turns, await endings(db)) == (0, before.id, 2, [])


@pytest.mark.promise("R-09", "R-13")
async def test_a_turn_that_arrives_just_after_the_claim_begins_an_episode_of_its_own(db: Database) -> None:
    then, later = now_ms(), now_ms() + 30 * 60_000
    await Runtime(db, stages=[answer], config=RuntimeConfig(clock=lambda: then)).run_turn("a", "Hi")
    before = await active_episode(db, "a")
    store = PausingStore(db)
    late = Runtime(Database(store), stages=[answer], config=RuntimeConfig(clock=lambda: later))
    async with asyncio.timeout(SOON):
        turn = asyncio.create_task(late.run_turn("a", "I am late"))
        await store.arrival.wait()
        count = await end_expired_episodes(db, idle_ms=20 * 60_000, now=later)
        store.go.set()
        await turn
    now = await active_episode(db, "a")

    assert before is not None
    assert now is not None
    assert (count, now.id != before.id, now.turns, await endings(db)) == (1, True, 1, ["ending"])
