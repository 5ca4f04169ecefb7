"""The transactions around a dump: the moment that it shows, and the one in which it is loaded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, IsolationLevel

from clew.core.errors import InvalidArgument, StoreDamaged
from clew.core.log.rows import Ask, AskTenants, StoreRead, ask, run_read_async
from clew.core.values import Scope
from clew.stores.postgres.answers import query_of
from clew.stores.postgres.arrays import register_dumpers
from clew.stores.postgres.errors import setup_error
from clew.stores.postgres.pool import Address
from clew.stores.postgres.schema import QUERIES, migrate_over, schema_of

T = TypeVar("T")
COPY_BYTES = 1 << 18
VECTOR_INDEX = b"CREATE INDEX vectors_signs_"
"""An index of pgvector, which this server may not have. The migration makes it anew if it has."""


class ConnectionReader:
    """Answers questions over one connection, within the transaction that it is in.

    The first question about a thread takes on the rights of an application for the rest of the transaction,
    so the tenants have to be asked for before.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        register_dumpers(connection)
        self._connection = connection

    async def read(self, scope: Scope, read: StoreRead[T]) -> T:
        """The result of a reading."""

        async def answer(question: Ask[Any]) -> Any:
            query = query_of(question)
            cursor = await self._connection.execute(
                QUERIES[query.name], (scope.tenant, scope.user, *query.values), binary=True
            )
            return query.answer(await cursor.fetchall())

        return await run_read_async(read, answer)


class Snapshot(ConnectionReader):
    """One moment of a database, under a name that other programs can take it by."""

    def __init__(self, connection: AsyncConnection[Any], name: str) -> None:
        super().__init__(connection)
        self.name = name

    async def heads(self) -> list[tuple[str, str, int, bytes]]:
        """The tenant, id, version and hash of every thread.

        Raises:
            Forbidden: The login does not see every tenant.
        """
        await self.read(Scope(), ask(AskTenants()))
        cursor = await self._connection.execute(QUERIES["heads"], binary=True)
        return await cursor.fetchall()


@asynccontextmanager
async def open_snapshot(address: Address) -> AsyncIterator[Snapshot]:
    """The database as it is now, for as long as this is open, whatever others write meanwhile."""
    async with _connect(address) as connection:
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        row = await (await connection.execute(QUERIES["export_snapshot"])).fetchone()
        assert row is not None
        yield Snapshot(connection, row[0])
        await connection.rollback()


class Replacement(ConnectionReader):
    """A schema that is being loaded beside the one it replaces, both in one transaction.

    Others see the old one until ``commit``, and keep it if that is never called.
    """

    async def load(self, script: AsyncIterator[bytes]) -> None:
        """Run a script of ``pg_restore``, line by line, and bring what it makes up to date.

        Raises:
            StoreDamaged: It makes no schema of ours.
            NewerFormat: A newer release wrote it.
        """
        statements: list[bytes] = []
        async for line in script:
            if line.startswith(b"COPY ") and line.endswith(b" FROM stdin;\n"):
                await self._execute(statements)
                await self._copy(line, script)
            elif not line.startswith((b"\\", VECTOR_INDEX)):  # the first is a command to psql
                statements.append(line)
            if line == b"CREATE SCHEMA clew;\n":
                statements.append(QUERIES["let_maintenance_own"] + b";\n")
        await self._execute(statements)
        await self._connection.execute(QUERIES["reset_settings"])
        if not await schema_of(self._connection):
            raise StoreDamaged(store="The backup", problem="it holds no schema of Clew")
        await self._connection.execute(QUERIES["let_maintenance_own_no_more"])
        await migrate_over(self._connection)
        await self._connection.execute(QUERIES["reset_role"])

    async def commit(self) -> None:
        """Drop what was replaced, and make the new schema visible to every session."""
        await self._connection.execute(QUERIES["reset_role"])
        await self._connection.execute(QUERIES["drop_schema_aside"])
        await self._connection.commit()

    async def _execute(self, statements: list[bytes]) -> None:
        text = b"".join(statements)
        statements.clear()
        if text.strip():
            await self._connection.execute(text)

    async def _copy(self, statement: bytes, script: AsyncIterator[bytes]) -> None:
        """Send the rows that follow a statement, up to the line that ends them."""
        rows: list[bytes] = []
        size = 0
        async with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            async for line in script:
                if line == b"\\.\n":
                    break
                rows.append(line)
                size += len(line)
                if size > COPY_BYTES:
                    await copy.write(b"".join(rows))
                    rows.clear()
                    size = 0
            await copy.write(b"".join(rows))


@asynccontextmanager
async def open_replacement(address: Address, *, force: bool) -> AsyncIterator[Replacement]:
    """A transaction in which a schema can be loaded in place of the one that is there.

    Raises:
        InvalidArgument: There are threads, records or jobs already, and ``force`` is not set.
        StoreBusy: Another session keeps the tables locked.
    """
    async with _connect(address) as connection:
        replacement = Replacement(connection)
        await connection.execute(QUERIES["wait_for_locks"])
        await connection.execute(QUERIES["lock_schema"])
        if await schema_of(connection):
            if not force and await replacement.read(Scope(), ask(AskTenants())):
                raise InvalidArgument(
                    problem="The database holds something already. Choose another --db, or say --force."
                )
            await connection.execute(QUERIES["lock_tables"])
            await connection.execute(QUERIES["put_schema_aside"])
        yield replacement
        await connection.rollback()


@asynccontextmanager
async def _connect(address: Address) -> AsyncIterator[AsyncConnection[Any]]:
    """A connection that is closed at the end, and whose errors are ours."""
    try:
        connection = await AsyncConnection.connect(address.conninfo, prepare_threshold=None)
        try:
            yield connection
        finally:
            await connection.close()
    except psycopg.Error as error:
        raise setup_error(error) from error
