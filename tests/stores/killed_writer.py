"""A writer that is killed at a named point or at any moment, and then repeats what was not answered."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

import apsw
import msgspec

import clew
from clew.core.values import Committed
from clew.stores.sqlite import writer
from clew.stores.sqlite.store import SqliteStore
from clew.stores.sqlite.transactions import Transactions
from clew.stores.sqlite.writer import CommitWay
from clew.stores.watch import ChangeWaiters
from tests.stores.workload import make_changeset

Answer = tuple[int, str, int, str]
"""The number of an append, its thread, its version and its hash."""

THREADS: Final = ("a", "b", "c")
TOGETHER: Final = 5
CHECKPOINT_PAGES: Final = 30
LINGER_SECONDS: Final = 0.02
"""How long a process stays at the point before it dies, so that answers given too early get out."""

POINTS: Final = (
    "before the transaction",
    "in an empty transaction",
    "amid the writes",
    "before the commit",
    "in the commit",
    "after the commit",
    "before the caller wakes",
    "before a checkpoint",
)


class Trap:
    """Kills this process when it comes past a point for the nth time."""

    def __init__(self, point: str | None, nth: int) -> None:
        self._point = point
        self._countdown = nth

    def pass_point(self, point: str) -> None:
        """Note that the process is at a point, and end there if it is time."""
        if point == self._point:
            self._countdown -= 1
            if self._countdown == 0:
                time.sleep(LINGER_SECONDS)
                os.kill(os.getpid(), signal.SIGKILL)


class WatchedStore(SqliteStore):
    """A store whose writing connection reports what it is about to do."""

    def __init__(self, path: str, trap: Trap, way: CommitWay) -> None:
        super().__init__(path, commits=way)
        self._trap = trap
        self._at_begin = False
        self._inserts = 0

    def _connect_and_prepare(self) -> apsw.Connection:
        connection = super()._connect_and_prepare()
        connection.exec_trace = self._trace
        connection.set_commit_hook(self._committing)
        return connection

    def _trace(self, cursor: Any, statement: str, bindings: Any) -> bool:
        words = statement.split(None, 2)
        if self._at_begin:
            self._trap.pass_point("in an empty transaction")
        self._at_begin = words[0] == "BEGIN"
        if self._at_begin:
            self._inserts = 0
            self._trap.pass_point("before the transaction")
        elif words[0] == "INSERT":
            self._inserts += 1
            if self._inserts == 2:
                self._trap.pass_point("amid the writes")
        elif words[0] == "COMMIT":
            self._trap.pass_point("before the commit")
        return True

    def _committing(self) -> bool:
        self._trap.pass_point("in the commit")
        return False


def _watch(trap: Trap) -> None:
    """Have the writer report what it does between transactions."""

    def reporting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            trap.pass_point(name)
            return original(*args)

        return call

    def reporting_after(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            result = original(*args)
            trap.pass_point(name)
            return result

        return call

    cls = Transactions
    cls.commit = reporting_after("after the commit", cls.commit)  # type: ignore[method-assign] # only in this process
    cls.try_commit = reporting_after("after the commit", cls.try_commit)  # type: ignore[method-assign] # as above
    cls.checkpoint = reporting("before a checkpoint", cls.checkpoint)  # type: ignore[method-assign] # as above
    ChangeWaiters.wake = reporting("before the caller wakes", ChangeWaiters.wake)  # type: ignore[method-assign] # as above
    writer.CHECKPOINT_PAGES = CHECKPOINT_PAGES


def write_all(
    path: str, numbers: Sequence[int], point: str | None, nth: int, way: CommitWay, answers: Connection
) -> None:
    """Append each number, some one by one and some at once, and tell every answer; unless killed before."""
    trap = Trap(point, nth)
    _watch(trap)
    asyncio.run(_write_all(WatchedStore(path, trap, way), numbers, answers))


async def _write_all(store: SqliteStore, numbers: Sequence[int], answers: Connection) -> None:
    await store.start()
    db = clew.Database(store)
    for name in THREADS:
        await db.create(name, exist_ok=True)
    rest = list(numbers)
    while rest:
        # As many at once as the number says, so that they are the same after a restart.
        some = rest[:TOGETHER] if rest[0] % 2 else rest[:1]
        del rest[: len(some)]
        await asyncio.gather(*(_append(db, number, answers) for number in some))
    await store.close()


async def _append(db: clew.Database, number: int, answers: Connection) -> None:
    change = msgspec.structs.replace(make_changeset(number, items=1 + number % 3), key=f"number {number}")
    commit: Committed = await db.thread(THREADS[number % len(THREADS)]).append(change)
    answers.send((number, commit.thread, commit.version, commit.hash.hex()))


def numbers_at(url: str) -> dict[str, list[Answer]]:
    """The numbers that are stored, by thread and in order, after every thread was found to be whole."""
    return answers_at(url, THREADS)


def answers_at(url: str, threads: Sequence[str]) -> dict[str, list[Answer]]:
    """The numbers that are stored in some threads."""
    return asyncio.run(read_answers(url, threads))


async def read_answers(url: str, threads: Sequence[str] = THREADS) -> dict[str, list[Answer]]:
    """The numbers that are stored, by thread and in order, after every thread was found to be whole."""
    by_thread: dict[str, list[Answer]] = {}
    async with clew.open(url) as db:
        for name in threads:
            thread = db.thread(name)
            verdict = await thread.verify()
            changes = await thread.changesets(limit=100_000)
            assert verdict.problems == ()
            assert [change.version for change in changes] == list(range(1, verdict.version + 1))
            by_thread[name] = [_answer(name, change) for change in changes]
    return by_thread


def _answer(thread: str, change: clew.Changeset) -> Answer:
    assert change.run_meta is not None
    number = change.run_meta["number"]
    assert isinstance(number, int)
    assert len(change.items) == change.run_meta["items"]
    return number, thread, change.version, change.hash.hex()
