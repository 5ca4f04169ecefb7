"""The one thread that writes: commits waiting at the same moment go to disk together."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from types import TracebackType
from typing import Self, TypeAlias

import apsw

from clew.core.errors import ClewError, InvalidArgument, StorageError, StoreClosed, StoreFileLost
from clew.core.log.commit import Plan, PlanContext, Planner, ThreadHead
from clew.core.log.heads import HeadCache
from clew.core.log.owners import hidden_conflict
from clew.core.log.rows import Advance, StalePlan, StoreWrite, run_read
from clew.core.values import Scope
from clew.stores.sqlite.answers import SqlAnswers
from clew.stores.sqlite.connection import QUERIES, LogKeys, check_format, clew_error, rows_of
from clew.stores.sqlite.open_file import OpenFile
from clew.stores.sqlite.row_writes import SqlWrites

COMMITS_PER_TRANSACTION = 128
"""Commits in one transaction: one sync serves them all."""
CHECKPOINT_PAGES = 1000
"""Pages in the WAL before it is moved into the file: a page that is written often is moved less often."""

CommitOutcome: TypeAlias = Plan | Exception


class CommitRequest:
    """A commit on its way: its planner, and the future that waits for it."""

    __slots__ = ("future", "loop", "planner", "scope", "withdrawn")

    def __init__(self, scope: Scope, planner: Planner) -> None:
        self.scope = scope
        self.planner = planner
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Plan] = self.loop.create_future()
        self.withdrawn = False


class Writer:
    """The owner of the writing connection. A commit is answered only once it is on disk."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        file: OpenFile,
        store: str,
        clock: Callable[[], int],
        random: Callable[[int], bytes],
    ) -> None:
        self._connect = connect
        self._file = file
        self._store = store
        self._clock = clock
        self._random = random
        self._queue: queue.SimpleQueue[CommitRequest | None] = queue.SimpleQueue()
        self._heads = HeadCache()
        self._logs = LogKeys()
        self._new_heads: dict[tuple[str, str], ThreadHead | None] = {}
        self._last_key = 0
        self._pages = 0
        self._data_version: int | None = None
        self._closed = False
        self._open_error: Exception | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clew-writer", daemon=True)

    def start(self) -> None:
        """Open the connection in its own thread; raise what went wrong there."""
        self._thread.start()
        self._ready.wait()
        if self._open_error is not None:
            raise self._open_error

    async def commit(self, scope: Scope, planner: Planner) -> Plan:
        """The plan, once it is on disk.

        A caller that is cancelled withdraws a commit that has not begun; one that has begun is kept.
        """
        if self._closed:
            raise StoreClosed
        request = CommitRequest(scope, planner)
        self._queue.put(request)
        try:
            return await request.future
        except asyncio.CancelledError:
            # A plain flag will do: the writer looks at it once, before it plans.
            request.withdrawn = True
            raise

    def end(self) -> None:
        """Take no more commits, and end after what is queued."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)

    def join(self) -> None:
        """Block until the connection is closed."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._connection = self._connect()
        except (apsw.Error, ClewError, OSError) as error:
            self._open_error = error
            return
        finally:
            self._ready.set()
        # SQLite's own checkpoint runs inside the commit, and its failure would look like the commit's.
        self._connection.wal_autocheckpoint(0)
        self._connection.set_wal_hook(self._note_pages)
        try:
            while group := self._next_group():
                self._answer(group, self._commit_group(group))
                if self._pages >= CHECKPOINT_PAGES:
                    self._checkpoint()
        finally:
            with suppress(apsw.Error):  # the last checkpoint may fail; the WAL holds everything
                self._file.close(self._connection)

    def _note_pages(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move the WAL into the file, after all commits were answered. What cannot be moved now waits."""
        self._pages = 0
        with suppress(apsw.Error, ClewError), self._file.checkpoint_turn() as is_ours:
            # Pages must not be moved into a file that they do not belong to.
            self._file.check(self._connection)
            if is_ours:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _next_group(self) -> list[CommitRequest]:
        """All that waits now, at least one; empty when it is time to end."""
        group: list[CommitRequest] = []
        request = self._queue.get()
        while request is not None:
            group.append(request)
            if len(group) == COMMITS_PER_TRANSACTION:
                return group
            try:
                request = self._queue.get_nowait()
            except queue.Empty:
                return group
        # The end was met behind this group; it is put back, to be met again by itself.
        if group:
            self._queue.put(None)
        return group

    def _answer(self, group: Sequence[CommitRequest], outcomes: Sequence[CommitOutcome]) -> None:
        """Wake each waiting loop once."""
        # Waking a loop costs much of an append's time, so all answers for one loop go together.
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[CommitRequest, CommitOutcome]]] = {}
        for request, outcome in zip(group, outcomes, strict=True):
            by_loop.setdefault(request.loop, []).append((request, outcome))
        for loop, answers in by_loop.items():
            with suppress(RuntimeError):  # the loop was closed, and its tasks with it
                loop.call_soon_threadsafe(_deliver, answers)

    def _commit_group(self, group: Sequence[CommitRequest]) -> list[CommitOutcome]:
        """One transaction for all; if it fails as a whole, each on its own.

        If the file is lost they are not tried again: what was committed may be somewhere after all.
        """
        failure: ClewError
        try:
            self._file.take_turn()
            try:
                return self._commit_transaction(group)
            finally:
                self._file.give_turn()
        except StoreFileLost as lost:
            # One for each: an exception that several tasks raise would gather the tracebacks of all.
            return [copy(lost) for _ in group]
        except ClewError as error:
            failure = error
        except apsw.Error as error:
            failure = self._failure(error)
        except (OverflowError, ValueError, TypeError) as error:  # it must not end the writer
            failure = InvalidArgument(problem=f"SQLite cannot store this: {error}.")
            failure.__cause__ = error
        if len(group) == 1:
            return [failure]
        return [outcome for request in group for outcome in self._commit_group([request])]

    def _failure(self, error: apsw.Error) -> ClewError:
        """Our error for one of the driver: that the file is lost, if that is the reason."""
        failure = clew_error(error, self._store)
        try:
            self._file.check(self._connection)
        except StoreFileLost as lost:
            failure = lost
        failure.__cause__ = error
        return failure

    def _commit_transaction(self, group: Sequence[CommitRequest]) -> list[CommitOutcome]:
        self._file.look(time.monotonic())
        # Heads of this group are known to its later commits, and to others only once it is on disk.
        self._new_heads.clear()
        # The lock comes first: what is read for a plan cannot change before the plan is applied.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._check_format()
            outcomes = [self._commit_one(request) for request in group]
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._logs.forget()
            raise
        self._data_version = self._connection.data_version()
        # Only now is it known where the commit went: nothing is acknowledged that went to a lost file.
        self._file.check_commit(self._connection)
        for (tenant, id), head in self._new_heads.items():
            self._heads.remember(tenant, {id: head})
        return outcomes

    def _check_format(self) -> None:
        """Check the format of the file again if another connection has written since the last commit."""
        # It changes only when another connection has written, and costs no reading of the file.
        version = self._connection.data_version()
        if version != self._data_version:
            check_format(self._connection, self._store)

    def _commit_one(self, request: CommitRequest) -> CommitOutcome:
        """Apply one commit; what it refuses is its own outcome, not the group's."""
        if request.withdrawn:
            return StorageError(store=self._store, problem="the commit was withdrawn before it began")
        stale_writes: Sequence[StoreWrite] = ()
        # On remembered heads a plan asks nothing. If it is stale or refused, rows read now decide.
        for fresh in (False, True):
            outcome = self._make_plan(request, fresh=fresh)
            if isinstance(outcome, Plan):
                if self._apply_plan(request, outcome):
                    return outcome
                stale_writes = outcome.writes
            elif fresh:  # what was remembered may be out of date; only what is read now counts
                return outcome
        return hidden_conflict(stale_writes)

    def _make_plan(self, request: CommitRequest, *, fresh: bool) -> CommitOutcome:
        """The plan, or the error that it was refused with."""
        with _ErrorTrap() as trap:
            context = self._plan_context(request.scope, fresh=fresh)
            return run_read(request.planner(context), SqlAnswers(self._connection, request.scope, self._logs))
        # An error of the driver concerns the whole transaction, not only this commit.
        if isinstance(trap.error, apsw.Error):
            raise trap.error
        return trap.error

    def _apply_plan(self, request: CommitRequest, plan: Plan) -> bool:
        """Apply a plan, if what it assumes is so."""
        sql_writes = SqlWrites(self._connection, request.scope, self._logs)
        try:
            # A savepoint costs two statements, and the most common commit can do without.
            if _fails_first(plan.writes):
                sql_writes.apply(plan.writes)
            else:
                self._apply_in_savepoint(sql_writes, plan)
        except StalePlan:
            return False
        for id, head in plan.heads.items():
            self._new_heads[request.scope.tenant, id] = head
        return True

    def _apply_in_savepoint(self, sql_writes: SqlWrites, plan: Plan) -> None:
        """Apply writes so that a stale one undoes those before it."""
        self._connection.execute("SAVEPOINT one")
        try:
            sql_writes.apply(plan.writes)
        except StalePlan:
            self._connection.execute("ROLLBACK TO one")
            self._connection.execute("RELEASE one")
            self._logs.forget()
            raise
        self._connection.execute("RELEASE one")

    def _plan_context(self, scope: Scope, *, fresh: bool) -> PlanContext:
        find_cached_head = self._heads.finder(scope.tenant)

        def find_head(id: str) -> ThreadHead | None:
            return (
                self._new_heads[scope.tenant, id]
                if (scope.tenant, id) in self._new_heads
                else find_cached_head(id)
            )

        return PlanContext(
            scope=scope,
            now=self._clock(),
            random=self._random,
            new_key=self._new_key,
            find_head=find_head,
            fresh=fresh,
        )

    def _new_key(self) -> int:
        """A key that no thread ever had, nor any other that is planned but not yet written."""
        rows = rows_of(self._connection, QUERIES["last_thread_key"], ())
        self._last_key = max(self._last_key, int(rows[0][0]) if rows else 0) + 1
        return self._last_key


class _ErrorTrap:
    """A trap for any exception of a planner: it belongs to the caller, and must not end the writer."""

    error: Exception

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.error = error
            return True
        return False


def _fails_first(writes: Sequence[StoreWrite]) -> bool:
    """Return whether writes that turn out stale do so before anything is written.

    A used idempotency key is found only after the changeset was written.
    """
    return len(writes) == 1 and isinstance(writes[0], Advance) and writes[0].idempotency_key is None


def _deliver(answers: list[tuple[CommitRequest, CommitOutcome]]) -> None:
    for request, outcome in answers:
        if request.future.done():
            continue
        if isinstance(outcome, Exception):
            request.future.set_exception(outcome)
        else:
            request.future.set_result(outcome)
