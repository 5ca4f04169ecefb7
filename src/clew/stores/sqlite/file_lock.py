"""Locks on the database file that other SQLite libraries in this process cannot take away.

SQLite's own locks belong to the process. A second library in it does not meet them, and when it closes the
file, the system drops them all. Locks of an open file description hold against every library, and stay.
"""

import os
import struct
import sys
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

SHARED_FIRST = 0x40000000 + 2
SHARED_SIZE = 510
"""The bytes of the file that SQLite locks to read; with a write lock on all it is alone with the file."""
WRITING, CHECKPOINTING = 0x40000000 + 512, 0x40000000 + 513
"""The bytes behind those that SQLite uses: the store that has locked one writes, or moves the log."""
PRESENT = 0x40000000 + 514
"""The byte that every store has locked to read, by which it is seen whether there are others."""
SHM_IN_USE = 128
"""The byte of the shared memory that is locked while it is in use; if not, the next to open it empties it."""
DESCRIPTORS = Path("/proc/self/fd")

if sys.platform == "linux":
    import fcntl

    _SETLK: int | None = fcntl.F_OFD_SETLK
    _READ, _WRITE, _UNLOCK = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
else:
    _SETLK, _READ, _WRITE, _UNLOCK = None, 0, 0, 0


_HELD: "WeakSet[FileLock]" = WeakSet()
"""All locks of this process: a forked child has no other way to know what it should close."""


class FileLock:
    """Locks of one store on its file, where the system has such locks; elsewhere they are always free.

    One is held all the time. Without it, another library takes itself for the last user of the file when it
    closes it, and deletes the write-ahead log. The others are held while the store writes
    or moves the log: two processes would do so at once when SQLite's locks of one are dropped.

    A lock stays while any process has its descriptor. A forked child closes it at once: it would keep the
    lock of a parent that was killed.

    Closing the descriptor drops SQLite's locks of this process on the file; so it is closed after the
    connections, and other stores in this process have locks of their own.
    """

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = None
        if _SETLK is None:
            return
        with suppress(PermissionError):  # a file that cannot be written is not written
            self._descriptor = os.open(path, os.O_RDWR)
            _HELD.add(self)
            self._hold()

    def _hold(self) -> None:
        assert self._descriptor is not None
        try:
            _set_lock(self._descriptor, _flock(_READ, SHARED_FIRST, SHARED_SIZE))
            _set_lock(self._descriptor, _flock(_READ, PRESENT, 1))
        except BlockingIOError:
            self.close()
            raise
        except OSError:
            # A file system without such locks; if the log is deleted, that is noticed all the same.
            self.close()

    def release(self) -> None:
        """Let the last connection be alone with the file, as it must be to remove the write-ahead log."""
        if self._descriptor is not None:
            with suppress(OSError):
                _set_lock(self._descriptor, _flock(_UNLOCK, SHARED_FIRST, SHARED_SIZE))

    def is_alone(self) -> bool:
        """Return whether no other store has the file open, in this process or another."""
        if self._descriptor is None:
            return False
        answer: bytes = fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, _flock(_WRITE, PRESENT, 1))
        (kind,) = struct.unpack_from("h", answer)
        return bool(kind == _UNLOCK)

    def take(self, byte: int) -> bool:
        """Lock one of the bytes above; return whether it was free."""
        if self._descriptor is None:
            return True
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _TAKE[byte])
        except BlockingIOError:
            return False
        return True

    def give(self, byte: int) -> None:
        """Unlock one of the bytes above."""
        if self._descriptor is not None:
            with suppress(OSError):  # it would end the writer, and is given with the next one at the latest
                fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _GIVE[byte])

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_shared_memory(shm: str) -> None:
    """Keep other processes from emptying the shared memory, for as long as SQLite has it open here.

    The lock is put on the descriptor that SQLite has for all connections of this process: one of our own
    could not be closed without dropping the locks of transactions that are under way.
    """
    _lock_open(shm, _flock(_READ, SHM_IN_USE, 1))


def unlock_shared_memory(shm: str) -> None:
    """Let the last connection find that no other uses the shared memory."""
    _lock_open(shm, _flock(_UNLOCK, SHM_IN_USE, 1))


def _lock_open(path: str, flock: bytes) -> None:
    """Set a lock on every descriptor that this process has for a file; there may be none."""
    if _SETLK is None:
        return
    with suppress(OSError):  # no such file, or no such directory
        status = Path(path).stat()
        for descriptor in DESCRIPTORS.iterdir():
            with suppress(OSError):  # closed meanwhile
                if os.path.samestat(descriptor.stat(), status):
                    _set_lock(int(descriptor.name), flock)


def _set_lock(descriptor: int, flock: bytes) -> None:
    assert _SETLK is not None
    fcntl.fcntl(descriptor, _SETLK, flock)


def _flock(kind: int, start: int, length: int) -> bytes:
    """The structure that the system takes."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)


def _close_in_child() -> None:
    for lock in list(_HELD):
        lock.close()


if _SETLK is not None:
    os.register_at_fork(after_in_child=_close_in_child)

_TAKE = {byte: _flock(_WRITE, byte, 1) for byte in (WRITING, CHECKPOINTING)}
_GIVE = {byte: _flock(_UNLOCK, byte, 1) for byte in (WRITING, CHECKPOINTING)}
