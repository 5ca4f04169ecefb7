"""Cancelled at any await: nothing is stranded, and every append is there whole or not at all."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import apsw
import psycopg
import pytest

import clew
from clew.core.values import AppendTo, Enqueue, Put
from clew.stores.postgres.store import PostgresStore
from tests.stores.workload import make_changeset
from tests.support.child_process import run_in_child

pytestmark = [pytest.mark.race, pytest.mark.slow]

THREADS = ("a", "b", "c")
ROUNDS = 60
STEPS = 60
SETTLE_SECONDS = 30.0
"""How long something may take to end; most often it has ended at once."""


class NumberWriter:
    """Appends of numbers to one database, some of them cancelled."""

    def __init__(self, db: clew.Database) -> None:
        self.answers: set[int] = set()
        self.count = 0
        self._db = db

    async def append(self) -> None:
        """Append the next number."""
        self.count += 1
        number = self.count
        await self._db.thread(THREADS[number % 3]).append(make_changeset(number, items=1 + number % 3))
        self.answers.add(number)

    async def commit(self) -> None:
        """Append the next number together with a record and a job of its name."""
        self.count += 1
        number, name = self.count, f"number {self.count}"
        await self._db.commit(
            [
                AppendTo(thread=THREADS[number % 3], change=make_changeset(number, items=1, record=name)),
                Put(record=clew.Record(kind="fact", id=name, body=number), expect=0),
                Enqueue(job=clew.Job(id=name, kind="look")),
            ]
        )
        self.answers.add(number)

    async def branch(self) -> None:
        """Create a thread and fork it."""
        self.count += 1
        thread = await self._db.create(f"thread {self.count}")
        await thread.fork(f"fork {self.count}")

    async def read(self) -> None:
        """Read in several ways."""
        thread = self._db.thread("a")
        await thread.items(last=5)
        await thread.state()
        await self._db.threads(limit=3)

    async def search(self) -> None:
        """Search, which also brings the index up to date."""
        await self._db.search("kettle", limit=2)

    async def verify(self) -> None:
        """Compare with what is stored: every answered number once, every other once or not at all."""
        numbers: list[int] = []
        together: set[str] = set()
        for name in THREADS:
            thread = self._db.thread(name)
            assert (await thread.verify()).problems == ()
            for change in await thread.changesets(limit=100_000):
                assert change.run_meta is not None
                assert len(change.items) == change.run_meta["items"]
                numbers.append(int(str(change.run_meta["number"])))
                together |= {str(change.run_meta["record"])} if "record" in change.run_meta else set()
        jobs = {job.id for job in await self._db.jobs.list(limit=100_000)}

        assert len(numbers) == len(set(numbers))
        assert self.answers <= set(numbers) <= set(range(1, self.count + 1))
        assert together == jobs


async def wait_until_idle(look: Callable[[], Awaitable[list[str]]]) -> list[str]:
    """What is still going on when there was time enough for it to end."""
    end = time.monotonic() + SETTLE_SECONDS
    while (leftovers := await look()) and time.monotonic() < end:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(0.02)
    return leftovers


def can_write_at_once(path: str) -> bool:
    """Whether nobody reads or writes a file at this moment, as another process sees it."""
    connection = apsw.Connection(path)
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


async def under_way(url: str, db: clew.Database) -> list[str]:
    """The transactions that are open and the connections that are taken."""
    if url.startswith("sqlite"):
        free = await asyncio.to_thread(run_in_child, can_write_at_once, path_of(url))
        return [] if free else ["the file is locked"]
    assert isinstance(db.store, PostgresStore)
    stats = db.store._connections.pool.get_stats()
    missing = stats["pool_size"] - stats["pool_available"]
    leftovers = [f"{missing} connection(s) were not given back"] if missing else []
    return leftovers + [each for each in await connections(url) if not each.startswith("idle:")]


def path_of(url: str) -> str:
    """The file of a SQLite database."""
    return url.removeprefix("sqlite:///")


async def still_open(url: str, before: Collection[threading.Thread]) -> list[str]:
    """Connections, and threads and files of stores that were not there before.

    A closing that was cancelled goes on, but no longer than its event loop: so this is asked while that runs.
    """
    if url.startswith("postgres"):
        return await connections(url)
    new = [thread for thread in threading.enumerate() if thread not in before]
    leftovers = [thread.name for thread in new if thread.name.startswith("clew-")]
    if sys.platform == "linux":
        leftovers += [name for name in open_files() if name.startswith(path_of(url))]
    return leftovers


async def connections(url: str) -> list[str]:
    """What others do who are connected to a database."""
    query = (
        "SELECT coalesce(state, 'begun') || ': ' || query FROM pg_stat_activity "
        "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    async with await psycopg.AsyncConnection.connect(url) as connection:
        rows = await (await connection.execute(query)).fetchall()
    return [str(row[0]) for row in rows]


def open_files() -> list[str]:
    """The names of the files that this process has open."""
    return [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]


async def cancel_after(seconds: float, work: Awaitable[object], *, twice: bool = False) -> None:
    """Begin some work and cancel it."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(seconds)
    task.cancel()
    if twice:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class TestCancellation:
    @pytest.mark.promise("S-04", "S-02")
    async def test_appends_cancelled_at_any_time_are_whole_or_absent(self, shared_url: str) -> None:
        chance = random.Random(11)
        async with clew.open(shared_url) as db:
            for name in THREADS:
                await db.create(name)
            work = NumberWriter(db)
            for _ in range(ROUNDS):
                tasks = [asyncio.ensure_future(work.append()) for _ in range(8)]
                tasks += [asyncio.ensure_future(work.read()) for _ in range(16)]
                for task in chance.sample(tasks, 18):
                    await asyncio.sleep(chance.choice([0, 0, 0, 0.0003, 0.001]))
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

            assert await wait_until_idle(lambda: under_way(shared_url, db)) == []
            await work.verify()
            assert len(work.answers) < work.count, "nothing was cancelled"

    @pytest.mark.promise("S-04", "S-02")
    @pytest.mark.parametrize("what", ["append", "commit", "branch", "read", "search"])
    async def test_a_call_cancelled_at_its_nth_step_strands_nothing(self, shared_url: str, what: str) -> None:
        async with clew.open(shared_url) as db:
            for name in THREADS:
                await db.create(name)
            work = NumberWriter(db)
            await work.append()
            for steps in range(STEPS):
                task = asyncio.ensure_future(getattr(work, what)())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                if steps % 3 == 0:
                    await asyncio.sleep(0)
                    task.cancel()
                await asyncio.gather(task, return_exceptions=True)

            assert await wait_until_idle(lambda: under_way(shared_url, db)) == []
            await asyncio.wait_for(work.append(), SETTLE_SECONDS)
            await work.verify()

    @pytest.mark.promise("S-04")
    async def test_opening_that_is_cancelled_leaves_nothing_open(self, shared_url: str) -> None:
        async def open_and_close() -> None:
            async with clew.open(shared_url) as db:
                await db.threads()

        await open_and_close()
        before = threading.enumerate()
        for n in range(30):
            await cancel_after(n * 0.0007, open_and_close(), twice=n % 3 == 0)

        assert await wait_until_idle(lambda: still_open(shared_url, before)) == []

    @pytest.mark.promise("S-04")
    async def test_closing_that_is_cancelled_can_be_finished(self, shared_url: str) -> None:
        before = threading.enumerate()
        for n in range(6):
            db = await clew.open(shared_url)
            await db.create(f"thread {n}")
            await cancel_after(n * 0.0005, db.close())
            await asyncio.wait_for(db.close(), SETTLE_SECONDS)

        assert await wait_until_idle(lambda: still_open(shared_url, before)) == []
