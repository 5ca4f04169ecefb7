"""The store on PostgreSQL: questions and writes as calls of functions, over a pool of connections."""

import asyncio
import random as chance
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar
from uuid import UUID

from psycopg.types.numeric import Int8
from psycopg_pool import AsyncConnectionPool

from clew.core.clock import RandomBytes
from clew.core.errors import (
    OutcomeUnknown,
    StoreBusy,
    StoreClosed,
    StoreUnavailable,
    ThreadNotFound,
)
from clew.core.log.commit import Plan, PlanContext, Planner
from clew.core.log.heads import HeadCache
from clew.core.log.jobs import WORKER_LOST, latest_ms
from clew.core.log.owners import hidden_conflict
from clew.core.log.rows import Advance, Ask, AskThread, StoreRead, StoreWrite, ask, run_read_async
from clew.core.ports import ScrubResult, StoreReport
from clew.core.values import Job, Limits, Scope
from clew.stores.postgres.answers import Row, Values, job_of, query_of
from clew.stores.postgres.arrays import TextArray
from clew.stores.postgres.batches import Batches, ThreadLocks
from clew.stores.postgres.clock import ServerClock
from clew.stores.postgres.connections import (
    Connections,
    PreparedStatement,
    retrieve_exception,
    wait_until_done,
)
from clew.stores.postgres.errors import STORE, ConnectionLost, StaleWrite, ThreadGone, TryAgain
from clew.stores.postgres.pool import Pool, parse_url
from clew.stores.postgres.provisional_rows import ProvisionalRows
from clew.stores.postgres.row_writes import append_values, batch_append_values, calls_of
from clew.stores.postgres.schema import NEWEST, ensure_schema
from clew.stores.postgres.vacuum import scrub_tables
from clew.stores.process import OwningProcess
from clew.stores.watch import ChangeWaiters, ScopedThread

T = TypeVar("T")

READ_ATTEMPTS = 5
COMMIT_ATTEMPTS = 500
"""Plans of one commit, each on fresh rows: the thread may be written to by many processes."""
LONGEST_PAUSE = 0.02
POLL_SECONDS = 0.25
HIDDEN_CONFLICTS = {"add_thread", "save_record"}
"""Calls that are stale on fresh rows only if something is in the way that the scope does not see."""
TRUE = b"\x01"
MOST_BATCHES = 3
"""Transactions of appends under way at once; appends that come meanwhile wait for the next."""


