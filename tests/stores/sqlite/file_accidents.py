"""A writer to whose file something happens: moved, deleted, replaced, or opened by another SQLite library."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

import clew
from clew.core.errors import StoreFailed
from clew.stores.sqlite import file_lock, writer
from tests.stores.killed_writer import Answer
from tests.stores.workload import make_changeset

THREAD: Final = "a"
BEFORE: Final = 60
AFTER: Final = 2000
CHECKPOINT_PAGES: Final = 30


class Refusal(NamedTuple):
    """The error that the writer met."""

    code: str
    saved: str
    words: str


class FileSet(NamedTuple):
    """A database, a backup of an earlier moment, and where the original file is put or linked to."""

    path: Path
    backup: Path
    original: Path

    @property
    def wal(self) -> Path:
        """The write-ahead log."""
        return Path(f"{self.path}-wal")


def move(files: FileSet) -> None:
    """Move the database, and leave its log."""
    files.path.rename(files.original)


def delete(files: FileSet) -> None:
    """Delete the database."""
    os.link(files.path, files.original)
    files.path.unlink()


def delete_all(files: FileSet) -> None:
    """Delete the database with its log and its shared memory."""
    delete(files)
    for side in ("-wal", "-shm"):
        Path(f"{files.path}{side}").unlink()


def delete_log(files: FileSet) -> None:
    """Delete the log."""
    os.link(files.path, files.original)
    files.wal.unlink()


def replace(files: FileSet) -> None:
    """Put a backup in the place of the database."""
    os.link(files.path, files.original)
    files.backup.replace(files.path)


def write_over(files: FileSet) -> None:
    """Copy a backup over the database, which keeps its inode."""
    shutil.copyfile(files.path, files.original)
    shutil.copyfile(files.backup, files.path)


ACCIDENTS: Final[dict[str, Callable[[FileSet], None]]] = {
    "moved": move,
    "deleted": delete,
    "deleted with its log": delete_all,
    "log deleted": delete_log,
    "replaced": replace,
    "written over": write_over,
}


def read_elsewhere(path: Path) -> int:
    """Open and close the file with Python's own SQLite library, in this process, as a notebook does."""
    connection = sqlite3.connect(path)
    (rows,) = connection.execute("SELECT count(*) FROM changesets").fetchone()
    connection.close()
    return int(rows)


def write_and_wait(path: str, line: Connection) -> None:
    """Append, say so and wait for a word; then append until refused, and end as by a power cut."""
    writer.CHECKPOINT_PAGES = CHECKPOINT_PAGES
    asyncio.run(_write_through(path, line, waits=True))


def write_on(path: str, line: Connection) -> None:
    """Append, say so without a pause, append until refused, and end as by a power cut."""
    writer.CHECKPOINT_PAGES = CHECKPOINT_PAGES
    asyncio.run(_write_through(path, line, waits=False))


def write_beside(path: str, line: Connection) -> None:
    """Append, read the file with another library, go on appending, and end as by a power cut."""
    asyncio.run(_write_beside(path, line))


def write_beside_unlocked(path: str, line: Connection) -> None:
    """The same on a system whose locks all belong to processes."""
    file_lock._SETLK = None
    asyncio.run(_write_beside(path, line))


async def _write_through(path: str, line: Connection, *, waits: bool) -> None:
    db = await clew.open(f"sqlite:///{path}")
    await db.create(THREAD)
    await _append(db, 1, line)
    await db.store.backup(f"{path}.backup")  # type: ignore[attr-defined] # it is a SqliteStore
    for number in range(2, BEFORE):
        await _append(db, number, line)
    if waits:
        await asyncio.to_thread(wait_until_idle, db.store._writer)  # type: ignore[attr-defined] # it is a SqliteStore
    line.send("ready")
    if waits:
        await asyncio.to_thread(line.recv)
    await _append_until_refused(db, line)


def wait_until_idle(writing: writer.Writer) -> None:
    """Wait for a checkpoint after the last commit: it would write into what is put in the file's place."""
    while writing._thread_is_busy or not writing._queue.empty():
        time.sleep(0.001)


async def _write_beside(path: str, line: Connection) -> None:
    db = await clew.open(f"sqlite:///{path}")
    await db.create(THREAD)
    for number in range(1, BEFORE):
        await _append(db, number, line)
    read_elsewhere(Path(path))
    await _append_until_refused(db, line, 2 * BEFORE)


async def _append_until_refused(db: clew.Database, line: Connection, last: int = AFTER) -> None:
    try:
        for number in range(BEFORE, last):
            await _append(db, number, line)
    except StoreFailed as error:
        line.send(Refusal(error.code, getattr(error, "saved", ""), str(error)))
    else:
        line.send(None)
    os.kill(os.getpid(), signal.SIGKILL)


async def _append(db: clew.Database, number: int, line: Connection) -> None:
    change = msgspec.structs.replace(make_changeset(number, items=1 + number % 3), key=f"number {number}")
    commit = await db.thread(THREAD).append(change)
    answer: Answer = (number, THREAD, commit.version, commit.hash.hex())
    line.send(answer)
