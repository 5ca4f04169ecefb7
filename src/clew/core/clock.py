"""The clock of this machine, and random bytes from it: used unless a store is given others."""

import os
import time


def now_ms() -> int:
    """The time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


BLOCK_BYTES = 4096


class RandomBytes:
    """Random bytes from the system, asked for in blocks. For one thread."""

    def __init__(self) -> None:
        self._block = b""
        self._offset = 0

    def __call__(self, size: int) -> bytes:
        """So many random bytes, never the same ones twice."""
        if self._offset + size > len(self._block):
            self._block = os.urandom(max(BLOCK_BYTES, size))
            self._offset = 0
        start, self._offset = self._offset, self._offset + size
        return self._block[start : self._offset]
