"""The server's clock, which all processes of a database share, whatever their own machines' clocks say."""

import time
from collections.abc import Awaitable, Callable

from clew.core.clock import now_ms

ASK_AGAIN_SECONDS = 60.0
"""After so long the server is asked again: two counts of seconds drift apart, and servers are replaced."""
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that is never set. On Linux it counts on while the machine sleeps."""


class ServerClock:
    """The server's time: asked for now and then, and counted on from there.

    ``ask`` gives the server's time in milliseconds. Until it was asked for once, this machine's clock serves.
    """

    def __init__(self, ask: Callable[[], Awaitable[int]]) -> None:
        self._ask = ask
        self._ahead: float | None = None
        self._asked_at = 0.0

    def __call__(self) -> int:
        """The time, in milliseconds since 1970."""
        return now_ms() if self._ahead is None else int(_steady_ms() + self._ahead)

    async def refresh(self) -> None:
        """Ask the server, if that was long ago or never."""
        before = _steady_ms()
        if self._ahead is not None:
            if before - self._asked_at < ASK_AGAIN_SECONDS * 1000:
                return
            self._asked_at = before  # one asks; the others go on with what is known
        server = await self._ask()
        after = _steady_ms()
        self._ahead, self._asked_at = server - (before + after) / 2, after


def _steady_ms() -> float:
    return time.clock_gettime(_STEADY) * 1000
