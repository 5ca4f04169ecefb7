"""The file: connecting to it, checking what it is, and migrating its schema."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from clew.core.errors import (
    ClewError,
    NotMigrated,
    StorageError,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    StoreReadOnly,
)
from clew.stores.migrations import migrations_in, pending_migrations
from clew.stores.queries import parse_queries
from clew.stores.sqlite.wal import has_frames, refuse_orphan

DAMAGE = (apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)
"""Reported as errors of the disk, but it is the content that is wrong."""


@contextmanager
def translate_errors(store: str) -> Iterator[None]:
    """Raise our errors for those of the driver."""
    try:
        yield
    except apsw.Error as error:
        raise clew_error(error, store) from error


def clew_error(error: apsw.Error, store: str) -> ClewError:
    """Our error for one of the driver."""
    if getattr(error, "extendedresult", None) in DAMAGE:
        return StoreDamaged(store=store, problem="a page points beyond the end of the file")
    match error:
        case apsw.FullError():
            return StorageFull(store=store)
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(store=store)
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreReadOnly(store=store)
        case apsw.CorruptError() | apsw.NotADBError() | apsw.FormatError():
            return StoreDamaged(store=store, problem=str(error))
    return StorageError(store=store, problem=str(error))


APPLICATION_ID = 0x434C4557  # "CLEW"
BUSY_SECONDS = 30.0
SEAL_MILLISECONDS = 3000
WAL_BYTES = 16 << 20
"""Bytes to which a write-ahead log is cut that grew while a long reader kept it from starting anew."""
SHORT = "it may have been cut short, or copied without its write-ahead log"
OPEN_EXISTING = apsw.SQLITE_OPEN_READWRITE
OPEN_OR_CREATE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE

_here = files(__package__)
QUERIES = parse_queries((_here / "queries.sql").read_text())
MIGRATIONS = migrations_in({f.name: f.read_text() for f in (_here / "migrations").iterdir() if f.is_file()})
FORMAT = max(MIGRATIONS)


def connect(
    path: str, *, vfs: str | None = None, synchronous: str = "FULL", flags: int = OPEN_OR_CREATE
) -> apsw.Connection:
    """A connection to a file of ours, ready to use. The file is not changed.

    Raises:
        WalOrphaned: There is no database, but the write-ahead log of one.
        StoreDamaged: It is shorter than its header says, or broken at its beginning.
    """
    refuse_orphan(path)
    # Deleted rows are overwritten with zeros from the first commit on: erasing relies on it.
    pragmas: dict[str, str | int] = {"synchronous": synchronous, "secure_delete": 1, "foreign_keys": 0}
    connection = apsw.Connection(path, vfs=vfs, flags=flags, statementcachesize=200)
    try:
        connection.set_busy_handler(wait_a_little)
        for pragma, value in {**pragmas, "journal_size_limit": WAL_BYTES}.items():
            connection.pragma(pragma, value)
        connection.register_fts5_function("term_counts", _count_terms)
    except apsw.CorruptError as error:
        close_refused(connection)
        raise StoreDamaged(store=path, problem=f"{error}; {SHORT}") from error
    except BaseException:
        # The traceback would keep the connection, and with it the file, open.
        close_refused(connection)
        raise
    return connection


def _count_terms(text: apsw.FTS5ExtensionApi, *_: object) -> str:
    """The length of an indexed text, and the words that it matches, as often as it holds each.

    The index knows both, so neither is the text read nor are its words counted.
    """
    terms = [term for number in range(text.inst_count) for term in text.inst_tokens(number) or ()]
    return " ".join([str(text.column_size(0)), *terms])


def parse_term_counts(text: str, twice: frozenset[str]) -> tuple[int, dict[str, int]]:
    """The length of a text, and how often it holds each word that it matches; some are counted twice."""
    length, *terms = text.split(" ")
    counts = Counter(terms)
    return int(length), {
        term: count // 2 if term in twice else count for term, count in counts.items()
    } if twice else counts


def rows_of(connection: apsw.Connection, statement: str, values: Any) -> list[tuple[Any, ...]]:
    """All rows that a statement gives."""
    return connection.execute(statement, values).fetchall()


def wait_a_little(times: int) -> bool:
    """Sleep a little; return whether to go on waiting for another process's lock."""
    # Short: a commit of another process is over within milliseconds.
    pause = min(0.0005 * (times + 1), 0.01)
    time.sleep(pause)
    return times * 0.01 < BUSY_SECONDS


def prepare_file(connection: apsw.Connection, path: str) -> None:
    """Create or upgrade the schema.

    Raises:
        StoreDamaged: The file is something else.
        NewerFormat: A newer release wrote it; it is left as it is.
    """
    is_current = not pending_migrations(check_file(connection, path), MIGRATIONS, path)
    _use_wal(connection, path)  # before the transaction, in which the journal mode cannot be changed
    if is_current:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked again under the lock: another process may have migrated the file meanwhile.
        for number, script in pending_migrations(check_file(connection, path), MIGRATIONS, path).items():
            connection.execute(script)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", number)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def schema_of_file(path: str) -> int:
    """The number of the schema in a file, 0 if it is empty or not there."""
    if not Path(path).exists():
        return 0
    with translate_errors(path):
        connection = connect(path)
        try:
            schema = check_file(connection, path)
        except BaseException:
            close_refused(connection)
            raise
        connection.close()
        return schema


