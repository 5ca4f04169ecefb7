"""Waking those who wait for a thread in this process."""

import asyncio
from collections.abc import Iterable


class Wakes:
    """Futures of tasks that wait for a thread to change."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], set[asyncio.Future[None]]] = {}

    def wake(self, tenant: str, threads: Iterable[str]) -> None:
        """Wake all who wait for one of these threads."""
        for thread in threads:
            for waiter in self._waiting.pop((tenant, thread), ()):
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self, tenant: str, thread: str, timeout: float) -> None:
        """Return when woken, or when the time is over."""
        waiter = asyncio.get_running_loop().create_future()
        waiters = self._waiting.setdefault((tenant, thread), set())
        waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout)
        finally:
            waiters.discard(waiter)
            if not waiters and self._waiting.get((tenant, thread)) is waiters:
                del self._waiting[tenant, thread]
