"""The store in an SQLite file: one writing thread, a few reading ones, and the poll for other processes."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

import apsw

from clew.core.clock import RandomBytes, now_ms
from clew.core.errors import InvalidArgument, StorageError
from clew.core.log.commit import Plan, Planner, claimed_jobs, plan_claim
from clew.core.log.rows import AskThread, StoreRead, ask
from clew.core.ports import ScrubResult, StoreReport
from clew.core.values import Job, Limits, Scope
from clew.stores.interruption import run_in_thread
from clew.stores.process import OwningProcess
from clew.stores.sqlite.answers import SqlAnswers
from clew.stores.sqlite.change_poll import ChangePoll
from clew.stores.sqlite.connection import (
    FORMAT,
    OPEN_EXISTING,
    LogKeys,
    check_file,
    close_refused,
    connect,
    damage_in,
    prepare_file,
    translate_errors,
)
from clew.stores.sqlite.loop_limits import LoopShare
from clew.stores.sqlite.open_file import OpenFile
from clew.stores.sqlite.provisional_files import ProvisionalFiles
from clew.stores.sqlite.readers import Readers
from clew.stores.sqlite.vacuum import BEYOND, scrub
from clew.stores.sqlite.wal import refuse_orphan
from clew.stores.sqlite.writer import CommitWay, Writer
from clew.stores.watch import ChangeWaiters

T = TypeVar("T")
READERS = 3
POLL_SECONDS = 0.05
BACKUP_PAGES = 256
COMMITS: CommitWay = "auto"
"""The way of commits, unless a store is given another."""


class SqliteStore:
    """Threads, records and jobs in one file, for this and any other process on the machine."""

    name = "sqlite"

    def __init__(
        self,
        path: str,
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] = now_ms,
        random: Callable[[int], bytes] | None = None,
        vfs: str | None = None,
        synchronous: str = "FULL",
        commits: CommitWay | None = None,
    ) -> None:
        self.path = path
        # Connections are opened later too, when the working directory may be another.
        self._file_path = str(Path(path).absolute())
        self.limits = limits or Limits()
        self._clock = clock
        self._vfs = vfs
        self._synchronous = synchronous
        self._logs = LogKeys()
        self._process = OwningProcess()
        self._file = OpenFile(self._file_path)
        self.provisional = ProvisionalFiles(self._file_path)
        share = LoopShare()
        self._writer = Writer(
            self._connect_and_prepare,
            self._file,
            path,
            clock,
            random or RandomBytes(),
            share,
            commits or COMMITS,
        )
        self._readers = Readers(self._connect, self._file, path, READERS, share)
        self._change_poll = ChangePoll(self._connect, self._file, path, self._readers)
        self._waiters = ChangeWaiters(self._change_poll, seconds=POLL_SECONDS)

    @classmethod
    async def open(cls, path: str, *, limits: Limits | None = None) -> Self:
        """Open a file, and create or upgrade it.

        Raises:
            StoreReadOnly: The file or its directory cannot be written.
            StoreDamaged: It is not a database of ours, or cut short.
            NewerFormat: A newer release wrote it.
            WalOrphaned: It is not there, but the write-ahead log of one that was.
        """
        store = cls(path, limits=limits)
        await store.start()
        return store

    async def start(self) -> None:
        """Open the connections."""
        _check_path(self.path)
        try:
            with translate_errors(self.path):
                await asyncio.to_thread(self._writer.start)
        except asyncio.CancelledError:
            self._writer.end()  # it may be about to open
            raise
        self._readers.start()

    async def read(self, scope: Scope, read: StoreRead[T]) -> T:
        """The result of a reading, all of it from one moment."""
        self._process.check()
        return await self._readers.read(read, lambda connection: SqlAnswers(connection, scope, self._logs))

    async def change(self, scope: Scope, planner: Planner) -> Plan:
        """The plan that was applied."""
        self._process.check()
        plan = await self._writer.commit(scope, planner)
        self._waiters.wake(scope.tenant, plan.heads)
        return plan

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Claim jobs that are due, each for so long."""
        plan = await self.change(scope, lambda context: plan_claim(kinds, limit, lease_ms, context))
        return claimed_jobs(plan)

    async def wait_for_change(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        with self._waiters.waiter_for(scope, thread, after) as waiter:
            row = await self.read(scope, ask(AskThread(thread)))
            if row is not None and row.version <= after:
                await asyncio.wait([waiter], timeout=timeout)

    async def wait_for_any_change(self, after: int, timeout: float) -> int:
        """Return a number other than ``after`` once any thread may have changed, or when the time is over."""
        self._process.check()
        return await self._waiters.wait_for_any_change(after, timeout)

    def now(self) -> int:
        """The time by this machine's clock, in milliseconds since 1970."""
        return self._clock()

    async def report(self) -> StoreReport:
        """Report the store's health."""
        self._process.check()
        return await self._readers.run(self._report)

    async def backup(
        self, path: str, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Copy the whole database to a file that is new or empty, while others go on writing."""
        self._process.check()
        _check_new(path)
        stopped = threading.Event()
        await run_in_thread(lambda: self._backup(path, progress, stopped), stopped.set)

    async def check_integrity(self, *, quick: bool) -> list[str]:
        """Check the file by SQLite's own means and return the problems, in its words.

        A ``quick`` check does not compare indexes with their tables.
        """
        with translate_errors(self.path):
            connection = self._connect()
            try:
                return await run_in_thread(lambda: damage_in(connection, quick=quick), connection.interrupt)
            finally:
                connection.close()

    async def scrub(self) -> ScrubResult:
        """Leave no trace of rows that were removed: not in free pages, the index or the WAL."""
        self._process.check()
        waiting = await asyncio.shield(asyncio.to_thread(scrub, self._connect, self.path))
        return ScrubResult(waiting=waiting, beyond=BEYOND)

    async def close(self) -> None:
        """End the threads and close the file. Calls under way end first.

        It goes on to its end even if the task that began it is cancelled. In a forked child it does nothing:
        threads and file are the parent's.
        """
        if not self._process.is_this:
            return
        self._change_poll.close()
        self._readers.end()
        self._waiters.wake_all()
        await asyncio.shield(asyncio.to_thread(self._join))

    def _join(self) -> None:
        self._readers.join()
        self._writer.end()
        self._writer.join()

    def _connect(self) -> apsw.Connection:
        """One more connection to the file that the writer has opened, and to no other."""
        self._file.check()
        connection = connect(
            self._file_path, vfs=self._vfs, synchronous=self._synchronous, flags=OPEN_EXISTING
        )
        try:
            self._file.check()
        except BaseException:
            close_refused(connection)
            raise
        return connection

    def _connect_and_prepare(self) -> apsw.Connection:
        connection = connect(self._file_path, vfs=self._vfs, synchronous=self._synchronous)
        try:
            prepare_file(connection, self.path)
            self._file.attach(connection)
        except BaseException:
            close_refused(connection)
            self._file.abandon()
            raise
        return connection

    def _report(self, connection: apsw.Connection) -> StoreReport:
        facts: dict[str, str | int | bool | None] = {
            "path": str(Path(self.path).absolute()),
            "sqlite": apsw.sqlite_lib_version(),
            "journal_mode": str(connection.pragma("journal_mode")),
            "synchronous": self._synchronous,
            "bytes": int(connection.pragma("page_count")) * int(connection.pragma("page_size")),
        }
        schema = check_file(connection, self.path)
        return StoreReport(store="sqlite", format=schema, healthy=schema == FORMAT, facts=facts)

    def _backup(self, path: str, progress: Callable[[int, int], None], stopped: threading.Event) -> None:
        with translate_errors(path):
            source, target = self._connect(), apsw.Connection(path)
            try:
                with target.backup("main", source, "main") as copying:
                    while not copying.done and not stopped.is_set():
                        copying.step(BACKUP_PAGES)
                        progress(copying.page_count - copying.remaining, copying.page_count)
                self._file.check()
            finally:
                target.close()
                source.close()


def _check_path(path: str) -> None:
    if path in ("", ":memory:"):
        raise InvalidArgument(problem="SQLite needs a file. Use memory:// to keep threads in memory.")
    if not Path(path).absolute().parent.is_dir():
        raise StorageError(store=path, problem="its directory does not exist")


def _check_new(path: str) -> None:
    if Path(path).exists() and Path(path).stat().st_size:
        raise InvalidArgument(problem=f"{path!r} exists already; a backup never overwrites.")
    refuse_orphan(path)
