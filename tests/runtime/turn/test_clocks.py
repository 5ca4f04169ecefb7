"""A machine whose clock is wrong: the database's decides, and where there is none, the harm is bounded."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from psycopg_pool import AsyncConnectionPool

import clew
from clew.core.errors import TurnBusy
from clew.core.log.leases import LONGEST_LEASE_MS
from clew.core.values import Job
from clew.database.database import Database
from clew.runtime.execution import start as execution_start
from clew.runtime.execution.start import start_turn, turn_request
from clew.runtime.records import runs
from clew.runtime.records.runs import ProcessIdentity, Run, is_orphaned
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from clew.server.identity import api_keys
from clew.server.identity.directory import Directory
from clew.stores.postgres.clock import ServerClock
from clew.stores.postgres.store import PostgresStore
from tests.runtime.execution.busy_turns import reply
from tests.support.shared_postgres import PostgresDatabase

DAY_MS = 24 * 3_600_000
ELSEWHERE = ProcessIdentity(machine="another machine", pid=1, started="1")


@contextmanager
def clock_ahead() -> Iterator[None]:
    """Let this machine's clock be a day ahead."""
    with pytest.MonkeyPatch.context() as patch:
        real = time.time_ns
        patch.setattr(time, "time_ns", lambda: real() + DAY_MS * 1_000_000)
        yield


async def in_tomorrow(url: str, work: Callable[[Database], Awaitable[object]]) -> None:
    """Do some work on a machine whose clock is a day ahead."""
    with clock_ahead():
        async with clew.open(url) as db:
            await work(db)


@pytest.mark.promise("F-13")
async def test_a_job_claimed_by_a_machine_ahead_is_free_when_its_lease_is_over(shared_url: str) -> None:
    async def claim(db: Database) -> None:
        await db.jobs.enqueue(Job(id="j", kind="work"))
        await db.jobs.claim(["work"], lease_ms=0)

    await in_tomorrow(shared_url, claim)
    async with clew.open(shared_url) as db:
        jobs = await db.jobs.claim(["work"])

    assert [job.id for job in jobs] == ["j"]


@pytest.mark.promise("T-17")
async def test_a_turn_of_a_machine_ahead_that_died_does_not_hold_its_thread(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_start, "this_process", lambda: ELSEWHERE)

    async def begin(db: Database) -> None:
        runtime = Runtime(db, stages=[reply], config=RuntimeConfig(leases=LeaseConfig(seconds=0.001)))
        await start_turn(db, turn_request(runtime.schema, "a", "Hi"), runtime._settings)

    await in_tomorrow(shared_url, begin)
    async with clew.open(shared_url) as db:
        result = await Runtime(db, stages=[reply]).run_turn("a", "Still there?", busy="refuse")

    assert result.termination == "natural"


@pytest.mark.promise("T-17")
@pytest.mark.postgres
async def test_a_turn_at_work_on_a_machine_ahead_keeps_its_thread(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_database.url
    monkeypatch.setattr(execution_start, "this_process", lambda: ELSEWHERE)

    async def begin(db: Database) -> None:
        runtime = Runtime(db, stages=[reply], config=RuntimeConfig(leases=LeaseConfig(seconds=60)))
        await start_turn(db, turn_request(runtime.schema, "a", "Hi"), runtime._settings)

    await in_tomorrow(url, begin)
    async with clew.open(url) as db:
        with pytest.raises(TurnBusy) as error:
            await Runtime(db, stages=[reply]).run_turn("a", "Already?", busy="refuse")

    assert 0 < error.value.retry_after_ms <= 60_000


@pytest.mark.promise("T-17")
def test_a_turn_of_this_machine_is_at_work_however_far_its_clock_was_set_back() -> None:
    run = Run(id="r", thread="a", started=0, until=DAY_MS, holder=runs.this_process())

    assert [is_orphaned(run, now) for now in (0, DAY_MS - 1, DAY_MS)] == [False, False, True]


@pytest.mark.promise("T-17")
def test_a_lease_of_another_machine_that_is_longer_than_any_is_not_believed() -> None:
    run = Run(id="r", thread="a", started=0, until=DAY_MS, holder=ELSEWHERE)

    nows = (0, DAY_MS - LONGEST_LEASE_MS - 1, DAY_MS - LONGEST_LEASE_MS, DAY_MS)
    assert [is_orphaned(run, now) for now in nows] == [True, True, False, True]


@pytest.mark.postgres
async def test_an_api_key_lasts_by_the_clock_of_the_database(postgres_database: PostgresDatabase) -> None:
    url = postgres_database.url
    async with clew.open(url) as db:
        now = Directory(db).now()
        with clock_ahead():
            ahead = Directory(db).now()

    assert api_keys.HOUR_MS > ahead - now >= 0


@pytest.mark.postgres
async def test_a_store_on_a_given_pool_goes_by_the_server_from_its_first_read(
    postgres_database: PostgresDatabase,
) -> None:
    async with AsyncConnectionPool(postgres_database.url, min_size=1, open=False) as pool:
        store = PostgresStore(pool)
        with clock_ahead():
            await Database(store).threads()
            ahead = store.now() - time.time_ns() // 1_000_000
        await store.close()

    assert ahead < -DAY_MS / 2


async def test_the_server_is_asked_for_the_time_once_and_counted_on_from_there() -> None:
    times: list[int] = []

    async def server_time() -> int:
        times.append(1_000_000)
        return 1_000_000

    clock = ServerClock(server_time)
    for _ in range(3):
        await clock.refresh()

    assert len(times) == 1
    assert 1_000_000 <= clock() < 1_060_000
