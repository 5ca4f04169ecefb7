"""Leaving no trace in the file: the index merged, every page written anew, the WAL emptied."""

import time
from collections.abc import Callable

import apsw

from clew.stores.sqlite.connection import QUERIES, translate_errors

BEYOND = (
    "backups and other copies of the database file",
    "snapshots of its file system, and blocks that the disk has put aside",
)
PAUSE = 0.01
LOCK_WAIT_SECONDS = 2.0
"""Seconds to wait for others; one that reads or writes for longer makes the erasure wait."""
STILL_WRITING = (
    "another process is writing; the free pages of the file may hold traces until this is done again"
)
STILL_READING = "a reader holds the write-ahead log open; it may hold traces until this is done again"


def scrub(connect: Callable[[], apsw.Connection], path: str) -> tuple[str, ...]:
    """Write the whole file anew, without what was removed; the reasons why there may still be traces."""
    with translate_errors(path):
        connection = connect()
        try:
            return _rewrite_file(connection)
        finally:
            connection.close()


def wait_until(until: float) -> Callable[[int], bool]:
    """A busy handler that waits for a lock until a moment."""

    def wait(times: int) -> bool:
        time.sleep(PAUSE)
        return time.monotonic() < until

    return wait


def _rewrite_file(connection: apsw.Connection) -> tuple[str, ...]:
    connection.set_busy_handler(wait_until(time.monotonic() + LOCK_WAIT_SECONDS))
    try:
        for name in ("add_placeholder_text", "merge_index", "drop_placeholder_text"):
            connection.execute(QUERIES[name])
        # Zeros are written over deleted rows, but pages that were split or joined keep old copies of rows.
        connection.execute("VACUUM")
    except (apsw.BusyError, apsw.LockedError):
        return (STILL_WRITING,)
    # From now on: the work before may have taken long on a busy machine.
    until = time.monotonic() + LOCK_WAIT_SECONDS
    connection.set_busy_handler(wait_until(until))
    return () if _empty_wal(connection, until) else (STILL_READING,)


def _empty_wal(connection: apsw.Connection, until: float) -> bool:
    """Empty the write-ahead log; return whether it is.

    If it is moved into the file at this moment, as our own writer does after many commits, SQLite says so
    at once and does not ask whether to wait.
    """
    while True:
        try:
            pages, moved_pages = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            if pages == moved_pages:
                return True
        except (apsw.BusyError, apsw.LockedError):
            pass
        if time.monotonic() >= until:
            return False
        time.sleep(PAUSE)
