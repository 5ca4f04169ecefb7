"""Connections to PostgreSQL: broken ones are replaced, given ones given back, and none is left behind."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool
from psycopg_pool.base import AttemptWithBackoff

import clew
from clew.core.errors import OutcomeUnknown, StoreClosed, StoreUnavailable, ThreadNotFound, TooLarge
from clew.core.values import AppendTo, Changeset, Put, Record, RecordQuery
from clew.stores.postgres import pool as pools
from clew.stores.postgres.pool import Pool, parse_url
from clew.stores.postgres.store import PostgresStore
from tests.support.postgres import PostgresServer
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.postgres

OTHERS = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
END_ALL = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OTHERS}"
BUSY_CONNECTIONS = f"SELECT pid, state, query FROM pg_stat_activity WHERE {OTHERS} AND state <> 'idle'"
ADVISORY_LOCKS = """
SELECT locktype, mode FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE locktype = 'advisory' AND datname = current_database()
"""


@pytest.fixture
async def store(postgres_database: PostgresDatabase) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(f"{postgres_database.url}?pool_max=4")
    yield store
    await store.close()


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Pool:
    """A pool of connections to a server that is not there, which tries a hundred times as fast."""
    monkeypatch.setattr(pools, "AGAIN_SECONDS", 0.03)
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", 0.01)
    return Pool(parse_url("postgresql://nobody@127.0.0.1:1/nothing"))


def ask(database: PostgresDatabase, query: str) -> list[Any]:
    """The rows that the superuser gets."""
    with psycopg.connect(database.url, autocommit=True) as admin:
        return admin.execute(query.encode()).fetchall()


class TestBrokenConnections:
    store_name = "postgres"

    async def test_a_reader_does_not_notice(
        self, postgres_database: PostgresDatabase, store: PostgresStore
    ) -> None:
        db = clew.Database(store)
        thread = await db.create("thread")
        await asyncio.gather(*(thread.head() for _ in range(8)))
        ask(postgres_database, END_ALL)
        heads = await asyncio.gather(*(thread.head() for _ in range(8)))

        assert [head.version for head in heads] == [0] * 8

    @pytest.mark.promise("B-02")
    async def test_a_writer_is_told_and_repeats_under_its_key(
        self, postgres_database: PostgresDatabase, store: PostgresStore
    ) -> None:
        thread = await clew.Database(store).create("thread")
        ask(postgres_database, END_ALL)
        with pytest.raises(OutcomeUnknown):
            await thread.append(items=[clew.user("Hi")], key="once")
        commit = await thread.append(items=[clew.user("Hi")], key="once")

        assert commit.version == 1
        assert len(await thread.items()) == 1

    async def test_one_fault_is_met_once(
        self, postgres_database: PostgresDatabase, store: PostgresStore
    ) -> None:
        db = clew.Database(store)
        threads = [await db.create(f"thread-{n}") for n in range(8)]
        await asyncio.gather(*(thread.head() for thread in threads))
        ask(postgres_database, END_ALL)
        with pytest.raises(OutcomeUnknown):
            await threads[0].append(items=[clew.user("Hi")])
        commits = [await thread.append(items=[clew.user("Hi")]) for thread in threads[1:]]

        assert [one.version for one in commits] == [1] * 7

    @pytest.mark.crash
    @pytest.mark.slow
    async def test_a_server_that_comes_back_is_found_again(self, private_postgres: PostgresServer) -> None:
        await asyncio.to_thread(private_postgres.start)
        async with clew.open(f"{private_postgres.url()}?pool_timeout=0.2") as db:
            thread = await db.create("thread")
            await thread.append(items=[clew.user("before")])
            await asyncio.to_thread(private_postgres.kill)
            with pytest.raises((StoreUnavailable, OutcomeUnknown)):
                await thread.head()
            await asyncio.to_thread(private_postgres.start)
            version = await _eventually(thread)

        assert version == 2

    async def test_a_server_that_is_away_is_asked_for_again_and_again(self, nobody: Pool) -> None:
        await nobody.open()
        async with asyncio.timeout(10):
            while nobody.get_stats().get("connections_errors", 0) < 20:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        await nobody.close()

        assert nobody.is_away

    async def test_a_server_that_does_not_answer_is_given_up(
        self, postgres_database: PostgresDatabase
    ) -> None:
        async with clew.open(f"{postgres_database.url}?answer_timeout=0.2") as db:
            thread = await db.create("thread")
            async with await psycopg.AsyncConnection.connect(postgres_database.url) as admin:
                await admin.execute("LOCK TABLE clew.threads")
                with pytest.raises(OutcomeUnknown):
                    await thread.append(items=[clew.user("Hi")], key="once", expect=clew.Exact(0))
            commit = await thread.append(items=[clew.user("Hi")], key="once")

        assert commit.version == 1

    async def test_a_server_may_take_long_where_no_limit_was_set(
        self, postgres_database: PostgresDatabase, store: PostgresStore
    ) -> None:
        thread = await clew.Database(store).create("thread")
        async with await psycopg.AsyncConnection.connect(postgres_database.url) as admin:
            await admin.execute("LOCK TABLE clew.threads")
            append = asyncio.create_task(thread.append(items=[clew.user("Hi")]))
            await asyncio.wait([append], timeout=0.5)
            is_waiting = not append.done()
        commit = await append

        assert is_waiting
        assert commit.version == 1

    async def test_an_outage_is_one_line(self, nobody: Pool, caplog: pytest.LogCaptureFixture) -> None:
        await nobody.open()
        async with asyncio.timeout(10):
            while nobody.get_stats().get("connections_errors", 0) < 20:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        await nobody.close()
        [line] = [record.getMessage() for record in caplog.records]

        assert line.startswith("PostgreSQL cannot be reached (connection failed: ")
        assert "check that the server runs" in line

    async def test_the_end_of_an_outage_is_one_line(
        self, postgres_database: PostgresDatabase, caplog: pytest.LogCaptureFixture
    ) -> None:
        pool = Pool(parse_url(f"{postgres_database.url}?pool_min=4"))
        pool.is_away = True
        await pool.open(wait=True)
        await pool.close()
        [line] = [record.getMessage() for record in caplog.records]

        assert line.startswith("PostgreSQL can be reached again")
        assert not pool.is_away

    async def test_broken_connections_are_no_lines(
        self, postgres_database: PostgresDatabase, store: PostgresStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        thread = await clew.Database(store).create("thread")
        await asyncio.gather(*(thread.head() for _ in range(8)))
        ask(postgres_database, END_ALL)
        await asyncio.gather(*(thread.head() for _ in range(8)))

        assert not caplog.records

    async def test_the_driver_still_speaks_of_the_pools_of_others(
        self, nobody: Pool, caplog: pytest.LogCaptureFixture
    ) -> None:
        await nobody.open()
        logging.getLogger("psycopg.pool").warning("error connecting in %r: %s", "theirs", "refused")
        await nobody.close()

        assert "error connecting in 'theirs': refused" in caplog.messages

    async def test_nobody_waits_long_for_a_server_that_is_away(
        self, nobody: Pool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pools, "AWAY_SECONDS", 0.2)
        await nobody.open()
        store = PostgresStore(nobody)
        async with asyncio.timeout(10):
            with pytest.raises(StoreUnavailable):
                await clew.Database(store).thread("thread").head()
        await nobody.close()

        assert nobody.timeout == 30

    async def test_a_closed_store_says_so(self, postgres_database: PostgresDatabase) -> None:
        store = await PostgresStore.open(postgres_database.url)
        await store.close()
        with pytest.raises(StoreClosed):
            await clew.Database(store).create("thread")

    async def test_calls_under_way_end_before_the_store_is_closed(
        self, postgres_database: PostgresDatabase
    ) -> None:
        store = await PostgresStore.open(postgres_database.url)
        db = clew.Database(store)
        threads = [await db.create(f"thread-{n}") for n in range(20)]
        appends = [asyncio.create_task(thread.append(items=[clew.user("Hi")])) for thread in threads]
        await asyncio.sleep(0)
        await store.close()
        commits = await asyncio.gather(*appends)

        assert [one.version for one in commits] == [1] * 20


async def _eventually(thread: clew.Thread) -> int:
    while True:
        try:
            return (await thread.append(items=[clew.user("after")], key="after")).version
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(0.05)


class TestOpening:
    store_name = "postgres"

    @pytest.mark.promise("S-05")
    async def test_limits_reach_the_store_that_is_opened(self, postgres_database: PostgresDatabase) -> None:
        async with clew.open(postgres_database.url, limits=clew.Limits(body=100)) as db:
            thread = await db.create("thread")

            with pytest.raises(TooLarge):
                await thread.append(items=[clew.user("x" * 100)])


class TestGivenPool:
    store_name = "postgres"

    @pytest.mark.promise("S-08")
    @pytest.mark.parametrize("autocommit", [False, True])
    async def test_a_given_pool_stays_open_and_its_connections_as_they_were(
        self, postgres_database: PostgresDatabase, *, autocommit: bool
    ) -> None:
        options = {"autocommit": autocommit}
        async with AsyncConnectionPool(
            postgres_database.url, kwargs=options, min_size=1, max_size=2, open=False
        ) as pool:
            store = PostgresStore(pool)
            db = clew.Database(store)
            thread = await db.create("thread")
            await thread.append(items=[clew.user("Hi")])
            await db.commit([Put(record=Record(kind="k", id=f"{n}", body=n)) for n in range(3)])
            await store.close()
            async with pool.connection() as connection:
                row = await (await connection.execute("SELECT 1")).fetchone()

                assert connection.autocommit is autocommit
        assert row == (1,)

    @pytest.mark.promise("S-08")
    async def test_a_pool_that_was_opened_is_closed(self, postgres_database: PostgresDatabase) -> None:
        store = await PostgresStore.open(postgres_database.url)
        await store.close()

        assert store._connections.pool.closed


class TestCancellation:
    store_name = "postgres"

    @pytest.mark.promise("S-04", "T-02")
    @pytest.mark.race
    async def test_cancelled_at_random_nothing_is_stranded(
        self, postgres_database: PostgresDatabase, store: PostgresStore
    ) -> None:
        db, chance = clew.Database(store), random.Random(7)
        threads = [await db.create(f"thread-{n}") for n in range(6)]
        for _ in range(40):
            calls = [asyncio.create_task(_anything(db, threads, chance)) for _ in range(12)]
            for call in calls:
                await asyncio.sleep(chance.choice([0, 0, 0.0002, 0.001, 0.003]))
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        commits = await asyncio.wait_for(
            asyncio.gather(*(thread.append(items=[clew.user("last")]) for thread in threads)), 10
        )
        stats = store._connections.pool.get_stats()
        verdicts = [await thread.verify() for thread in threads]

        assert ask(postgres_database, BUSY_CONNECTIONS) == []
        assert ask(postgres_database, ADVISORY_LOCKS) == []
        assert stats["pool_available"] == stats["pool_size"] <= 4
        assert stats["requests_waiting"] == 0
        assert [verdict.problems for verdict in verdicts] == [()] * 6
        assert [verdict.version for verdict in verdicts] == [one.version for one in commits]
        assert store._locks._queues == {}
        assert store._batches._running_count == 0


def _anything(
    db: clew.Database, threads: list[clew.Thread], chance: random.Random
) -> Coroutine[Any, Any, object]:
    """Some call, drawn."""
    thread = chance.choice(threads)
    record = Record(kind="k", id=chance.choice("ab"), body={})
    calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: thread.append(items=[clew.user("Hi")], patches=[clew.increment(["n"])]),
        lambda: thread.append(items=[clew.user("Hi")]),
        lambda: db.commit([Put(record=record), AppendTo(thread=thread.id, change=Changeset())]),
        lambda: thread.items(last=5),
        thread.head,
        lambda: db.records.find(RecordQuery(kind="k")),
    ]
    return chance.choice(calls)()


async def _first(thread: clew.Thread) -> Changeset:
    async for change in thread.watch(after=0):
        return change
    raise AssertionError("the watch ended")


class TestOneThread:
    store_name = "postgres"

    @pytest.mark.promise("T-02")
    async def test_many_tasks_on_one_thread_take_turns(self, store: PostgresStore) -> None:
        db = clew.Database(store)
        thread = await db.create("thread")
        plans = 0
        plan = store._make_plan

        async def count_plans(*args: Any, **kwargs: Any) -> Any:
            nonlocal plans
            plans += 1
            return await plan(*args, **kwargs)

        store._make_plan = count_plans  # type: ignore[method-assign]  # counted on its way
        commits = await asyncio.gather(*(thread.append(items=[clew.user(n)]) for n in range(60)))

        assert sorted(one.version for one in commits) == list(range(1, 61))
        assert plans <= 2 * 60

    async def test_another_process_is_seen_within_a_moment(self, postgres_database: PostgresDatabase) -> None:
        async with clew.open(postgres_database.url) as one, clew.open(postgres_database.url) as other:
            thread = await one.create("thread")
            watching = asyncio.create_task(_first(thread))
            await asyncio.sleep(0.05)
            await other.thread("thread").append(items=[clew.user("Hi")])
            change = await asyncio.wait_for(watching, 2)

        assert change.version == 1

    async def test_a_thread_deleted_while_it_is_read_is_not_found(self, store: PostgresStore) -> None:
        db = clew.Database(store)
        thread = await db.create("thread")
        await thread.append(items=[clew.user("Hi")], patches=[clew.set(["a"], 1)])
        fetch = store._connections.fetch

        async def meanwhile(name: str, values: Any = ()) -> Any:
            if name == "anchor":
                store._connections.fetch = fetch  # type: ignore[method-assign]  # once only
                await thread.delete()
            return await fetch(name, values)

        store._connections.fetch = meanwhile  # type: ignore[method-assign]  # the deletion comes between
        with pytest.raises(ThreadNotFound):
            await thread.head()


class TestPreparedStatements:
    store_name = "postgres"

    async def test_a_statement_that_was_dropped_is_prepared_again(
        self, postgres_database: PostgresDatabase
    ) -> None:
        async with clew.open(f"{postgres_database.url}?pool_max=1") as db:
            thread = await db.create("thread")
            await thread.append(items=[clew.user("before")])
            assert isinstance(db.store, PostgresStore)
            async with db.store._connections.pool.connection() as connection:
                await connection.execute("DEALLOCATE ALL")
            commit = await thread.append(items=[clew.user("after")])

        assert commit.version == 2

    async def test_two_stores_share_a_pool(self, postgres_database: PostgresDatabase) -> None:
        async with AsyncConnectionPool(postgres_database.url, min_size=1, max_size=1, open=False) as pool:
            first, second = clew.Database(PostgresStore(pool)), clew.Database(PostgresStore(pool))
            await first.create("thread")
            commits = [
                await db.thread("thread").append(items=[clew.user("Hi")]) for db in (first, second, first)
            ]

        assert [one.version for one in commits] == [1, 2, 3]


class TestSwallowedCancellation:
    store_name = "postgres"

    @pytest.mark.promise("S-04")
    async def test_a_cancellation_that_the_pool_swallows_is_not_lost(
        self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        thread = await clew.Database(store).create("thread")
        pool = store._connections.pool
        getconn, waiting = pool.getconn, asyncio.Event()

        async def swallowing() -> Any:
            waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return await getconn()

        monkeypatch.setattr(pool, "getconn", swallowing)
        reading = asyncio.create_task(thread.head())
        await waiting.wait()
        reading.cancel()
        await asyncio.wait([reading])
        monkeypatch.undo()

        assert reading.cancelled()
        assert (await thread.head()).version == 0
