"""Leaving no trace in the file: the index merged, every page written anew, the WAL emptied."""

import time
from collections.abc import Callable

import apsw

from clew.stores.sqlite.connection import QUERIES, translated

BEYOND = (
    "backups and other copies of the database file",
    "snapshots of its file system, and blocks that the disk has put aside",
)
PAUSE = 0.01
PATIENCE = 2.0
"""How long to wait for others, in seconds; whoever reads or writes for longer makes the erasure wait."""
WRITING = "another process is writing; the free pages of the file may hold traces until this is done again"
READING = "a reader holds the write-ahead log open; it may hold traces until this is done again"


def scrub(connect: Callable[[], apsw.Connection], path: str) -> tuple[str, ...]:
    """Write the whole file anew, without what was removed; why there may still be traces, if so."""
    with translated(path):
        connection = connect()
        try:
            return _scrubbed(connection)
        finally:
            connection.close()


def patient(until: float) -> Callable[[int], bool]:
    """Waits for a lock until a moment."""

    def wait(times: int) -> bool:
        time.sleep(PAUSE)
        return time.monotonic() < until

    return wait


def _scrubbed(connection: apsw.Connection) -> tuple[str, ...]:
    connection.set_busy_handler(patient(time.monotonic() + PATIENCE))
    try:
        for name in ("stir_index", "merge_index", "settle_index"):
            connection.execute(QUERIES[name])
        # Zeros are written over deleted rows, but pages that were split or joined keep old copies of rows.
        connection.execute("VACUUM")
    except (apsw.BusyError, apsw.LockedError):
        return (WRITING,)
    until = time.monotonic() + PATIENCE  # all of it: the work before may have taken long on a busy machine
    connection.set_busy_handler(patient(until))
    return () if _emptied(connection, until) else (READING,)


def _emptied(connection: apsw.Connection, until: float) -> bool:
    """Whether the write-ahead log is empty now.

    If somebody moves it to the file at this moment, as our own writer does after many commits, SQLite says so
    at once and does not ask whether to wait.
    """
    while True:
        try:
            pages, done = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            if pages == done:
                return True
        except (apsw.BusyError, apsw.LockedError):
            pass
        if time.monotonic() >= until:
            return False
        time.sleep(PAUSE)
