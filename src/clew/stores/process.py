"""The process that a store belongs to."""

import os

from clew.core.errors import StoreForked


class OwningProcess:
    """The process that made it. Threads, locks and sockets of a store are of no use in a forked child."""

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_this(self) -> bool:
        """True if this is still that process, and not a child of it."""
        return os.getpid() == self._id

    def check(self) -> None:
        """Raise in a child.

        Raises:
            StoreForked: The process was forked since.
        """
        if os.getpid() != self._id:
            raise StoreForked(opened_by=self._id)
