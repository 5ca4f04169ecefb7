"""Limits: streams, turns and requests of a user and of a process, and failed authentications."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clew.core.errors import RateLimited

MINUTE = 60.0
MOST_NAMES = 10_000
"""How many users' requests are counted at once; of more, the longest quiet are forgotten."""
FAILURES = "failed authentications in a minute"


class ConcurrencyLimit:
    """A limit on how many are inside at once, for each name by itself; ``on_change`` gets their number."""

    def __init__(
        self,
        what: str,
        limit: int,
        *,
        retry_after_ms: int = 1_000,
        error: type[RateLimited] = RateLimited,
        on_change: Callable[[int], None] = lambda in_use: None,
    ) -> None:
        self._on_change = on_change
        self._what = what
        self._limit = limit
        self._retry_after_ms = retry_after_ms
        self._error = error
        self._counts: Counter[str] = Counter()

    @property
    def in_use(self) -> int:
        """The number of those inside, of all names together."""
        return self._counts.total()

    def check(self, name: str = "") -> None:
        """Check that there is room.

        Raises:
            RateLimited: There is none.
        """
        if self._counts[name] >= self._limit:
            raise self._error(what=self._what, limit=self._limit, retry_after_ms=self._retry_after_ms)

    @contextmanager
    def enter(self, name: str = "") -> Iterator[None]:
        """Hold one of the places.

        Raises:
            RateLimited: There is no room.
        """
        self.check(name)
        self._counts[name] += 1
        self._on_change(self.in_use)
        try:
            yield
        finally:
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]
            self._on_change(self.in_use)


class RateLimit:
    """A limit on requests in a minute for each name, refilled evenly."""

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
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Take one request.

        Raises:
            RateLimited: There were too many of late.
        """
        tokens, now = self._tokens_now(name)
        self._tokens.pop(name, None)
        self._tokens[name] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._tokens) > MOST_NAMES:
            self._tokens.popitem(last=False)
        self._check_tokens(tokens)

    def check(self, name: str) -> None:
        """Check that there is a request left, and take none.

        Raises:
            RateLimited: There were too many of late.
        """
        self._check_tokens(self._tokens_now(name)[0])

    def _tokens_now(self, name: str) -> tuple[float, float]:
        now = self._clock()
        tokens, before = self._tokens.get(name, (float(self._limit), now))
        return min(self._limit, tokens + (now - before) * self._limit / MINUTE), now

    def _check_tokens(self, tokens: float) -> None:
        if tokens < 1:
            wait = int((1 - tokens) * MINUTE / self._limit * 1000) + 1
            raise RateLimited(what=self._what, limit=self._limit, retry_after_ms=wait)


class FailureLimit:
    """Counts failed authentications, by the address of the client and by the credentials that it showed.

    It counts after credentials were checked and found invalid. So whatever others send, it never stands in
    the way of valid ones.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._addresses = RateLimit(per_minute, what=FAILURES, clock=clock)
        self._credentials = RateLimit(per_minute, what=FAILURES, clock=clock)

    def count(self, address: str, credentials: str | None) -> None:
        """Count one failure; a request without credentials is counted by its address alone.

        Raises:
            RateLimited: There were too many of late.
        """
        if credentials is not None:
            self._credentials.take(credentials)
        self._addresses.take(address)
