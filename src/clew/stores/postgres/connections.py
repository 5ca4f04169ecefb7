"""Connections from a pool: one call is one round trip, and no connection is left behind."""

import asyncio
import re
from collections.abc import Coroutine, Generator, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg_pool import AsyncConnectionPool

from clew.stores.postgres.answers import Row, Values
from clew.stores.postgres.arrays import pack_values, register_dumpers
from clew.stores.postgres.errors import translation
from clew.stores.postgres.pool import Pool, cut_connection
from clew.stores.postgres.schema import QUERIES

_PLACEHOLDER = re.compile(rb"%b")


def number_placeholders(query: bytes) -> bytes:
    """A query with its places as the server counts them."""
    parts = _PLACEHOLDER.split(query)
    return parts[0] + b"".join(b"$%d%b" % (number, part) for number, part in enumerate(parts[1:], start=1))


class PreparedStatement:
    """A query that answers with one value."""

    def __init__(self, name: str) -> None:
        self._name = f"clew_{name}".encode()
        self._query = number_placeholders(QUERIES[name])
        self._formats = [Format.BINARY] * len(_PLACEHOLDER.findall(QUERIES[name]))
        self._connections: WeakSet[AsyncConnection[Any]] = WeakSet()

    async def fetch_value(self, connection: AsyncConnection[Any], values: Values) -> bytes | None:
        """The value, as the server sent it."""
        parameters = pack_values(values)
        async with connection.lock:
            if connection.prepare_threshold is None:
                return await self._run_unprepared(connection, parameters)
            try:
                return await self._run_prepared(connection, parameters)
            except psycopg.errors.InvalidSqlStatementName:
                # The driver drops all it has prepared now and then.
                self._connections.discard(connection)
                return await self._run_prepared(connection, parameters)

    async def _run_prepared(
        self, connection: AsyncConnection[Any], parameters: list[bytes | None]
    ) -> bytes | None:
        if connection not in self._connections:
            await self._prepare(connection)
        connection.pgconn.send_query_prepared(self._name, parameters, self._formats, Format.BINARY)
        return (await _read_result(connection)).get_value(0, 0)

    async def _run_unprepared(
        self, connection: AsyncConnection[Any], parameters: list[bytes | None]
    ) -> bytes | None:
        connection.pgconn.send_query_params(self._query, parameters, None, self._formats, Format.BINARY)
        return (await _read_result(connection)).get_value(0, 0)

    async def _prepare(self, connection: AsyncConnection[Any]) -> None:
        connection.pgconn.send_prepare(self._name, self._query)
        with suppress(psycopg.errors.DuplicatePreparedStatement):  # by another store over this connection
            await _read_result(connection)
        self._connections.add(connection)


async def _read_result(connection: AsyncConnection[Any]) -> PGresult:
    result: PGresult = (await connection.wait(execute(connection.pgconn)))[-1]
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise psycopg.errors.error_from_result(result, connection.info.encoding)
    return result


OPEN_STATES = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
CHECK_SECONDS = 5.0


