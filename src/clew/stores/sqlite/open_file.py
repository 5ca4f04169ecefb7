"""The database file and its write-ahead log as they were opened, and whether the path still names them."""

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path

import apsw

from clew.core.errors import StorageError, StoreBusy, StoreFileLost
from clew.stores.sqlite.connection import wait_a_little
from clew.stores.sqlite.file_lock import (
    CHECKPOINTING,
    WRITING,
    FileLock,
    lock_shared_memory,
    unlock_shared_memory,
)
from clew.stores.sqlite.file_watch import ATTRIBUTES, CHANGED, DELETED, MOVED, FileWatch
from clew.stores.sqlite.wal import copy_wal

LOOK_SECONDS = 0.05
"""Seconds for which readers rely on the last check."""
COUNT_SECONDS = 1.0
"""Seconds after which a store that is not alone with its file looks whether it is by now."""


class NamedFile:
    """A file that was at a path when this was made."""

    def __init__(self, path: str) -> None:
        self.path = path
        status = Path(path).stat()
        self.size = status.st_size
        self._identity = (status.st_dev, status.st_ino)

    def problem(self) -> str | None:
        """The problem with the path, if it does not name that file any more. The size is taken anew.

        The number of an inode is not used again while the file is open, so it is enough to compare numbers.
        """
        try:
            status = Path(self.path).stat()
        except OSError:
            return f"{self.path} was moved or deleted"
        self.size = status.st_size
        if (status.st_dev, status.st_ino) != self._identity:
            return f"another file was put in the place of {self.path}"
        return None


