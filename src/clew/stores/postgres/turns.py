"""Taking turns: tasks of one process that write to one thread go one after another."""

import asyncio
from collections.abc import Iterable


class Turns:
    """Locks by tenant and thread, there only while somebody holds them.

    Without them n tasks that append to one thread would plan on the same head: one wins, n - 1 plan again,
    and so on. They only save work; what keeps writers apart is the check in the database.
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], list[asyncio.Future[None]]] = {}

    async def take(self, tenant: str, threads: Iterable[str]) -> bool:
        """Hold some threads until they are given back; whether somebody else had to be waited for."""
        held: list[str] = []
        waited = False
        try:
            for thread in sorted(threads):
                waited = await self._take((tenant, thread)) or waited
                held.append(thread)
        except asyncio.CancelledError:
            self.give(tenant, held)
            raise
        return waited

    def give(self, tenant: str, threads: Iterable[str]) -> None:
        """Pass threads on to the next in line, or let them go."""
        for thread in threads:
            self._give((tenant, thread))

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
            if not waiter.cancelled():
                self._give(key)  # it was our turn just as we were cancelled
            elif waiter in queue:
                queue.remove(waiter)
            raise
        return True

    def _give(self, key: tuple[str, str]) -> None:
        queue = self._queues[key]
        while queue:
            waiter = queue.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return
        del self._queues[key]
