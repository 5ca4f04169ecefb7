"""A lock on the database file that other SQLite libraries in this process cannot take away."""

import errno
import os
import struct
import sys
from contextlib import suppress

SHARED_FIRST = 0x40000000 + 2
SHARED_SIZE = 510
"""The bytes that SQLite locks for reading; who has them all for writing is alone with the file."""
REFUSED = (errno.EACCES, errno.EAGAIN)

if sys.platform == "linux":
    import fcntl

    _SETLK: int | None = fcntl.F_OFD_SETLK
    _READ, _UNLOCK = fcntl.F_RDLCK, fcntl.F_UNLCK
else:
    _SETLK, _READ, _UNLOCK = None, 0, 0


class FileLock:
    """A read lock of an open file description, where the system has such locks.

    SQLite's own locks belong to the process: a second library in it does not meet them, takes itself for the
    last user of the file when it closes it, and deletes the write-ahead log. It does meet this one. Closing
    the descriptor drops SQLite's locks of this process on the file, so it is closed after the connections.
    """

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = None
        if _SETLK is None:
            return
        self._descriptor = os.open(path, os.O_RDONLY)
        try:
            self._set(_READ)
        except OSError as error:
            self.close()
            if error.errno in REFUSED:
                raise
            # A file system without such locks; what follows when the log is deleted is noticed all the same.

    def release(self) -> None:
        """Let the last connection be alone with the file, as it must be to remove the write-ahead log."""
        if self._descriptor is not None:
            with suppress(OSError):
                self._set(_UNLOCK)

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _set(self, kind: int) -> None:
        assert self._descriptor is not None
        assert _SETLK is not None
        wanted = struct.pack("hhqqi4x", kind, os.SEEK_SET, SHARED_FIRST, SHARED_SIZE, 0)
        fcntl.fcntl(self._descriptor, _SETLK, wanted)
