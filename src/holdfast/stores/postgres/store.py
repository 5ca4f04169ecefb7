"""The store on PostgreSQL: a pool of connections, questions and effects as calls of functions."""

import asyncio
import os
import random as chance
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self, TypeVar
from uuid import UUID
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8
from psycopg_pool import AsyncConnectionPool

from holdfast.core.errors import (
    HoldfastError,
    NotMigrated,
    OutcomeUnknown,
    StoreBusy,
    StoreClosed,
    StoreUnavailable,
    ThreadNotFound,
)
from holdfast.core.heads import Heads
from holdfast.core.migrations import pending
from holdfast.core.planning import Plan, Setting
from holdfast.core.ports import Report
from holdfast.core.rows import Ask, Asking, AskThread, answered_later
from holdfast.core.values import Job, Limits, Scope
from holdfast.stores.postgres.address import Address, parse
from holdfast.stores.postgres.answers import Row, Values, job_of, query_of
from holdfast.stores.postgres.arrays import Texts, teach
from holdfast.stores.postgres.effects import Call, calls_of
from holdfast.stores.postgres.errors import (
    STORE,
    ConnectionLost,
    Gone,
    StaleEffect,
    TryAgain,
    said,
    translated,
)
from holdfast.stores.postgres.schema import MIGRATIONS, NEWEST, QUERIES, migrate_over, schema_of
from holdfast.stores.postgres.turns import Turns
from holdfast.stores.waking import Wakes

T = TypeVar("T")

READ_ATTEMPTS = 5
COMMIT_ATTEMPTS = 200
LONGEST_PAUSE = 0.05
POLL_SECONDS = 0.25