class PostgresStore:
    """Threads, records and jobs in a PostgreSQL database.

    A pool that is passed in belongs to the caller: ``close`` leaves it open. Its connections may be in
    autocommit or not, and are given back as they came. Without a clock of the caller, the server's is used.
    """

    name = "postgres"

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] | None = None,
        random: Callable[[int], bytes] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.limits = limits or Limits()
        self._connections = Connections(pool)
        self._owns_pool = False
        self._clock: Callable[[], int] = clock or ServerClock(self._server_time)
        self._random = random or RandomBytes()
        self._heads = HeadCache()
        self._waiters = ChangeWaiters(self, seconds=poll_seconds)
        self._locks = ThreadLocks()
        self._append_statement = PreparedStatement("advance_one")
        self._batches = Batches(self._append_batch, MOST_BATCHES)
        self._process = OwningProcess()
        self._closed = False
        self._closing: asyncio.Future[None] | None = None
        self._calls = 0
        self._idle = asyncio.Event()
        self.provisional = ProvisionalRows(self._fetch_named, self._fetch_once)

    @classmethod
    async def open(cls, url: str, *, limits: Limits | None = None) -> Self:
        """The store at a URL (see ``pool.parse_url``), its schema brought up to date if the role may do that.

        Raises:
            StoreUnavailable: There is no such server, or it refuses the login.
            NotMigrated: The schema is missing or old, and the role may not change it.
            NewerFormat: The database was written by a newer release.
        """
        address = parse_url(url)
        schema_task = asyncio.ensure_future(ensure_schema(address.conninfo))
        schema_task.add_done_callback(retrieve_exception)
        try:
            await asyncio.shield(schema_task)  # a connection must not be cancelled while it is made
        except asyncio.CancelledError:
            await wait_until_done(schema_task)  # nor should one be left behind
            raise
        pool = Pool(address)
        store = cls(pool, limits=limits)
        store._owns_pool = True
        try:
            await pool.open()
            await store._refresh_clock()
        except BaseException:
            await wait_until_done(asyncio.ensure_future(store.close()))
            raise
        return store

    async def read(self, scope: Scope, read: StoreRead[T]) -> T:
        """The result of a reading."""
        thread_id = ""

        async def answer(question: Ask[Any]) -> Any:
            nonlocal thread_id
            if isinstance(question, AskThread):
                thread_id = question.id
            return await self._ask(scope, question)

        self._begin_call()
        try:
            await self._refresh_clock()  # the caller may go by ``now`` next
            return await run_read_async(read, answer)
        except ThreadGone as error:
            raise ThreadNotFound(thread=thread_id) from error
        finally:
            self._end_call()

    async def change(self, scope: Scope, planner: Planner) -> Plan:
        """The plan that was applied."""
        self._begin_call()
        try:
            plan = await self._make_plan(scope, planner, fresh=False)
            threads = list(plan.heads)
            # Only a plan says which threads are written, so it is made before they can be locked.
            has_waited = await self._locks.acquire(scope.tenant, threads)
            try:
                # Those who held the threads before have moved the heads that this plan rests on.
                if has_waited:
                    plan = await self._make_plan(scope, planner, fresh=False)
                return await self._commit(scope, planner, plan)
            finally:
                self._locks.release(scope.tenant, threads)
        finally:
            self._end_call()

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Claim jobs that are due, each for so long."""
        self._begin_call()
        try:
            await self._refresh_clock()
            now = self._clock()
            values = (
                scope.tenant,
                scope.user,
                TextArray(kinds),
                Int8(limit),
                Int8(now),
                Int8(latest_ms(now)),
                Int8(now + lease_ms),
                WORKER_LOST.encode(),
            )
            rows = await self._send_with_retry(lambda: self._connections.fetch("claim", values))
        finally:
            self._end_call()
        return sorted(map(job_of, rows), key=lambda job: (job.due, job.id))

    async def wait_for_change(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        # The waiter is there before the version is read, so a commit in between wakes it.
        with self._waiters.waiter_for(scope, thread, after) as waiter:
            row = await self.read(scope, ask(AskThread(thread)))
            if row is not None and row.version <= after:
                await asyncio.wait([waiter], timeout=timeout)

    async def wait_for_any_change(self, after: int, timeout: float) -> int:
        """Return a number other than ``after`` once any thread may have changed, or when the time is over."""
        return await self._waiters.wait_for_any_change(after, timeout)

    def now(self) -> int:
        """The time by the server's clock, in milliseconds since 1970."""
        return self._clock()

    async def change_token(self) -> object:
        """The transactions of the server that are seen; it differs once another one is."""
        return await self._fetch_if_open(lambda: self._connections.fetch("seen"))

    async def versions(self, threads: Sequence[ScopedThread]) -> list[int | None]:
        """The versions of some threads; None for one that is not there."""
        values = (
            TextArray(each.scope.tenant for each in threads),
            TextArray(each.scope.user for each in threads),
            TextArray(each.thread for each in threads),
        )
        rows = await self._fetch_if_open(lambda: self._connections.fetch("versions", values))
        version_by_number: dict[int, int] = dict(rows)
        return [version_by_number.get(number) for number in range(1, len(threads) + 1)]

    async def report(self) -> StoreReport:
        """Report the store's health."""
        rows = await self._fetch_if_open(lambda: self._connections.fetch("about_server"))
        return _report_of(rows[0], self._connections.pool.get_stats().get("pool_size", 0))

    async def scrub(self) -> ScrubResult:
        """Leave no trace of rows that were removed in any table: vacuum is asked for."""
        self._begin_call()
        try:
            return await scrub_tables(self._connections)
        finally:
            self._end_call()

    async def close(self) -> None:
        """Close the pool, if this store opened it. Calls under way end first.

        Once begun it runs to its end, even if its caller is cancelled. In a forked child it does
        nothing: the connections are the parent's.
        """
        if not self._process.is_this:
            return
        self._closed = True
        self._waiters.wake_all()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        # Calls under way use the batches, and batches the connections: they are waited for in this order.
        if self._calls:
            await self._idle.wait()
        await self._batches.wait_until_idle()
        await self._connections.wait_until_idle()
        if self._owns_pool:
            await self._connections.pool.close()

    def _begin_call(self) -> None:
        self._process.check()
        if self._closed:
            raise StoreClosed
        self._calls += 1

    def _end_call(self) -> None:
        self._calls -= 1
        if self._closed and not self._calls:
            self._idle.set()

    # Questions.

    async def _ask(self, scope: Scope, question: Ask[Any]) -> Any:
        name, values, answer = query_of(question)
        rows = await self._fetch_with_retry(
            lambda: self._connections.fetch(name, (scope.tenant, scope.user, *values))
        )
        return answer(rows)

    async def _fetch_if_open(self, fetch: "Callable[[], Any]") -> list[Row]:
        """The rows, unless the store is closed."""
        self._begin_call()
        try:
            return await self._fetch_with_retry(fetch)
        finally:
            self._end_call()

    async def _fetch_named(self, name: str, values: Values) -> list[Row]:
        return await self._fetch_if_open(lambda: self._connections.fetch(name, values))

    async def _fetch_once(self, name: str, values: Values) -> list[Row]:
        """The rows of a query that must not be sent twice."""
        self._begin_call()
        try:
            return await self._connections.fetch(name, values)
        except (TryAgain, ConnectionLost) as error:
            raise StoreUnavailable(problem=str(error)) from error
        finally:
            self._end_call()

    async def _fetch_with_retry(self, fetch: "Callable[[], Any]") -> list[Row]:
        """The rows; asked for again over another connection if this one is broken."""
        problem = ""
        for _ in range(READ_ATTEMPTS):
            try:
                rows: list[Row] = await fetch()
                return rows
            except TryAgain:
                continue
            except ConnectionLost as error:
                # A read can be repeated; a commit whose answer is lost cannot: see _send_with_retry.
                problem = str(error)
                await self._connections.replace_broken()
        raise StoreUnavailable(problem=problem)

    # Changes.

    async def _server_time(self) -> int:
        rows = await self._fetch_with_retry(lambda: self._connections.fetch("server_time"))
        return int(rows[0][0])

    async def _refresh_clock(self) -> None:
        if isinstance(self._clock, ServerClock):
            await self._clock.refresh()

    async def _make_plan(self, scope: Scope, planner: Planner, *, fresh: bool) -> Plan:
        await self._refresh_clock()
        for _ in range(READ_ATTEMPTS):
            context = PlanContext(
                scope=scope,
                now=self._clock(),
                random=self._random,
                new_key=self._new_key,
                find_head=self._heads.finder(scope.tenant),
                fresh=fresh,
            )
            try:
                return await run_read_async(planner(context), lambda question: self._ask(scope, question))
            except ThreadGone:
                # It was deleted between two questions: each is a transaction of its own.
                fresh = True
        raise StoreBusy(store=STORE)

    def _new_key(self) -> UUID:
        """A UUID of version 7: later ones are greater, so new threads lie together."""
        noise = int.from_bytes(self._random(10)) & ((1 << 76) - 1)
        bits = (self._clock() & ((1 << 48) - 1)) << 80 | 7 << 76 | noise
        return UUID(int=bits & ~(0b11 << 62) | 0b10 << 62)

    async def _commit(self, scope: Scope, planner: Planner, plan: Plan) -> Plan:
        """The plan once it is applied, or the one that took its place because something had changed."""
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                await self._apply(scope, plan.writes)
            except StaleWrite as stale:
                # Forgotten at once, so that no other task plans on these heads too.
                self._heads.remember(scope.tenant, dict.fromkeys(plan.heads))
                # The first plan may rest on old heads, the second lose a race; a third has other reasons.
                if attempt > 1 and str(stale) in HIDDEN_CONFLICTS:
                    raise hidden_conflict(plan.writes) from stale
                if attempt:
                    # Random pauses, or processes that collide once would go on colliding in step.
                    await asyncio.sleep(chance.uniform(0, min(LONGEST_PAUSE, 0.0005 * attempt)))
                plan = await self._make_plan(scope, planner, fresh=True)
                continue
            self._heads.remember(scope.tenant, plan.heads)
            self._waiters.wake(scope.tenant, plan.heads)
            return plan
        raise StoreBusy(store=STORE)

    async def _apply(self, scope: Scope, writes: Sequence[StoreWrite]) -> None:
        """Apply every write, or none.

        Raises:
            StaleWrite: Something that one of them assumes is no longer so.
            OutcomeUnknown: The connection broke off before the answer.
        """
        # The usual commit. What waits at the same moment shares one transaction, and so its sync.
        if len(writes) == 1 and isinstance(writes[0], Advance):
            if not await self._batches.append(scope, writes[0]):
                raise StaleWrite("advance")
            return
        calls = [(call.name, (scope.tenant, scope.user, *call.values)) for call in calls_of(writes)]
        if len(calls) > 1:
            # In a transaction of several calls a stale one raises, so that the server undoes those before it.
            strict = [(name, (*values, True)) for name, values in calls]
            await self._send_with_retry(lambda: self._connections.run_together(strict))
        elif calls:
            name, values = calls[0]
            rows = await self._send_with_retry(lambda: self._connections.fetch(name, (*values, False)))
            if not rows[0][0]:
                raise StaleWrite(name)

    async def _append_batch(self, scope: Scope, advances: Sequence[Advance]) -> list[bool]:
        """Append some changesets; say for each whether it was."""
        if len(advances) == 1:
            # Alone it goes as a prepared statement with known types, past the driver's guessing.
            one = (scope.tenant, scope.user, *append_values(advances[0]))
            value = await self._send_with_retry(
                lambda: self._connections.fetch_value(self._append_statement, one)
            )
            return [value == TRUE]
        values = (scope.tenant, scope.user, *batch_append_values(advances))
        rows = await self._send_with_retry(lambda: self._connections.fetch("advance_many", values))
        return list(rows[0][0])

    async def _send_with_retry(self, send: "Callable[[], Any]") -> Any:
        """Send a call, and again if the server undid its transaction in favour of another."""
        while True:
            try:
                return await send()
            except TryAgain:
                continue
            except ConnectionLost as error:
                await self._connections.replace_broken()
                # Sent again, what was committed after all would be committed twice.
                raise OutcomeUnknown(problem=str(error)) from error


def _report_of(row: Row, connections: int) -> StoreReport:
    """The report behind the answer of the query ``about_server``."""
    server, schema, role, bypasses, sees_all, threads, size, pgvector = row
    warning = (
        f"Role {role!r} can bypass row-level security. Clew's own calls are held to it all the same; "
        "connect as a member of clew_app, so that nothing else reads across tenants either."
    )
    return StoreReport(
        store=PostgresStore.name,
        format=schema,
        healthy=schema == NEWEST,
        facts={
            "server": server,
            "schema": schema,
            "role": role,
            "bypasses_row_security": bypasses,
            "sees_every_tenant": sees_all,
            "threads_estimated": threads,
            "bytes": size,
            "connections": connections,
            "vector_index": "none" if pgvector is None else f"pgvector {pgvector}",
        },
        problems=(warning,) if bypasses else (),
    )
