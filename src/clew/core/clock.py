"""The clock that stores go by, unless they are given another."""

import os
import time


def now_ms() -> int:
    """The time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


BLOCK = 4096


class Chance:
    """Random bytes from the system, asked for in blocks. For one thread."""

    def __init__(self) -> None:
        self._block = b""
        self._used = 0

    def __call__(self, size: int) -> bytes:
        """So many random bytes, never the same ones twice."""
        if self._used + size > len(self._block):
            self._block = os.urandom(max(BLOCK, size))
            self._used = 0
        start, self._used = self._used, self._used + size
        return self._block[start : self._used]