def now_ms() -> int:
    """The time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class PostgresStore:
    """Threads, records and jobs in a PostgreSQL database.

    A pool that is given stays the giver's: ``close`` leaves it open. Its connections may be in autocommit or
    not, and are given back as they came.
    """

    name = "postgres"

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] = now_ms,
        random: Callable[[int], bytes] = os.urandom,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.limits = limits or Limits()
        self._pool = pool
        self._owned = False
        self._clock = clock
        self._random = random
        self._poll_seconds = poll_seconds
        self._heads = Heads()
        self._wakes = Wakes()
        self._turns = Turns()
        self._taught: WeakSet[AsyncConnection[Any]] = WeakSet()
        self._closed = False
        self._calls = 0
        self._idle = asyncio.Event()

    @classmethod
    async def open(cls, url: str, *, limits: Limits | None = None) -> Self:
        """The store at a URL (see ``address``), its schema brought up to date if the role may do that.

        Raises:
            StoreUnavailable: There is no such server, or it lets us not in.
            NotMigrated: The schema is missing or old, and the role may not change it.
            NewerFormat: The database was written by a newer release.
        """
        address = parse(url)
        await _prepared(address)
        pool = _pool(address)
        store = cls(pool, limits=limits)
        store._owned = True
        with translated():
            await pool.open()
        return store

    async def read(self, scope: Scope, asking: Asking[T]) -> T:
        """The result of a reading."""
        asked = ""

        async def answer(question: Ask[Any]) -> Any:
            nonlocal asked
            if isinstance(question, AskThread):
                asked = question.id
            return await self._ask(scope, question)

        with self._under_way():
            try:
                return await answered_later(asking, answer)
            except Gone as error:
                raise ThreadNotFound(thread=asked) from error

    async def change(self, scope: Scope, planning: Callable[[Setting], Asking[Plan]]) -> Plan:
        """The plan that was applied."""
        with self._under_way():
            plan = await self._plan(scope, planning, fresh=False)
            async with self._turns.of(scope.tenant, plan.known) as waited:
                if waited:
                    plan = await self._plan(scope, planning, fresh=False)
                return await self._commit(scope, planning, plan)

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Jobs that are due, now held by a claim of their own for so long."""
        now = self._clock()
        values = (Texts(kinds), Int8(limit), Int8(now), Int8(now + lease_ms))
        with self._under_way():
            rows = await self._write(scope, [Call("claim", values)])
        return sorted(map(job_of, rows), key=lambda job: (job.due, job.id))

    async def changed(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over.

        Commits of this process wake at once; those of others are seen by looking again and again.
        """
        deadline = time.monotonic() + timeout
        with self._under_way():
            while (left := deadline - time.monotonic()) > 0:
                row = await self._ask(scope, AskThread(thread))
                if row is not None and row.version > after:
                    return
                await self._wakes.wait(scope.tenant, thread, min(left, self._poll_seconds))

    async def report(self) -> Report:
        """What the store says about its health."""
        with self._under_way(), translated():
            async with self._connection() as connection:
                row = await (await connection.execute(QUERIES["about_server"])).fetchone()
                schema = await schema_of(connection)
        assert row is not None
        server, role, bypasses, threads, size = row
        warning = (
            f"Role {role!r} can bypass row-level security. Holdfast's own calls are held to it all the same; "
            "connect as a member of holdfast_app, so that nothing else can read across tenants."
        )
        return Report(
            store=self.name,
            format=schema,
            healthy=schema == NEWEST,
            facts={
                "server": server,
                "schema": schema,
                "role": role,
                "bypasses_row_security": bypasses,
                "threads_estimated": threads,
                "bytes": size,
                "connections": self._pool.get_stats().get("pool_size", 0),
            },
            problems=(warning,) if bypasses else (),
        )

    async def close(self) -> None:
        """Close the pool, if this store opened it. Calls under way end first."""
        self._closed = True
        if self._calls:
            await self._idle.wait()
        if self._owned:
            await self._pool.close()

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        if self._closed:
            raise StoreClosed
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if self._closed and not self._calls:
                self._idle.set()

    # Questions.

    async def _ask(self, scope: Scope, question: Ask[Any]) -> Any:
        """The answer; asked again over another connection if this one is broken."""
        name, values, read = query_of(question)
        problem = ""
        for _ in range(READ_ATTEMPTS):
            try:
                return read(await self._fetch(name, (scope.tenant, scope.user, *values)))
            except TryAgain:
                continue
            except ConnectionLost as error:
                problem = str(error)
                await self._renew()
        raise StoreUnavailable(problem=problem)

    async def _fetch(self, name: str, values: Values) -> list[Row]:
        with translated():
            async with self._connection() as connection:
                cursor = await connection.execute(QUERIES[name], values, binary=True)
                return await cursor.fetchall()

    async def _renew(self) -> None:
        """Have the pool replace what else is broken, so that one fault is not met ten times."""
        with translated():
            await self._pool.check()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection of the pool in autocommit, with what it has to know."""
        async with self._pool.connection() as connection:
            if connection not in self._taught:
                teach(connection)
                self._taught.add(connection)
            if connection.autocommit:
                yield connection
                return
            await connection.set_autocommit(True)
            try:
                yield connection
            finally:
                if connection.info.transaction_status == TransactionStatus.IDLE:
                    await connection.set_autocommit(False)
                else:
                    await connection.close()

    # Changes.

    async def _plan(self, scope: Scope, planning: Callable[[Setting], Asking[Plan]], *, fresh: bool) -> Plan:
        for _ in range(READ_ATTEMPTS):
            setting = Setting(
                scope=scope,
                now=self._clock(),
                random=self._random,
                new_key=self._new_key,
                known=self._heads.of(scope.tenant),
                fresh=fresh,
            )
            try:
                return await answered_later(planning(setting), lambda question: self._ask(scope, question))
            except Gone:
                fresh = True
        raise StoreBusy(store=STORE)

    def _new_key(self) -> UUID:
        """A UUID of version 7: later ones are greater, so new threads lie together."""
        noise = int.from_bytes(self._random(10)) & ((1 << 76) - 1)
        bits = (self._clock() & ((1 << 48) - 1)) << 80 | 7 << 76 | noise
        return UUID(int=bits & ~(0b11 << 62) | 0b10 << 62)

    async def _commit(self, scope: Scope, planning: Callable[[Setting], Asking[Plan]], plan: Plan) -> Plan:
        """The plan once it is applied, or the one that took its place because something had changed."""
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                await self._write(scope, calls_of(plan.effects))
            except StaleEffect:
                self._heads.learn(scope.tenant, dict.fromkeys(plan.known))
                if attempt:
                    await asyncio.sleep(chance.uniform(0, min(LONGEST_PAUSE, 0.001 * attempt)))
                plan = await self._plan(scope, planning, fresh=True)
                continue
            self._heads.learn(scope.tenant, plan.known)
            self._wakes.wake(scope.tenant, plan.known)
            return plan
        raise StoreBusy(store=STORE)

    async def _write(self, scope: Scope, calls: Sequence[Call]) -> list[Row]:
        """What the last of some calls answered; all of them or none are done then.

        Raises:
            StaleEffect: What one of them assumed is no longer so.
            OutcomeUnknown: The connection broke off before the answer.
        """
        while True:
            try:
                if len(calls) > 1:
                    return await self._together(scope, calls)
                return await self._alone(scope, calls[0]) if calls else []
            except TryAgain:
                continue
            except ConnectionLost as error:
                await self._renew()
                raise OutcomeUnknown(problem=str(error)) from error

    async def _alone(self, scope: Scope, call: Call) -> list[Row]:
        """One call is a transaction of its own: one round trip."""
        if call.name == "claim":
            return await self._fetch(call.name, (scope.tenant, scope.user, *call.values))
        rows = await self._fetch(call.name, (scope.tenant, scope.user, *call.values, False))
        if not rows[0][0]:
            raise StaleEffect(call.name)
        return rows

    async def _together(self, scope: Scope, calls: Sequence[Call]) -> list[Row]:
        """Several calls up to one synchronisation are one transaction: one round trip too."""
        with translated():
            async with self._connection() as connection, connection.pipeline():
                for call in calls:
                    values = (scope.tenant, scope.user, *call.values, True)
                    await connection.execute(QUERIES[call.name], values, binary=True)
        return []


def _pool(address: Address) -> AsyncConnectionPool[Any]:
    return AsyncConnectionPool(
        address.conninfo,
        min_size=address.pool_min,
        max_size=address.pool_max,
        timeout=address.pool_timeout,
        open=False,
        name="holdfast",
        kwargs={"autocommit": True, "prepare_threshold": 0 if address.prepares else None},
    )


async def _prepared(address: Address) -> None:
    """Bring the schema up to date, or find out why that cannot be."""
    try:
        connection = await AsyncConnection.connect(address.conninfo, autocommit=True, prepare_threshold=None)
        async with connection:
            found = await schema_of(connection)
            if pending(found, MIGRATIONS, STORE):
                await migrate_over(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        raise NotMigrated(store=STORE, found=0, known=NEWEST) from error
    except psycopg.Error as error:
        raise _unavailable(error) from error


def _unavailable(error: psycopg.Error) -> HoldfastError:
    return StoreUnavailable(problem=said(error))
