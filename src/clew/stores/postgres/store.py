"""The store on PostgreSQL: questions and effects as calls of functions, over a pool of connections."""

import asyncio
import random as chance
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, TypeVar
from uuid import UUID

from psycopg.types.numeric import Int8
from psycopg_pool import AsyncConnectionPool

from clew.core.clock import Chance
from clew.core.errors import (
    OutcomeUnknown,
    StoreBusy,
    StoreClosed,
    StoreUnavailable,
    ThreadNotFound,
)
from clew.core.log.commit import Plan, Setting
from clew.core.log.heads import Heads
from clew.core.log.jobs import LOST, latest_ms
from clew.core.log.owners import obstacle
from clew.core.log.rows import Advance, Ask, Asking, AskThread, Effect, answered_later, ask
from clew.core.ports import Report, Scrubbed
from clew.core.values import Job, Limits, Scope
from clew.stores.postgres.answers import Row, job_of, query_of
from clew.stores.postgres.arrays import Texts
from clew.stores.postgres.batches import Flights, Turns
from clew.stores.postgres.clock import ServerClock
from clew.stores.postgres.connections import Connections, Statement, over, told
from clew.stores.postgres.effects import alone, calls_of, together
from clew.stores.postgres.errors import STORE, ConnectionLost, Gone, StaleEffect, TryAgain
from clew.stores.postgres.pool import Pool, parse
from clew.stores.postgres.schema import ensure_schema
from clew.stores.postgres.vacuum import report_of, scrubbed
from clew.stores.process import OwningProcess
from clew.stores.watch import Asked, Wakes

T = TypeVar("T")
Planning: TypeAlias = Callable[[Setting], Asking[Plan]]

READ_ATTEMPTS = 5
COMMIT_ATTEMPTS = 500
LONGEST_PAUSE = 0.02
POLL_SECONDS = 0.25
UNSEEN = {"add_thread", "save_record"}
"""What is stale on fresh rows only if something stands in the way that the scope does not see."""
TRUE = b"\x01"
FLIGHTS = 3
"""Transactions of appends under way at once. While these fly, what comes in gathers for the next."""


