"""Events of the system about files: that they were moved, deleted or changed."""

import ctypes
import os
import select
import sys
from collections.abc import Mapping
from contextlib import suppress

CHANGED, ATTRIBUTES, DELETED, MOVED = 0x2, 0x4, 0x400, 0x800
"""The events watched for: writes, the number of names of a file, and the end or a move of its own name."""
EVENT_BYTES = 1 << 16


class FileWatch:
    """A watch of some files that says at little cost that nothing has happened to them (inotify, on Linux).

    To read the status of the files after each commit costs a tenth of the commit: Linux gives a file whose
    times were read a finer time with its next write, so that the sync after it has more to do.
    """

    def __init__(self, masks: Mapping[str, int]) -> None:
        self._descriptor: int | None = None
        self._poll: select.poll | None = None
        if sys.platform != "linux" or not masks:
            return
        system = ctypes.CDLL(None, use_errno=True)
        descriptor = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:  # the system has none left: then there may always be news
            return
        self._descriptor = descriptor
        numbers = [system.inotify_add_watch(descriptor, os.fsencode(path), masks[path]) for path in masks]
        if min(numbers) < 0:
            self.close()
            return
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    @property
    def is_active(self) -> bool:
        """True if the system reports events; otherwise there may always be news."""
        return self._poll is not None

    def has_news(self) -> bool:
        """Return whether anything may have happened since the last call. For one thread."""
        if self._poll is None or self._descriptor is None:
            return True
        if not self._poll.poll(0):
            return False
        with suppress(BlockingIOError):
            os.read(self._descriptor, EVENT_BYTES)
        return True

    def close(self) -> None:
        """Watch no longer."""
        self._poll = None
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
