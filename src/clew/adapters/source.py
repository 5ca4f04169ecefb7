"""The database of another program, as an import reads it: in one transaction, and never changed."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, LiteralString, Protocol, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import apsw

from clew.core.errors import MissingExtra, SourceUnreadable
from clew.core.redaction import without_password

if TYPE_CHECKING:
    import psycopg

SQLITE_MAGIC: Final = b"SQLite format 3\0"
HEADER_BYTES: Final = 20
WAL_VERSION: Final = 2
"""The last of the header's bytes in a database that is written with a write-ahead log."""
BUSY_MILLISECONDS: Final = 30_000
ROWS_PER_TURN: Final = 256
"""Rows of a file that are read before other tasks have their turn."""

Row: TypeAlias = tuple[Any, ...]
"""The values of a row, in the order of the query."""


class SourceDatabase(Protocol):
    """A database as a reader uses it: its tables, and their rows as they were when it was opened."""

    is_postgres: bool

    async def columns(self) -> Mapping[str, frozenset[str]]:
        """The names of the columns of each table."""
        ...

    def rows(self, query: LiteralString) -> AsyncIterator[Row]:
        """The rows of a query, one after another; several queries may be under way."""
        ...


@asynccontextmanager
async def open_source(location: str) -> AsyncIterator[SourceDatabase]:
    """Open a file of SQLite's, or a URL as SQLAlchemy or a driver takes it, for reading alone.

    Raises:
        SourceUnreadable: It is not there, no database, or changed while it was read.
        MissingExtra: The driver of PostgreSQL is not installed.
    """
    scheme, separator, _ = location.partition("://")
    if separator and scheme.startswith("postgres"):
        async with _open_postgres(f"postgresql{location[len(scheme) :]}") as source:
            yield source
        return
    if separator and not scheme.startswith("sqlite"):
        raise SourceUnreadable(
            source=without_password(location), problem="only SQLite and PostgreSQL can be read"
        )
    path = Path(unquote(urlsplit(location).path[1:]) if separator else location)
    with _open_sqlite(path) as sqlite_source:
        yield sqlite_source


def is_sqlite_file(path: Path) -> bool:
    """Return whether a file is a database of SQLite's."""
    with path.open("rb") as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def milliseconds(value: object) -> int | None:
    """A time as a framework stored it, in milliseconds since 1970; None if it is none."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        return max(int(value * 1000), 0) if isinstance(value, int | float) else None
    except (ValueError, OverflowError):
        return None


# SQLite.


class _SqliteSource:
    """A file of SQLite's."""

    is_postgres = False
    COLUMNS: Final = (
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
    )

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def columns(self) -> Mapping[str, frozenset[str]]:
        return _columns_by_table(self._connection.execute(self.COLUMNS))

    async def rows(self, query: LiteralString) -> AsyncIterator[Row]:
        for number, row in enumerate(self._connection.execute(query), 1):
            yield row
            if number % ROWS_PER_TURN == 0:
                await asyncio.sleep(0)


@contextmanager
def _open_sqlite(path: Path) -> Iterator[_SqliteSource]:
    """Open a file such that nothing is written to it, nor to its directory."""
    try:
        # The reader of a write-ahead log leaves files behind. Without a log the file is all there is.
        is_sealed = _has_wal_format(path) and not _wal_of(path).exists()
        before = _stamp(path)
        uri = f"file:{quote(str(path.resolve()))}?{'immutable=1' if is_sealed else 'mode=ro'}"
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except OSError as error:
        raise SourceUnreadable(source=str(path), problem=error.strerror or str(error)) from error
    except apsw.Error as error:
        raise SourceUnreadable(source=str(path), problem=str(error)) from error
    try:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute("BEGIN")
        yield _SqliteSource(connection)
        if is_sealed and _stamp(path) != before:
            raise SourceUnreadable(source=str(path), problem="another program changed it meanwhile")
    except apsw.Error as error:
        raise SourceUnreadable(source=str(path), problem=str(error)) from error
    finally:
        connection.close(force=True)


def _has_wal_format(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    return len(header) == HEADER_BYTES and header[-1] == WAL_VERSION


def _wal_of(path: Path) -> Path:
    return Path(f"{path.resolve()}-wal")


def _stamp(path: Path) -> tuple[int, int, bool]:
    """The size and time of a file, and whether a write-ahead log is beside it."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, _wal_of(path).exists()


# PostgreSQL.


class _PostgresSource:
    """A database of PostgreSQL's, as one transaction sees it."""

    is_postgres = True
    COLUMNS: Final = (
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = ANY (current_schemas(false))"
    )

    def __init__(self, connection: "psycopg.AsyncConnection[Row]") -> None:
        self._connection = connection
        self._numbers = count(1)

    async def columns(self) -> Mapping[str, frozenset[str]]:
        cursor = await self._connection.execute(self.COLUMNS)
        return _columns_by_table(await cursor.fetchall())

    async def rows(self, query: LiteralString) -> AsyncIterator[Row]:
        # A cursor with a name is the server's: it sends rows as they are asked for.
        async with self._connection.cursor(f"rows_{next(self._numbers)}") as cursor:
            await cursor.execute(query)
            async for row in cursor:
                yield row


@asynccontextmanager
async def _open_postgres(url: str) -> AsyncIterator[_PostgresSource]:
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtra(extra="postgres", package="psycopg") from error
    try:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.set_read_only(True)
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            yield _PostgresSource(connection)
            await connection.rollback()
    except psycopg.Error as error:
        problem = without_password(str(error).partition("\n")[0])
        raise SourceUnreadable(source=without_password(url), problem=problem) from error


def _columns_by_table(rows: Iterable[Row]) -> Mapping[str, frozenset[str]]:
    tables: dict[str, set[str]] = {}
    for table, column in rows:
        tables.setdefault(table, set()).add(column)
    return {table: frozenset(columns) for table, columns in tables.items()}
