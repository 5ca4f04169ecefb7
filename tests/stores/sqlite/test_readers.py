"""Where a reading of SQLite is done: on the loop, or in a thread when it takes longer; always one moment."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.log.rows import Ask, AskThread, AskThreads, StoreRead, ask
from clew.core.values import Scope
from clew.stores.sqlite import readers
from clew.stores.sqlite.loop_limits import DiskReads
from clew.stores.sqlite.store import SqliteStore

SCOPE = Scope()
QUICK, MANY = AskThread("trip"), AskThreads(None, None, 10)
LOOP, THREAD = "MainThread", "clew-reader"
MOMENT = 0.2


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments so long that a busy machine does not end them."""
    monkeypatch.setattr(readers, "LOOP_SECONDS", MOMENT)
    monkeypatch.setattr(readers, "SLOW_SECONDS", 0.3)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A store with one thread, whose last reader has its connection open."""
    sqlite_store = await SqliteStore.open(str(tmp_path / "agent.db"))
    async with clew.Database(sqlite_store, owns_store=True) as db:
        await db.create("trip")
        await sqlite_store.read(SCOPE, ask(MANY))
        yield sqlite_store


def goes(*questions: Ask[Any], seconds: float = 0.0) -> StoreRead[list[str]]:
    """Where each answer was given, of a reading that is busy for a while after each."""
    where = []
    for question in questions:
        yield question
        where.append(threading.current_thread().name.rsplit("-", 1)[0])
        time.sleep(seconds)
    return where


def version() -> StoreRead[int]:
    row = yield from ask(QUICK)
    assert row is not None
    return row.version


async def test_a_quick_reading_is_done_where_it_was_called(store: SqliteStore) -> None:
    where = await store.read(SCOPE, goes(QUICK, QUICK))

    assert where == [LOOP, LOOP]


async def test_a_search_through_many_rows_is_left_to_a_thread(store: SqliteStore) -> None:
    where = await store.read(SCOPE, goes(QUICK, MANY, QUICK))

    assert where == [LOOP, THREAD, THREAD]


async def test_a_reading_whose_moment_is_over_goes_on_in_a_thread(store: SqliteStore) -> None:
    where = await store.read(SCOPE, goes(QUICK, QUICK, QUICK, seconds=1.2 * MOMENT))

    assert where == [LOOP, THREAD, THREAD]


async def test_after_one_that_waited_for_the_disk_readings_are_left_to_threads_for_a_while(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "AVOID_LOOP_SECONDS", 0.2)
    monkeypatch.setattr(DiskReads, "have_risen", lambda _: True)
    await store.read(SCOPE, goes(QUICK, seconds=1.2 * readers.SLOW_SECONDS))
    wary = await store.read(SCOPE, goes(QUICK))
    await asyncio.sleep(0.3)
    calm = await store.read(SCOPE, goes(QUICK))

    assert (wary, calm) == ([THREAD], [LOOP])


async def test_a_long_one_that_asked_nothing_of_the_disk_keeps_no_reading_from_the_loop(
    store: SqliteStore,
) -> None:
    for _ in range(3):
        await store.read(SCOPE, goes(QUICK, seconds=1.2 * readers.SLOW_SECONDS))
    where = await store.read(SCOPE, goes(QUICK))

    assert where == [LOOP]


def test_what_a_thread_reads_from_the_disk_is_counted(tmp_path: Path) -> None:
    """A file that is not in the system's memory any more has to be read."""
    path = tmp_path / "cold"
    path.write_bytes(os.urandom(1 << 20))
    reads = DiskReads()
    reads.have_risen()
    idle = reads.have_risen()
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.read()

    assert (idle, reads.have_risen()) == (False, True)


async def test_a_reading_that_moves_to_a_thread_still_sees_one_moment(store: SqliteStore) -> None:
    def twice() -> StoreRead[tuple[int, int]]:
        before = yield from version()
        beside(store.path)
        time.sleep(1.2 * MOMENT)
        yield from ask(MANY)
        return before, (yield from version())

    before, after = await store.read(SCOPE, twice())
    now = await store.read(SCOPE, version())

    assert (before, after, now) == (0, 0, 1)


def beside(path: str) -> None:
    """Commit a changeset while the loop stands still."""

    async def append() -> None:
        async with clew.open(f"sqlite:///{path}") as db:
            await db.thread("trip").append(items=[clew.user("Meanwhile")])

    other = threading.Thread(target=lambda: asyncio.run(append()))
    other.start()
    other.join()


async def test_a_loop_that_only_reads_lets_others_run(store: SqliteStore) -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    readings = 0
    while not event.is_set() and readings < 100:
        await store.read(SCOPE, version())
        readings += 1

    assert readings == 1


async def test_an_error_on_the_loop_ends_the_transaction(store: SqliteStore) -> None:
    def fails() -> StoreRead[None]:
        yield from ask(QUICK)
        raise LookupError("nobody")

    with pytest.raises(LookupError):
        await store.read(SCOPE, fails())

    assert await store.read(SCOPE, version()) == 0
