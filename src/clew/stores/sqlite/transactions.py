"""Transactions on the writing connection: one for all commits of a group, on the thread or on the loop."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from types import TracebackType
from typing import Any, Self, TypeAlias

import apsw

from clew.core.errors import ClewError, InvalidArgument, StorageError, StoreFileLost
from clew.core.log.commit import Plan, PlanContext, Planner, ThreadHead
from clew.core.log.heads import HeadCache
from clew.core.log.owners import hidden_conflict
from clew.core.log.rows import Advance, Ask, StalePlan, StoreWrite, run_read
from clew.core.values import Scope
from clew.stores.sqlite.answers import SqlAnswers
from clew.stores.sqlite.connection import (
    QUERIES,
    LogKeys,
    check_format,
    clew_error,
    rows_of,
    wait_a_little,
)
from clew.stores.sqlite.loop_limits import LOOP_SECONDS, QUICK_QUESTIONS, ThreadNeeded, check_quick
from clew.stores.sqlite.open_file import OpenFile
from clew.stores.sqlite.row_writes import SqlWrites

CommitOutcome: TypeAlias = Plan | Exception


class CommitRequest:
    """A commit on its way: its planner, and the future that waits for it, if it has to wait."""

    __slots__ = ("future", "planner", "scope")

    def __init__(self, scope: Scope, planner: Planner) -> None:
        self.scope = scope
        self.planner = planner
        self.future: asyncio.Future[Plan] | None = None

    @property
    def is_withdrawn(self) -> bool:
        """True if the caller was cancelled. It is looked at once, before the commit is planned."""
        return self.future is not None and self.future.cancelled()


class Transactions:
    """The owner of the writing connection, and all rules of a commit, whichever way it is made.

    The writer's thread commits at any time, and waits for a lock of another process. A loop commits only if
    nothing keeps it waiting: neither the thread nor another store, and nothing that may take long.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        file: OpenFile,
        store: str,
        clock: Callable[[], int],
        random: Callable[[int], bytes],
    ) -> None:
        self.pages = 0
        self.commit_seconds = 0.0
        self._connect = connect
        self._file = file
        self._store = store
        self._clock = clock
        self._random = random
        self._heads = HeadCache()
        self._logs = LogKeys()
        self._new_heads: dict[tuple[str, str], ThreadHead | None] = {}
        self._last_key = 0
        self._scope = Scope()
        self._data_version: int | None = None
        self._lock = threading.Lock()
        self._is_open = False
        self._on_loop = False
        self._asking_seconds = 0.0

    def open(self) -> None:
        """Open the connection."""
        self._connection = self._connect()
        # SQLite's own checkpoint runs inside the commit, and its failure would look like the commit's.
        self._connection.wal_autocheckpoint(0)
        self._connection.set_wal_hook(self._note_pages)
        self._connection.set_busy_handler(self._wait_for_lock)
        self._sql_writes = SqlWrites(self._connection, self._logs)
        self._execute = self._connection.cursor().execute
        self._is_open = True

    def close(self) -> None:
        """Close the connection."""
        with self._lock, suppress(apsw.Error):  # the last checkpoint may fail; the WAL holds everything
            self._is_open = False
            self._file.close(self._connection)

    def commit(self, group: Sequence[CommitRequest]) -> list[CommitOutcome]:
        """Commit a group. For the writer's thread, which may wait."""
        with self._lock:
            return self._commit_group(group)

    def try_commit(self, group: Sequence[CommitRequest]) -> list[CommitOutcome] | None:
        """Commit a group on the loop; None, and nothing was done, if the thread must do it."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if not self._is_open or not self._file.needs_no_turn():
                return None
            self._on_loop = True
            self._asking_seconds = 0.0
            return self._commit_group(group)
        except ThreadNeeded:
            return None
        finally:
            self._on_loop = False
            self._lock.release()

    def checkpoint(self) -> None:
        """Move the WAL into the file, after all commits were answered. What cannot be moved now waits."""
        with self._lock:
            self.pages = 0
            with suppress(apsw.Error, ClewError), self._file.checkpoint_turn() as is_ours:
                # Pages must not be moved into a file that they do not belong to.
                self._file.check(self._connection)
                if is_ours:
                    self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _note_pages(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self.pages = pages
        return apsw.SQLITE_OK

    def _wait_for_lock(self, times: int) -> bool:
        return not self._on_loop and wait_a_little(times)

    def _commit_group(self, group: Sequence[CommitRequest]) -> list[CommitOutcome]:
        """One transaction for all; if it fails as a whole, each on its own.

        If the file is lost they are not tried again: what was committed may be somewhere after all.
        """
        failure: ClewError
        try:
            if not self._on_loop:  # there it was found that none is needed
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
            if self._on_loop and isinstance(error, apsw.BusyError):
                raise ThreadNeeded from error
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
        self._execute("BEGIN IMMEDIATE")
        try:
            self._check_format()
            outcomes = [self._commit_one(request) for request in group]
            start = time.perf_counter()
            self._execute("COMMIT")
            self.commit_seconds = time.perf_counter() - start
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._sql_writes.forget()
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
            self._sql_writes.forget()
            check_format(self._connection, self._store)

    def _commit_one(self, request: CommitRequest) -> CommitOutcome:
        """Apply one commit; what it refuses is its own outcome, not the group's."""
        if request.is_withdrawn:
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
            return run_read(request.planner(context), self._answer)
        # An error of the driver concerns the whole transaction, not only this commit.
        if isinstance(trap.error, apsw.Error | ThreadNeeded):
            raise trap.error
        return trap.error

    def _answer(self, question: Ask[Any]) -> Any:
        """The answer to a planner's question; on the loop only to quick ones, and not for long."""
        if self._on_loop and (type(question) not in QUICK_QUESTIONS or self._asking_seconds > LOOP_SECONDS):
            raise ThreadNeeded
        start = time.perf_counter()
        answer = SqlAnswers(self._connection, self._scope, self._logs)(question)
        self._asking_seconds += time.perf_counter() - start
        return answer

    def _apply_plan(self, request: CommitRequest, plan: Plan) -> bool:
        """Apply a plan, if what it assumes is so."""
        if self._on_loop:
            check_quick(plan.writes)
        try:
            # A savepoint costs two statements, and the most common commit can do without.
            if _fails_first(plan.writes):
                self._sql_writes.apply(plan.writes, request.scope)
            else:
                self._apply_in_savepoint(plan, request.scope)
        except StalePlan:
            return False
        for id, head in plan.heads.items():
            self._new_heads[request.scope.tenant, id] = head
        return True

    def _apply_in_savepoint(self, plan: Plan, scope: Scope) -> None:
        """Apply writes so that a stale one undoes those before it."""
        self._connection.execute("SAVEPOINT one")
        try:
            self._sql_writes.apply(plan.writes, scope)
        except StalePlan:
            self._connection.execute("ROLLBACK TO one")
            self._connection.execute("RELEASE one")
            self._sql_writes.forget()
            raise
        self._connection.execute("RELEASE one")

    def _plan_context(self, scope: Scope, *, fresh: bool) -> PlanContext:
        self._scope = scope
        return PlanContext(
            scope=scope,
            now=self._clock(),
            random=self._random,
            new_key=self._new_key,
            find_head=self._find_head,
            fresh=fresh,
        )

    def _find_head(self, id: str) -> ThreadHead | None:
        """The head of a thread in the scope of the commit that is being planned."""
        tenant = self._scope.tenant
        if (tenant, id) in self._new_heads:
            return self._new_heads[tenant, id]
        return self._heads.find(tenant, id)

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