class OpenFile:
    """The files that the connections of one store are connected to.

    A connection goes on working when its files are moved or deleted, and what it commits is then lost. So
    the writer checks the files after each commit, before it answers, and readers check them now and then.
    Once a file is lost it stays lost: only the caller that opens the store anew knows what to open.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._wal_path = ""
        self._size = 0
        self._schema = 0
        self._lock: FileLock | None = None
        self._watch: FileWatch | None = None
        self._wal_descriptor: int | None = None
        self._lost: StoreFileLost | None = None
        self._loss_lock = threading.Lock()
        self._last_look = 0.0
        self._is_shared = True
        self._last_count = 0.0
        self._has_news = False
        self._has_turn = False

    def attach(self, connection: apsw.Connection) -> None:
        """Take the files of a connection that has read from them for those of this store.

        Raises:
            StoreFileLost: They are gone already.
            StoreBusy: Another library in this process is alone with the file.
        """
        self._wal_path = connection.filename_wal
        try:
            self._lock = FileLock(self._path)
            self._wal_descriptor = os.open(self._wal_path, os.O_RDONLY)
            self._watch = FileWatch(_masks(connection))
            self._main = NamedFile(self._path)
            self._wal = NamedFile(self._wal_path)
            self._shm = NamedFile(f"{connection.filename}-shm")
            lock_shared_memory(f"{connection.filename}-shm")
        except BlockingIOError as error:
            raise StoreBusy(store=self._path) from error
        except OSError as error:
            raise self._lose(f"{error.filename} was moved or deleted") from error
        self._size = self._main.size
        self._schema = int(connection.pragma("schema_version"))
        if _has_moved(connection):
            raise self._lose(f"another file was put in the place of {self._path}")
        self._announce(f"{connection.filename}-shm")

    def check(self, connection: apsw.Connection | None = None) -> None:
        """Check that the path still names the files that are open.

        The writer gives its connection, with which it is found out whether a file that shrank was vacuumed.

        Raises:
            StoreFileLost: It does not, or did not at an earlier check.
        """
        if self._lost is not None:
            raise copy(self._lost)  # raised twice, one error would collect the tracebacks of both
        if problem := self._main.problem() or self._wal.problem():
            raise self._lose(problem)
        if connection is not None and self._main.size != self._size:
            self._check_size(connection, self._main.size)

    def check_commit(self, connection: apsw.Connection) -> None:
        """Check the files if anything has happened to them. For the writer, before it answers.

        Raises:
            StoreFileLost: The path does not name the files any more that were written to.
        """
        if self._lost is not None or self._take_news():
            self._has_news = False
            self.check(connection)

    def look(self, now: float) -> None:
        """Check the files and the shared memory, unless that was done just before.

        Raises:
            StoreFileLost: The files are not those that are open.
        """
        if now - self._last_look < LOOK_SECONDS and self._lost is None:
            return
        self.check()
        if problem := self._shm.problem():
            raise self._lose(problem)
        self._last_look = now

    def take_turn(self) -> None:
        """Wait until no other store writes to the file, as long as for SQLite's own lock.

        A store that is alone takes no turns; the watch reports another that comes.

        Raises:
            StoreBusy: Another one writes for longer.
            StorageError: The system has no locks left.
        """
        if not self._is_shared and not self._take_news():
            return
        self._is_shared = self._is_shared_now()
        times = 0
        while not self._take(WRITING):
            if not wait_a_little(times):
                raise StoreBusy(store=self._path)
            times += 1
        self._has_turn = True

    def needs_no_turn(self) -> bool:
        """Return whether this store is alone with the file, and nothing has happened to it."""
        return not self._is_shared and self._lost is None and not self._take_news()

    def give_turn(self) -> None:
        """Let other stores write."""
        if self._has_turn and self._lock is not None:
            self._lock.give(WRITING)
        self._has_turn = False

    @contextmanager
    def checkpoint_turn(self) -> Iterator[bool]:
        """Yield True if no other store moves its write-ahead log into the file; then none does meanwhile.

        Raises:
            StorageError: The system has no locks left.
        """
        has_turn = self._take(CHECKPOINTING)
        try:
            yield has_turn
        finally:
            if has_turn and self._lock is not None:
                self._lock.give(CHECKPOINTING)

    def close(self, connection: apsw.Connection) -> None:
        """Close the last connection, and everything that is held here.

        SQLite deletes the write-ahead log by its name then. If that is another one by now, it is left alone.
        """
        shm = f"{connection.filename}-shm"
        try:
            self.check(connection)
        except StoreFileLost:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if self._lock is not None:
            self._lock.release()
        unlock_shared_memory(shm)
        try:
            connection.close()
        finally:
            lock_shared_memory(shm)  # for other stores in this process, which use the same descriptor
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptors, the locks and the watch."""
        with self._loss_lock:
            if self._wal_descriptor is not None:
                os.close(self._wal_descriptor)
                self._wal_descriptor = None
        if self._lock is not None:
            self._lock.close()
        if self._watch is not None:
            self._watch.close()

    def _announce(self, shm: str) -> None:
        """Make this store known to others that have the file open: they watch the shared memory."""
        with suppress(OSError):
            os.utime(shm)
        self._is_shared = self._watch is None or not self._watch.is_active or not self._is_alone()

    def _take_news(self) -> bool:
        """Return whether there is news of the files that the writer has not looked into yet."""
        self._has_news = self._has_news or self._watch is None or self._watch.has_news()
        return self._has_news

    def _is_alone(self) -> bool:
        return self._lock is not None and self._lock.is_alone()

    def _is_shared_now(self) -> bool:
        """Return whether another store has the file open; one that has gone is noticed after a while."""
        if self._is_shared:
            now = time.monotonic()
            if now - self._last_count < COUNT_SECONDS or self._watch is None or not self._watch.is_active:
                return True
            self._last_count = now
        # One that comes after this look announces itself, and the watch reports it.
        return not self._is_alone()

    def _take(self, byte: int) -> bool:
        try:
            return self._lock is None or self._lock.take(byte)
        except OSError as error:
            raise StorageError(store=self._path, problem=str(error)) from error

    def _check_size(self, connection: apsw.Connection, size: int) -> None:
        """Refuse a file that has become shorter, unless it was vacuumed, which changes the schema's number.

        A backup that is copied over an open file keeps the inode, and is as a rule shorter. The number is
        taken anew only with a shorter file, since a vacuum is seen before the file is cut.
        """
        if size < self._size:
            problem = f"{self._path} was written over: it had {self._size} bytes, and has {size} now"
            try:
                schema = int(connection.pragma("schema_version"))
            except apsw.Error as error:
                raise self._lose(problem) from error
            if schema == self._schema:
                raise self._lose(problem)
            self._schema = schema
        self._size = size

    def _lose(self, problem: str) -> StoreFileLost:
        """The error for files that are lost, after a copy of the write-ahead log was made."""
        with self._loss_lock:
            if self._lost is None:
                saved, outcome = self._save_wal()
                self._lost = StoreFileLost(store=self._path, problem=f"{problem}; {outcome}", saved=saved)
            return copy(self._lost)

    def _save_wal(self) -> tuple[str, str]:
        """Copy the write-ahead log; the path of the copy, or empty, and the outcome in words."""
        if self._wal_descriptor is None:
            return "", "its write-ahead log could not be saved"
        try:
            saved = copy_wal(self._wal_descriptor, self._wal_path)
        except OSError as error:
            return "", f"its write-ahead log could not be saved: {error}"
        if not saved:
            return "", "its write-ahead log held nothing"
        return saved, f"its write-ahead log is saved as {saved}"


def _masks(connection: apsw.Connection) -> dict[str, int]:
    """The events to watch for each file: of the log, which is written to all the time, only its name."""
    name = MOVED | DELETED
    file, wal = connection.filename, connection.filename_wal
    return {
        file: name | ATTRIBUTES | CHANGED,
        wal: name | ATTRIBUTES,
        f"{file}-shm": name | ATTRIBUTES,
        str(Path(file).parent): name,
    }


def _has_moved(connection: apsw.Connection) -> bool:
    """Return whether SQLite finds another file at the path than the one that it opened."""
    moved = ctypes.c_int(0)
    known = connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
    return known and bool(moved.value)
