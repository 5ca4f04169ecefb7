"""The schema of a database: its number, and the migrations that bring it up to date."""

from importlib import resources
from typing import Any

import psycopg
from psycopg import AsyncConnection

from clew.core.errors import NotMigrated
from clew.stores.migrations import migrations_in, pending_migrations
from clew.stores.postgres.errors import STORE, setup_error
from clew.stores.postgres.pool import parse_url
from clew.stores.queries import parse_queries

_here = resources.files("clew.stores.postgres")
QUERIES = {
    name: text.encode() for name, text in parse_queries((_here / "queries.sql").read_text("utf-8")).items()
}
MIGRATIONS = migrations_in(
    {
        file.name: file.read_text("utf-8")
        for file in (_here / "migrations").iterdir()
        if file.name.endswith(".sql")
    }
)
NEWEST = max(MIGRATIONS)


async def migrate(url: str) -> list[int]:
    """Bring the database at a URL up to date; the numbers of the migrations that were run.

    Raises:
        NotMigrated: The role may not change the schema.
        NewerFormat: The database was written by a newer release.
    """
    try:
        connection = await AsyncConnection.connect(parse_url(url).conninfo, prepare_threshold=None)
        async with connection:
            return await migrate_over(connection)
    except psycopg.Error as error:
        raise setup_error(error) from error


async def migrate_over(connection: AsyncConnection[Any]) -> list[int]:
    """Bring a database up to date over a connection that is in no transaction.

    A second process that does so at the same time finds it done.
    """
    numbers: list[int] = []
    while True:
        async with connection.transaction():
            await connection.execute(QUERIES["lock_schema"])
            current = await schema_of(connection)
            migrations = pending_migrations(current, MIGRATIONS, STORE)
            if not migrations:
                # Each time: pgvector may have been installed since, or a dump loaded without its indexes.
                await connection.execute(QUERIES["add_vector_indexes"])
                return numbers
            number, text = next(iter(migrations.items()))
            try:
                await connection.execute(text.encode())
                await connection.execute(QUERIES["set_schema"], (number,))
            except psycopg.errors.InsufficientPrivilege as error:
                raise NotMigrated(store=STORE, found=current, known=NEWEST) from error
        numbers.append(number)


async def schema_of(connection: AsyncConnection[Any]) -> int:
    """The number of the schema; 0 if there is none."""
    row = await (await connection.execute(QUERIES["has_schema"])).fetchone()
    if row is None or not row[0]:
        return 0
    row = await (await connection.execute(QUERIES["schema"])).fetchone()
    return int(row[0]) if row else 0


async def ensure_schema(conninfo: str) -> None:
    """Bring the schema up to date, if it is not; raise if the role may not."""
    try:
        connection = await AsyncConnection.connect(conninfo, autocommit=True, prepare_threshold=None)
        async with connection:
            if pending_migrations(await schema_of(connection), MIGRATIONS, STORE):
                await migrate_over(connection)
    except psycopg.Error as error:
        raise setup_error(error) from error
