"""Appends on their way to the server: what waits at the same moment goes together, in one transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from clew.core.errors import OutcomeUnknown
from clew.core.log.rows import Advance
from clew.core.values import Scope

MOST_TOGETHER = 32
MOST_BYTES = 1 << 20

Send: TypeAlias = Callable[[Scope, Sequence[Advance]], Awaitable[list[bool]]]
_Seat: TypeAlias = tuple[Advance, asyncio.Future[bool]]


class Flights:
    """A few flights at a time. One that finds a free one leaves at once; the others wait for the next.

    Those who fly together share tenant and user. Each is told whether its thread was where it should be; if
    the transaction fails for another reason, they go again one by one, so that none suffers for another. If
    nobody knows whether it failed, all are told so: sent again, what was appended would be appended twice.
    """

    def __init__(self, send: Send, most: int) -> None:
        self._send = send
        self._most = most
        self._flying = 0
        self._waiting: dict[tuple[str, str | None], list[_Seat]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(self, scope: Scope, step: Advance) -> bool:
        """Whether the changeset was appended; if not, the thread has moved on, or the key was used."""
        if self._flying < self._most:
            self._flying += 1
            try:
                return (await self._send(scope, [step]))[0]
            finally:
                self._land()
        seat: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((scope.tenant, scope.user), []).append((step, seat))
        return await seat

    async def landed(self) -> None:
        """Wait for flights whose passengers were all cancelled."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _land(self) -> None:
        """Make room, and let those who wait take off."""
        self._flying -= 1
        while self._waiting and self._flying < self._most:
            (tenant, user), queue = next(iter(self._waiting.items()))
            del self._waiting[tenant, user]
            seats, left = _boarded(queue)
            if left:
                self._waiting[tenant, user] = left
            if seats:
                self._flying += 1
                task = asyncio.create_task(self._fly(Scope(tenant=tenant, user=user), seats))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _fly(self, scope: Scope, seats: list[_Seat]) -> None:
        try:
            done = await self._send(scope, [step for step, _ in seats])
        except asyncio.CancelledError:
            for _, seat in seats:
                seat.cancel()
            raise
        except OutcomeUnknown as error:
            for _, seat in seats:
                _tell(seat, OutcomeUnknown(problem=error.problem))
        except Exception as error:  # noqa: BLE001 - it is passed on to those who wait
            await self._fly_alone(scope, seats, error)
        else:
            for (_, seat), appended in zip(seats, done, strict=True):
                if not seat.done():
                    seat.set_result(appended)
        finally:
            self._land()

    async def _fly_alone(self, scope: Scope, seats: list[_Seat], error: Exception) -> None:
        """After a failure of several, one by one; after that of one, it is told."""
        if len(seats) == 1:
            _tell(seats[0][1], error)
            return
        for seat in seats:
            if not seat[1].done():
                self._flying += 1
                await self._fly(scope, [seat])


def _tell(seat: asyncio.Future[bool], error: Exception) -> None:
    if not seat.done():
        seat.set_exception(error)


def _boarded(queue: list[_Seat]) -> tuple[list[_Seat], list[_Seat]]:
    """Who flies next, in order of their threads' keys, and who is left."""
    seats: list[_Seat] = []
    size = 0
    left = iter(queue)
    while len(seats) < MOST_TOGETHER and size < MOST_BYTES:
        step, seat = next(left, (None, None))
        if step is None or seat is None:
            break
        if not seat.done():
            seats.append((step, seat))
            size += sum(len(item.body or b"") for item in step.items)
    return sorted(seats, key=lambda taken: taken[0].before.key.int), list(left)


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
