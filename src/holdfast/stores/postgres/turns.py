"""Taking turns: tasks of one process that write to one thread go one after another."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager


class Turns:
    """Locks by tenant and thread, there only while somebody holds them.

    Without them n tasks that append to one thread would plan on the same head: one wins, n - 1 plan again,
    and so on. They only save work; what keeps writers apart is the check in the database.
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], list[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, tenant: str, threads: Iterable[str]) -> AsyncIterator[bool]:
        """Hold some threads, which were perhaps waited for (then true)."""
        keys = sorted((tenant, thread) for thread in threads)
        held: list[tuple[str, str]] = []
        waited = False
        try:
            for key in keys:
                waited = await self._take(key) or waited
                held.append(key)
            yield waited
        finally:
            for key in held:
                self._give(key)

    async def _take(self, key: tuple[str, str]) -> bool:
        queue = self._queues.get(key)
        if queue is None:
            self._queues[key] = []
            return False
        waiter = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._give(key)  # it was our turn just as we were cancelled
            else:
                queue.remove(waiter)
            raise
        return True

    def _give(self, key: tuple[str, str]) -> None:
        """Pass a thread on to the next in line, or let it go."""
        queue = self._queues[key]
        while queue:
            waiter = queue.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return
        del self._queues[key]
