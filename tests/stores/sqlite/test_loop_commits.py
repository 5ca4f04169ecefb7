"""Where a commit of SQLite is made: on the loop while nothing can keep it waiting, or in the thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.core.errors import VersionConflict
from clew.core.values import Exact, Scope
from clew.stores.sqlite import open_file, store, writer
from clew.stores.sqlite.loop_limits import FEWEST_QUICK, MOST_QUICK, SLOW_SECONDS, CommitPace
from clew.stores.sqlite.store import SqliteStore
from clew.stores.sqlite.writer import CommitWay

LOOP, THREAD = "MainThread", "clew-writer"
SETTLE_SECONDS = 30.0


class WatchedStore(SqliteStore):
    """A store that notes in which thread each of its transactions was committed."""

    def __init__(self, path: str, commits: CommitWay) -> None:
        super().__init__(path, commits=commits)
        self.where: list[str] = []
        self.before_commit: Callable[[], object] = lambda: None

    def _connect_and_prepare(self) -> apsw.Connection:
        connection = super()._connect_and_prepare()
        connection.exec_trace = self._trace
        return connection

    def _trace(self, cursor: Any, statement: str, bindings: Any) -> bool:
        if statement == "COMMIT":
            self.where.append(threading.current_thread().name)
            self.before_commit()
        return True


@asynccontextmanager
async def watched_database(
    path: Path, commits: CommitWay
) -> AsyncIterator[tuple[clew.Database, WatchedStore]]:
    """A database with the thread "trip", whose store says where it commits."""
    watched = WatchedStore(str(path), commits)
    await watched.start()
    async with clew.Database(watched, owns_store=True) as db:
        await db.create("trip")
        watched.where.clear()
        yield db, watched


@pytest.fixture
async def on_loop(tmp_path: Path) -> AsyncIterator[tuple[clew.Database, WatchedStore]]:
    """A database that commits on the loop wherever that is possible at all."""
    async with watched_database(tmp_path / "agent.db", "loop") as both:
        yield both


async def append(db: clew.Database, text: str = "Hi", thread: str = "trip") -> None:
    """Append one message."""
    await db.thread(thread).append(items=[clew.user(text)])


class TestOnTheLoop:
    store_name = "sqlite"

    async def test_a_commit_alone_is_made_where_it_was_asked_for(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, watched = on_loop
        await append(db)

        assert watched.where == [LOOP]

    @pytest.mark.promise("S-04")
    async def test_commits_that_are_ready_in_one_pass_share_a_transaction(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, watched = on_loop
        await asyncio.gather(*(append(db, str(number)) for number in range(20)))
        head = await db.thread("trip").head()

        assert (watched.where, head.version) == ([LOOP], 20)

    async def test_one_that_is_refused_spoils_no_other_of_its_group(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, watched = on_loop
        trip = db.thread("trip")
        stale = trip.append(items=[clew.user("stale")], expect=Exact(7))
        results = await asyncio.gather(append(db, "a"), stale, append(db, "b"), return_exceptions=True)
        head = await trip.head()

        assert [type(result) for result in results] == [type(None), VersionConflict, type(None)]
        assert (head.version, set(watched.where)) == (2, {LOOP})

    @pytest.mark.promise("S-04")
    async def test_one_that_is_cancelled_before_its_group_begins_is_not_made(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, _ = on_loop
        tasks = [asyncio.ensure_future(append(db, str(number))) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        items = await db.thread("trip").items()

        assert [item.body["content"] for item in items] == ["0", "2"]

    async def test_a_task_that_only_appends_leaves_others_their_turn(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, watched = on_loop

        async def append_forever() -> None:
            while True:
                await append(db)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(append_forever(), 0.05)

        assert set(watched.where) == {LOOP}

    async def test_commits_that_wait_for_their_group_are_made_before_the_store_closes(
        self, tmp_path: Path
    ) -> None:
        async with watched_database(tmp_path / "agent.db", "loop") as (db, _):
            tasks = [asyncio.ensure_future(append(db, str(number))) for number in range(5)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        async with clew.open(f"sqlite:///{tmp_path / 'agent.db'}") as again:
            head = await again.thread("trip").head()

        assert head.version == 5


class TestInTheThread:
    store_name = "sqlite"

    async def test_a_loop_that_does_not_show_what_is_ready_is_left_alone(
        self, on_loop: tuple[clew.Database, WatchedStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        db, watched = on_loop
        monkeypatch.setattr(writer, "ready_handles", lambda _: None)
        await append(db)

        assert watched.where == [THREAD]

    async def test_a_large_commit_is_left_to_the_thread(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, watched = on_loop
        await append(db, "x" * 100_000)
        await append(db)

        assert watched.where == [THREAD, LOOP]

    async def test_what_goes_through_many_rows_is_left_to_the_thread(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, watched = on_loop
        await append(db)
        await db.thread("trip").delete()

        assert watched.where == [LOOP, THREAD]

    async def test_a_lock_of_another_connection_does_not_hold_the_loop(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, watched = on_loop
        other = apsw.Connection(watched.path)
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.ensure_future(append(db))
        start = time.monotonic()
        await asyncio.sleep(0.05)
        held_seconds = time.monotonic() - start
        waits = not task.done()
        other.execute("ROLLBACK")
        other.close()
        await asyncio.wait_for(task, SETTLE_SECONDS)

        assert waits
        assert held_seconds < 5
        assert watched.where == [THREAD]

    async def test_beside_another_store_the_thread_takes_turns_and_alone_again_the_loop_commits(
        self, on_loop: tuple[clew.Database, WatchedStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_file, "COUNT_SECONDS", 0.0)
        db, watched = on_loop
        async with clew.open(f"sqlite:///{watched.path}") as other:
            await append(other)
            await append(db)
            beside = watched.where.copy()
        watched.where.clear()
        for _ in range(3):
            await append(db)

        assert beside == [THREAD]
        assert watched.where[-1] == LOOP

    async def test_a_slow_disk_sends_commits_to_the_thread_and_a_quick_one_back(self, tmp_path: Path) -> None:
        async with watched_database(tmp_path / "agent.db", "auto") as (db, watched):
            pace = watched._writer._pace
            pace.is_quick = True
            watched.before_commit = lambda: time.sleep(2 * SLOW_SECONDS)
            await append(db)
            await append(db)
            slow = watched.where.copy()
            watched.before_commit = lambda: None
            for _ in range(MOST_QUICK):
                pace.note(0.0, 1, on_loop=False)
            watched.where.clear()
            await append(db)

        assert (slow, watched.where) == ([LOOP, THREAD], [LOOP])

    async def test_a_planner_that_fails_fails_alone(
        self, on_loop: tuple[clew.Database, WatchedStore]
    ) -> None:
        db, watched = on_loop

        def fail(context: object) -> Any:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await watched.change(Scope(), fail)
        await append(db)

        assert (await db.thread("trip").head()).version == 1

    async def test_a_store_uses_the_way_that_it_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "COMMITS", "loop")
        async with watched_database(tmp_path / "agent.db", "thread") as (db, watched):
            await append(db)

        assert watched.where == [THREAD]


class TestCommitPace:
    def test_nothing_is_known_of_a_disk_before_some_commits_were_quick(self) -> None:
        pace = CommitPace()
        states = []
        for _ in range(FEWEST_QUICK):
            states.append(pace.is_quick)
            pace.note(0.0001, 1, on_loop=False)

        assert (set(states), pace.is_quick) == ({False}, True)

    def test_a_commit_of_many_may_take_longer(self) -> None:
        pace = CommitPace()
        pace.is_quick = True
        pace.note(1.5 * SLOW_SECONDS, 64, on_loop=True)
        many = pace.is_quick
        pace.note(1.5 * SLOW_SECONDS, 1, on_loop=True)

        assert (many, pace.is_quick) == (True, False)

    def test_each_slow_one_on_the_loop_asks_for_more_quick_ones(self) -> None:
        pace = CommitPace()
        needed = []
        for _ in range(3):
            pace.is_quick = True
            pace.note(1.0, 1, on_loop=True)
            count = 0
            while not pace.is_quick:
                pace.note(0.0, 1, on_loop=False)
                count += 1
            needed.append(count)

        assert needed == [2 * FEWEST_QUICK, 4 * FEWEST_QUICK, 8 * FEWEST_QUICK]