class Connections:
    """The connections of a pool, ours or the caller's; each is given back as it came."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self.pool = pool
        self._with_dumpers: WeakSet[AsyncConnection[Any]] = WeakSet()
        self._without_autocommit: set[AsyncConnection[Any]] = set()
        self._answer_timeout = pool.answer_timeout if isinstance(pool, Pool) else None
        self._timers: dict[AsyncConnection[Any], asyncio.TimerHandle] = {}
        self._check: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    async def fetch(self, name: str, values: Values = ()) -> list[Row]:
        """The rows that a query answers with, in a transaction of its own."""
        try:
            connection = await self._take()
            try:
                cursor = await connection.execute(QUERIES[name], values, binary=True)
                return await cursor.fetchall()
            finally:
                await self._give_back(connection)
        except psycopg.Error as error:
            raise translation(error) from error

    async def fetch_value(self, statement: PreparedStatement, values: Values) -> bytes | None:
        """The one value that a statement answers with, in a transaction of its own."""
        try:
            connection = await self._take()
            try:
                return await statement.fetch_value(connection, values)
            finally:
                await self._give_back(connection)
        except psycopg.Error as error:
            raise translation(error) from error

    async def run_command(self, name: str) -> None:
        """Run a command that gives no rows and cannot run inside a transaction, for as long as it takes."""
        try:
            connection = await self._take()
            self._stop_timer(connection)
            try:
                await connection.execute(QUERIES[name], prepare=False)
            finally:
                await self._give_back(connection)
        except psycopg.Error as error:
            raise translation(error) from error

    async def run_together(self, calls: Sequence[tuple[str, Values]]) -> None:
        """Make several calls in one transaction and one round trip.

        It runs to its end even if the caller is cancelled: a pipeline must not be left early.
        """
        try:
            await self._run_shielded(self._run_calls(calls))
        except psycopg.Error as error:
            raise translation(error) from error

    async def _run_calls(self, calls: Sequence[tuple[str, Values]]) -> None:
        connection = await self._take()
        try:
            async with connection.pipeline():
                # Without it, a pipeline that is left early would commit the calls that were sent.
                await connection.execute("BEGIN", prepare=False)
                for name, values in calls:
                    await connection.execute(QUERIES[name], values, binary=True)
                await connection.execute("COMMIT", prepare=False)
        except BaseException:
            if connection.info.transaction_status in OPEN_STATES:
                await connection.rollback()
            raise
        finally:
            await self._give_back(connection)

    async def replace_broken(self) -> None:
        """Have the pool replace broken connections, so that one fault is not met ten times.

        A connection that does not answer at all is not waited for.
        """
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(self.pool.check())
        await asyncio.wait([self._check], timeout=CHECK_SECONDS)

    async def wait_until_idle(self) -> None:
        """Wait for work that goes on although its callers were cancelled."""
        while tasks := [*self._tasks, *([self._check] if self._check and not self._check.done() else [])]:
            await asyncio.wait(tasks)

    async def _take(self) -> AsyncConnection[Any]:
        """A connection in autocommit, which knows our arrays."""
        before = _cancel_count()
        connection: AsyncConnection[Any] = await self.pool.getconn()
        if _cancel_count() > before:
            # The pool waits by asyncio.wait_for, which in Python 3.11 swallows a cancellation that comes
            # together with the connection. The canceller would wait for this task for ever.
            await self._give_back(connection)
            raise asyncio.CancelledError
        if connection not in self._with_dumpers:
            register_dumpers(connection)
            self._with_dumpers.add(connection)
        if not connection.autocommit:
            self._without_autocommit.add(connection)
            try:
                await connection.set_autocommit(True)
            except BaseException:
                await self._give_back(connection)
                raise
        if self._answer_timeout is not None:
            loop = asyncio.get_running_loop()
            self._timers[connection] = loop.call_later(self._answer_timeout, cut_connection, connection)
        return connection

    def _stop_timer(self, connection: AsyncConnection[Any]) -> None:
        """Let the call over a connection take as long as it takes from now on."""
        if timer := self._timers.pop(connection, None):
            timer.cancel()

    async def _give_back(self, connection: AsyncConnection[Any]) -> None:
        """Give a connection back, even if the task that had it is cancelled meanwhile.

        As a rule there is nothing to wait for, so it is tried here and now; a task would cost three more
        rounds of the event loop. Only if a lock has to be waited for does a task take over.
        """
        if self._timers:
            self._stop_timer(connection)
        idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        work = self._return_to_pool(connection)
        if idle and connection not in self._without_autocommit:
            try:
                first_wait = work.send(None)
            except StopIteration:
                return
            work = _resume_work(work, first_wait)
        await self._run_shielded(work)

    async def _run_shielded(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for some work, which goes on if the wait is cancelled."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(retrieve_exception)
        await asyncio.shield(task)

    async def _return_to_pool(self, connection: AsyncConnection[Any]) -> None:
        if self._without_autocommit and connection in self._without_autocommit:
            self._without_autocommit.discard(connection)
            if connection.info.transaction_status == TransactionStatus.IDLE:
                await connection.set_autocommit(False)
            else:
                await connection.close()
        await self.pool.putconn(connection)


def _cancel_count() -> int:
    """The number of times that this task was asked to stop."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def retrieve_exception(task: asyncio.Future[None]) -> None:
    """Retrieve the exception of a shielded task, which may have no caller any more."""
    if not task.cancelled():
        task.exception()


async def wait_until_done(task: "asyncio.Future[Any]") -> None:
    """Return when a task has ended, however often the caller is cancelled meanwhile."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])


async def _resume_work(work: Coroutine[Any, Any, None], first_wait: Any) -> None:
    """The rest of some work that was begun elsewhere and has come to its first wait, which is for a lock."""
    await _Resumption(work, first_wait)


class _Resumption:
    def __init__(self, work: Coroutine[Any, Any, None], first_wait: Any) -> None:
        self._work = work
        self._first_wait = first_wait

    def __await__(self) -> Generator[Any, Any, None]:
        yield self._first_wait
        yield from self._work.__await__()