class PostgresStore:
    """Threads, records and jobs in a PostgreSQL database.

    A pool that is given stays the giver's: ``close`` leaves it open. Its connections may be in autocommit or
    not, and are given back as they came. Unless a clock is given, the server's decides what time it is.
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
        self._owned = False
        self._clock: Callable[[], int] = clock or ServerClock(self._server_time)
        self._random = random or Chance()
        self._heads = Heads()
        self._wakes = Wakes(self, seconds=poll_seconds)
        self._turns = Turns()
        self._advance = Statement("advance_one")
        self._flights = Flights(self._append, FLIGHTS)
        self._process = OwningProcess()
        self._closed = False
        self._closing: asyncio.Future[None] | None = None
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
        ensuring = asyncio.ensure_future(ensure_schema(address.conninfo))
        ensuring.add_done_callback(told)
        try:
            await asyncio.shield(ensuring)  # a connection in the making does not bear to be cancelled
        except asyncio.CancelledError:
            await over(ensuring)  # nor should one be left behind
            raise
        pool = Pool(address)
        store = cls(pool, limits=limits)
        store._owned = True
        try:
            await pool.open()
            await store._refresh_clock()
        except BaseException:
            await over(asyncio.ensure_future(store.close()))
            raise
        return store

    async def read(self, scope: Scope, asking: Asking[T]) -> T:
        """The result of a reading."""
        asked = ""

        async def answer(question: Ask[Any]) -> Any:
            nonlocal asked
            if isinstance(question, AskThread):
                asked = question.id
            return await self._ask(scope, question)

        self._enter()
        try:
            await self._refresh_clock()  # whoever reads may go by ``now`` next
            return await answered_later(asking, answer)
        except Gone as error:
            raise ThreadNotFound(thread=asked) from error
        finally:
            self._leave()

    async def change(self, scope: Scope, planning: Planning) -> Plan:
        """The plan that was applied."""
        self._enter()
        try:
            plan = await self._plan(scope, planning, fresh=False)
            threads = list(plan.known)
            waited = await self._turns.take(scope.tenant, threads)
            try:
                if waited:
                    plan = await self._plan(scope, planning, fresh=False)
                return await self._commit(scope, planning, plan)
            finally:
                self._turns.give(scope.tenant, threads)
        finally:
            self._leave()

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Jobs that are due, now held by a claim of their own for so long."""
        self._enter()
        try:
            await self._refresh_clock()
            now = self._clock()
            values = (
                scope.tenant,
                scope.user,
                Texts(kinds),
                Int8(limit),
                Int8(now),
                Int8(latest_ms(now)),
                Int8(now + lease_ms),
                LOST.encode(),
            )
            rows = await self._write(lambda: self._connections.fetch("claim", values))
        finally:
            self._leave()
        return sorted(map(job_of, rows), key=lambda job: (job.due, job.id))

    async def changed(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        with self._wakes.waiting(scope, thread, after) as woken:
            row = await self.read(scope, ask(AskThread(thread)))
            if row is not None and row.version <= after:
                await asyncio.wait([woken], timeout=timeout)

    async def stirred(self, after: int, timeout: float) -> int:
        """A number that is no longer ``after`` once anybody may have changed a thread."""
        return await self._wakes.stirred(after, timeout)

    def now(self) -> int:
        """The time by the server's clock, in milliseconds since 1970."""
        return self._clock()

    async def sign(self) -> object:
        """Which transactions of the server are seen; it differs once another one is."""
        return await self._called(lambda: self._connections.fetch("seen"))

    async def versions(self, asked: Sequence[Asked]) -> list[int | None]:
        """At which version each of some threads is; None for one that is not there."""
        values = (
            Texts(each.scope.tenant for each in asked),
            Texts(each.scope.user for each in asked),
            Texts(each.thread for each in asked),
        )
        rows = await self._called(lambda: self._connections.fetch("versions", values))
        found: dict[int, int] = dict(rows)
        return [found.get(number) for number in range(1, len(asked) + 1)]

    async def report(self) -> Report:
        """What the store says about its health."""
        rows = await self._called(lambda: self._connections.fetch("about_server"))
        return report_of(self.name, rows[0], self._connections.pool.get_stats().get("pool_size", 0))

    async def scrub(self) -> Scrubbed:
        """Leave no trace of rows that were removed in any table: vacuum is asked for."""
        self._enter()
        try:
            return await scrubbed(self._connections)
        finally:
            self._leave()

    async def close(self) -> None:
        """Close the pool, if this store opened it. Calls under way end first.

        Once begun it is brought to its end, whoever waits for it or no longer does. In a forked child it does
        nothing: the connections are the parent's.
        """
        if not self._process.is_this:
            return
        self._closed = True
        self._wakes.wake_all()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._calls:
            await self._idle.wait()
        await self._flights.landed()
        await self._connections.settled()
        if self._owned:
            await self._connections.pool.close()

    def _enter(self) -> None:
        self._process.check()
        if self._closed:
            raise StoreClosed
        self._calls += 1

    def _leave(self) -> None:
        self._calls -= 1
        if self._closed and not self._calls:
            self._idle.set()

    # Questions.

    async def _ask(self, scope: Scope, question: Ask[Any]) -> Any:
        name, values, read = query_of(question)
        rows = await self._again(lambda: self._connections.fetch(name, (scope.tenant, scope.user, *values)))
        return read(rows)

    async def _called(self, fetch: "Callable[[], Any]") -> list[Row]:
        """The rows, unless the store is closed."""
        self._enter()
        try:
            return await self._again(fetch)
        finally:
            self._leave()

    async def _again(self, fetch: "Callable[[], Any]") -> list[Row]:
        """The rows; asked for again over another connection if this one is broken."""
        problem = ""
        for _ in range(READ_ATTEMPTS):
            try:
                rows: list[Row] = await fetch()
                return rows
            except TryAgain:
                continue
            except ConnectionLost as error:
                problem = str(error)
                await self._connections.renew()
        raise StoreUnavailable(problem=problem)

    # Changes.

    async def _server_time(self) -> int:
        rows = await self._again(lambda: self._connections.fetch("server_time"))
        return int(rows[0][0])

    async def _refresh_clock(self) -> None:
        if isinstance(self._clock, ServerClock):
            await self._clock.refresh()

    async def _plan(self, scope: Scope, planning: Planning, *, fresh: bool) -> Plan:
        await self._refresh_clock()
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

    async def _commit(self, scope: Scope, planning: Planning, plan: Plan) -> Plan:
        """The plan once it is applied, or the one that took its place because something had changed."""
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                await self._apply(scope, plan.effects)
            except StaleEffect as stale:
                self._heads.learn(scope.tenant, dict.fromkeys(plan.known))
                if attempt > 1 and str(stale) in UNSEEN:
                    raise obstacle(plan.effects) from stale
                if attempt:
                    await asyncio.sleep(chance.uniform(0, min(LONGEST_PAUSE, 0.0005 * attempt)))
                plan = await self._plan(scope, planning, fresh=True)
                continue
            self._heads.learn(scope.tenant, plan.known)
            self._wakes.wake(scope.tenant, plan.known)
            return plan
        raise StoreBusy(store=STORE)

    async def _apply(self, scope: Scope, effects: Sequence[Effect]) -> None:
        """Apply all effects, or none.

        Raises:
            StaleEffect: What one of them assumed is no longer so.
            OutcomeUnknown: The connection broke off before the answer.
        """
        if len(effects) == 1 and isinstance(effects[0], Advance):
            if not await self._flights.append(scope, effects[0]):
                raise StaleEffect("advance")
            return
        calls = [(call.name, (scope.tenant, scope.user, *call.values)) for call in calls_of(effects)]
        if len(calls) > 1:
            strict = [(name, (*values, True)) for name, values in calls]
            await self._write(lambda: self._connections.together(strict))
        elif calls:
            name, values = calls[0]
            rows = await self._write(lambda: self._connections.fetch(name, (*values, False)))
            if not rows[0][0]:
                raise StaleEffect(name)

    async def _append(self, scope: Scope, steps: Sequence[Advance]) -> list[bool]:
        """Which of some changesets were appended."""
        if len(steps) == 1:
            one = (scope.tenant, scope.user, *alone(steps[0]))
            done = await self._write(lambda: self._connections.value(self._advance, one))
            return [done == TRUE]
        values = (scope.tenant, scope.user, *together(steps))
        rows = await self._write(lambda: self._connections.fetch("advance_many", values))
        return list(rows[0][0])

    async def _write(self, send: "Callable[[], Any]") -> Any:
        """What the server answered; sent again if it undid the transaction in favour of another."""
        while True:
            try:
                return await send()
            except TryAgain:
                continue
            except ConnectionLost as error:
                await self._connections.renew()
                raise OutcomeUnknown(problem=str(error)) from error