def close_refused(connection: apsw.Connection) -> None:
    """Close a connection to a file that is not used, and leave a write-ahead log beside it as it is.

    Its pages would be moved into a file that they may not belong to.
    """
    if has_frames(connection.filename_wal):
        # The last connection to close would move the log into the file.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def check_format(connection: apsw.Connection, path: str) -> None:
    """Refuse to write to a file that has another format by now than it had when it was opened.

    Raises:
        NewerFormat: A newer release has migrated it.
        NotMigrated: An older one was restored into it.
    """
    schema = int(connection.pragma("user_version"))
    if pending_migrations(schema, MIGRATIONS, path):
        raise NotMigrated(store=path, found=schema, known=FORMAT)


def seal_file(path: str) -> None:
    """Fold everything that is written beside a file into it, so that the file alone is the whole database.

    It is left in a mode in which nothing lies beside it; opening it as a store changes that back.

    Raises:
        StoreBusy: A process has the database open.
        StoreDamaged: It is no database, or a broken one.
    """
    with translate_errors(path):
        connection = apsw.Connection(path)
        try:
            connection.set_busy_timeout(SEAL_MILLISECONDS)
            connection.execute("SELECT count(*) FROM sqlite_schema")  # what a crash left half is undone here
            if connection.pragma("journal_mode", "delete") != "delete":
                raise apsw.BusyError("journal mode")
        finally:
            connection.close()


def damage_in(connection: apsw.Connection, *, quick: bool) -> list[str]:
    """The problems that SQLite finds in a file; none if it is sound."""
    try:
        rows = connection.execute("PRAGMA quick_check" if quick else "PRAGMA integrity_check").fetchall()
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError) as error:
        return [str(error)]
    return [str(row[0]) for row in rows if row[0] != "ok"]


def check_file(connection: apsw.Connection, path: str) -> int:
    """The number of the schema in a file, 0 if it is empty.

    Raises:
        StoreDamaged: The file is something else, or cut short.
        NewerFormat: A newer release wrote it.
    """
    with connection:  # one moment: another process may be making the file just now
        tables = next(iter(connection.execute("SELECT count(*) FROM sqlite_schema")))[0]
        application, schema = connection.pragma("application_id"), connection.pragma("user_version")
    if application != APPLICATION_ID:
        if application or tables:
            raise StoreDamaged(store=path, problem="it is a database of another program")
        return 0
    pending_migrations(schema, MIGRATIONS, path)
    _check_length(connection, path)
    return int(schema)


def _check_length(connection: apsw.Connection, path: str) -> None:
    """Refuse a file that is shorter than its own header says; with a WAL beside it nothing is known.

    The file is never opened here: closing it again would drop the locks of every connection of this process.
    The sizes are looked at after the header, since others may write meanwhile.
    """
    header_size = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    file, wal = Path(path), Path(f"{path}-wal")
    if not file.exists() or (wal.exists() and wal.stat().st_size):
        return
    size = file.stat().st_size
    if size < header_size:
        problem = f"it has {size} bytes, but its header says {header_size}; {SHORT}"
        raise StoreDamaged(store=path, problem=problem)


def _use_wal(connection: apsw.Connection, path: str) -> None:
    if connection.pragma("journal_mode") == "wal":
        return
    # Other processes may open the file just now, and only one of them can change its mode.
    for attempt in range(200):
        try:
            mode = connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            time.sleep(0.01 + attempt * 0.0005)
            continue
        if mode != "wal":
            raise StorageError(
                store=path, problem=f"the file system allows journal mode {mode} only, not WAL"
            )
        # The first reading makes the log, which those who open the file expect beside it.
        connection.execute("SELECT count(*) FROM sqlite_schema")
        return
    raise apsw.BusyError("journal mode")


MOST_LOGS = 10_000


class LogKeys:
    """The numbers of threads' logs. A number is never used again, so an old one finds nothing wrong."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, str], int] = {}

    def get(self, connection: apsw.Connection, thread: int, name: str) -> int | None:
        """The number of a thread's log; None if it has none yet."""
        key = self._keys.get((thread, name))
        if key is None:
            rows = rows_of(connection, QUERIES["log"], (thread, name))
            if not rows:
                return None
            key = self._remember(thread, name, int(rows[0][0]))
        return key

    def get_or_add(self, connection: apsw.Connection, thread: int, name: str) -> int:
        """The number of a thread's log, made if it has none yet."""
        key = self.get(connection, thread, name)
        if key is None:
            rows = rows_of(connection, QUERIES["add_log"], (thread, name))
            key = self._remember(thread, name, int(rows[0][0]))
        return key

    def forget(self) -> None:
        """Forget everything: a transaction that made some of them was undone."""
        self._keys.clear()

    def _remember(self, thread: int, name: str, key: int) -> int:
        # Anything may be forgotten here: it is read again when it is needed.
        if len(self._keys) >= MOST_LOGS:
            self._keys.clear()
        self._keys[thread, name] = key
        return key
