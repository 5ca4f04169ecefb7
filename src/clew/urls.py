"""From a URL to a database. The only module that names a backend."""

from collections.abc import Generator
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

from clew.core.arguments import check_arguments
from clew.core.errors import InvalidArgument, MissingExtra, UnknownUrl
from clew.core.ports import Files, Store
from clew.core.redaction import without_password
from clew.core.values import Limits
from clew.database.database import Database


class DatabaseOpener:
    """A database about to be opened: ``async with`` it, or ``await`` it and close it yourself."""

    def __init__(self, url: str, limits: Limits | None, files: Files | None) -> None:
        self._url = url
        self._limits = limits
        self._files = files
        self._database: Database | None = None

    def __await__(self) -> Generator[Any, None, Database]:
        return self._open().__await__()

    async def __aenter__(self) -> Database:
        self._database = await self._open()
        return self._database

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._database is not None:
            await self._database.close()

    async def _open(self) -> Database:
        return Database(await open_store(self._url, limits=self._limits), owns_store=True, files=self._files)


@check_arguments
def open(url: str, *, limits: Limits | None = None, files: Files | None = None) -> DatabaseOpener:
    """Open the database at a URL: ``memory://``, ``sqlite:///path`` or ``postgresql://…``.

    ``files`` are those that are kept beside it, on a volume: they go with what is erased or deleted.
    """
    return DatabaseOpener(url, limits, files)


async def open_store(url: str, *, limits: Limits | None = None) -> Store:
    """The store at a URL.

    Raises:
        UnknownUrl: No store answers to it.
        MissingExtra: Its driver is not installed.
    """
    scheme = url.partition(":")[0]
    if scheme == "memory":
        from clew.stores.memory import MemoryStore

        return MemoryStore(limits=limits)
    if scheme == "sqlite" and url.startswith("sqlite:///"):
        from clew.stores.sqlite.store import SqliteStore

        return await SqliteStore.open(_file_of(url), limits=limits)
    if scheme in ("postgresql", "postgres"):
        try:
            from clew.stores.postgres.store import PostgresStore
        except ImportError as error:
            raise MissingExtra(extra="postgres", package="psycopg") from error
        return await PostgresStore.open(url, limits=limits)
    raise UnknownUrl(url=without_password(url))


def _file_of(url: str) -> str:
    """The path in an SQLite URL."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise InvalidArgument(
            problem="An SQLite URL takes no parameters; write ? as %3F and # as %23 in a path."
        )
    return unquote(parts.path[1:])


async def migrate_store(url: str) -> tuple[int, int]:
    """Make the store at a URL, or bring its schema up to date; the number of the schema before and after.

    Raises:
        NotMigrated: The role may not change the schema.
        NewerFormat: A newer release wrote it.
    """
    before = await _schema_at(url)
    store = await open_store(url)
    try:
        return before, (await store.report()).format
    finally:
        await store.close()


async def _schema_at(url: str) -> int:
    """The number of the schema at a URL once it may be opened: SQLite's as it is, PostgreSQL's as it was."""
    if url.startswith("sqlite:///"):
        from clew.stores.sqlite.connection import schema_of_file

        return schema_of_file(_file_of(url))
    if url.startswith("postgres"):
        try:
            from clew.stores.postgres.schema import NEWEST, migrate
        except ImportError as error:
            raise MissingExtra(extra="postgres", package="psycopg") from error
        migrations = await migrate(url)
        return migrations[0] - 1 if migrations else NEWEST
    return 0
