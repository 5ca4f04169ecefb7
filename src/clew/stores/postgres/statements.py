"""The shortest way to one value: a statement prepared once per connection, its values packed by hand.

Half of what an append costs this process is the driver finding out how to send each of two dozen values and
how to read the answer. Here both are known beforehand. Everything else goes the driver's usual way.
"""

import re
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from clew.stores.postgres.answers import Values
from clew.stores.postgres.arrays import wire
from clew.stores.postgres.schema import QUERIES

_PLACE = re.compile(rb"%b")


def numbered(query: bytes) -> bytes:
    """A query with its places as the server counts them."""
    parts = _PLACE.split(query)
    return parts[0] + b"".join(b"$%d%b" % (number, part) for number, part in enumerate(parts[1:], start=1))


class Statement:
    """A query that answers with one value."""

    def __init__(self, name: str) -> None:
        self._name = f"clew_{name}".encode()
        self._query = numbered(QUERIES[name])
        self._formats = [Format.BINARY] * len(_PLACE.findall(QUERIES[name]))
        self._prepared: WeakSet[AsyncConnection[Any]] = WeakSet()

    async def value(self, connection: AsyncConnection[Any], values: Values) -> bytes | None:
        """The value, as the server sent it."""
        packed = wire(values)
        async with connection.lock:
            if connection.prepare_threshold is None:
                return await self._unprepared(connection, packed)
            try:
                return await self._run(connection, packed)
            except (
                psycopg.errors.InvalidSqlStatementName
            ):  # the driver drops all it has prepared now and then
                self._prepared.discard(connection)
                return await self._run(connection, packed)

    async def _run(self, connection: AsyncConnection[Any], packed: list[bytes | None]) -> bytes | None:
        if connection not in self._prepared:
            await self._prepare(connection)
        connection.pgconn.send_query_prepared(self._name, packed, self._formats, Format.BINARY)
        return (await _answer(connection)).get_value(0, 0)

    async def _unprepared(self, connection: AsyncConnection[Any], packed: list[bytes | None]) -> bytes | None:
        connection.pgconn.send_query_params(self._query, packed, None, self._formats, Format.BINARY)
        return (await _answer(connection)).get_value(0, 0)

    async def _prepare(self, connection: AsyncConnection[Any]) -> None:
        connection.pgconn.send_prepare(self._name, self._query)
        with suppress(psycopg.errors.DuplicatePreparedStatement):  # by another store over this connection
            await _answer(connection)
        self._prepared.add(connection)


async def _answer(connection: AsyncConnection[Any]) -> PGresult:
    result: PGresult = (await connection.wait(execute(connection.pgconn)))[-1]
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise psycopg.errors.error_from_result(result, connection.info.encoding)
    return result
