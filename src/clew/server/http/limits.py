"""How much is allowed at once: streams, turns and requests of a user and of a process, failed credentials."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clew.core.errors import RateLimited

MINUTE = 60.0
REMEMBERED = 10_000
"""How many users' requests are counted at once; of more, the longest quiet are forgotten."""
FAILURES = "failed authentications in a minute"


class Gate:
    """Lets so many in at once, for each name by itself."""

    def __init__(
        self,
        what: str,
        limit: int,
        *,
        retry_after_ms: int = 1_000,
        error: type[RateLimited] = RateLimited,
    ) -> None:
        self._what = what
        self._limit = limit
        self._retry = retry_after_ms
        self._error = error
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
            raise self._error(what=self._what, limit=self._limit, retry_after_ms=self._retry)

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

    def __init__(
        self,
        per_minute: int,
        *,
        what: str = "requests in a minute",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._limit = per_minute
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Have one request.

        Raises:
            RateLimited: There were too many of late.
        """
        left, now = self._refilled(name)
        self._left.pop(name, None)
        self._left[name] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        self._refuse_below_one(left)

    def check(self, name: str) -> None:
        """See whether there is a request to be had, and take none.

        Raises:
            RateLimited: There were too many of late.
        """
        self._refuse_below_one(self._refilled(name)[0])

    def _refilled(self, name: str) -> tuple[float, float]:
        now = self._clock()
        left, before = self._left.get(name, (float(self._limit), now))
        return min(self._limit, left + (now - before) * self._limit / MINUTE), now

    def _refuse_below_one(self, left: float) -> None:
        if left < 1:
            wait = int((1 - left) * MINUTE / self._limit * 1000) + 1
            raise RateLimited(what=self._what, limit=self._limit, retry_after_ms=wait)


class Failures:
    """Counts failed authentications, by the address of the client and by the credentials that it showed.

    It is asked once credentials were looked at and did not hold, so whatever others send, it never stands in
    the way of those that do.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._addresses = Pace(per_minute, what=FAILURES, clock=clock)
        self._credentials = Pace(per_minute, what=FAILURES, clock=clock)

    def count(self, address: str, credentials: str | None) -> None:
        """Count one failure; a request without credentials is counted by its address alone.

        Raises:
            RateLimited: There were too many of late.
        """
        if credentials is not None:
            self._credentials.take(credentials)
        self._addresses.take(address)
