"""Connections from a pool: one call is one round trip, and no connection is left behind."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.answers import Row, Values
from holdfast.stores.postgres.arrays import teach
from holdfast.stores.postgres.errors import translation
from holdfast.stores.postgres.schema import QUERIES


class Connections:
    """The connections of a pool, ours or somebody's; each is given back as it came."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self.pool = pool
        self._taught: WeakSet[AsyncConnection[Any]] = WeakSet()
        self._borrowed: set[AsyncConnection[Any]] = set()

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

    async def together(self, calls: Sequence[tuple[str, Values]]) -> None:
        """Make several calls in one transaction and one round trip.

        The transaction is begun in so many words: a pipeline that is left early, because its task was
        cancelled, would otherwise commit the calls that were sent.
        """
        try:
            connection = await self._take()
            try:
                async with connection.pipeline():
                    await connection.execute("BEGIN", prepare=False)
                    for name, values in calls:
                        await connection.execute(QUERIES[name], values, binary=True)
                    await connection.execute("COMMIT", prepare=False)
            except BaseException:
                if connection.info.transaction_status in (
                    TransactionStatus.INTRANS,
                    TransactionStatus.INERROR,
                ):
                    await connection.rollback()
                raise
            finally:
                await self._give_back(connection)
        except psycopg.Error as error:
            raise translation(error) from error

    async def renew(self) -> None:
        """Have the pool replace whatever is broken, so that one fault is not met ten times."""
        try:
            await self.pool.check()
        except psycopg.Error as error:
            raise translation(error) from error

    async def _take(self) -> AsyncConnection[Any]:
        """A connection in autocommit, which knows our arrays."""
        connection: AsyncConnection[Any] = await self.pool.getconn()
        if connection not in self._taught:
            teach(connection)
            self._taught.add(connection)
        if not connection.autocommit:
            self._borrowed.add(connection)
            try:
                await connection.set_autocommit(True)
            except BaseException:
                await self._give_back(connection)
                raise
        return connection

    async def _give_back(self, connection: AsyncConnection[Any]) -> None:
        if self._borrowed and connection in self._borrowed:
            self._borrowed.discard(connection)
            if connection.info.transaction_status == TransactionStatus.IDLE:
                await connection.set_autocommit(False)
            else:
                await connection.close()
        await self.pool.putconn(connection)


def new_pool(address: Address) -> AsyncConnectionPool[Any]:
    """A pool of connections to a database, not yet open."""
    return AsyncConnectionPool(
        address.conninfo,
        min_size=address.pool_min,
        max_size=address.pool_max,
        timeout=address.pool_timeout,
        open=False,
        name="holdfast",
        kwargs={"autocommit": True, "prepare_threshold": 0 if address.prepares else None},
    )
