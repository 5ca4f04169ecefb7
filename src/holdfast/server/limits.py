"""How much is allowed at once: streams of a process, turns and requests of one user."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.core.errors import RateLimited

MINUTE = 60.0
REMEMBERED = 10_000
"""How many users' requests are counted at once; of more, the longest quiet are forgotten."""


class Gate:
    """Lets so many in at once, for each name by itself."""

    def __init__(self, what: str, limit: int, *, retry_after_ms: int = 1_000) -> None:
        self._what = what
        self._limit = limit
        self._retry = retry_after_ms
        self._inside: Counter[str] = Counter()

    @property
    def inside(self) -> int:
        """How many are in, of all names together."""
        return self._inside.total()

    def check(self, name: str = "") -> None:
        """See whether there is room.

        Raises:
            RateLimited: There is none.
        """
        if self._inside[name] >= self._limit:
            raise RateLimited(what=self._what, limit=self._limit, retry_after_ms=self._retry)

    @contextmanager
    def enter(self, name: str = "") -> Iterator[None]:
        """Be one of them.

        Raises:
            RateLimited: There is no room.
        """
        self.check(name)
        self._inside[name] += 1
        try:
            yield
        finally:
            self._inside[name] -= 1
            if not self._inside[name]:
                del self._inside[name]


class Pace:
    """Lets each name have so many requests in a minute, evenly refilled."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = per_minute
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Have one request.

        Raises:
            RateLimited: There were too many of late.
        """
        now = self._clock()
        left, before = self._left.pop(name, (float(self._limit), now))
        left = min(self._limit, left + (now - before) * self._limit / MINUTE)
        allowed = left >= 1
        self._left[name] = (left - 1 if allowed else left, now)
        if len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        if not allowed:
            wait = int((1 - left) * MINUTE / self._limit * 1000) + 1
            raise RateLimited(what="requests in a minute", limit=self._limit, retry_after_ms=wait)
