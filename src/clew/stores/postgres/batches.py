"""Appends on their way to the server: what waits at the same moment goes together, in one transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from clew.core.errors import OutcomeUnknown
from clew.core.log.rows import Advance
from clew.core.values import Scope

APPENDS_PER_BATCH = 32
MOST_BYTES = 1 << 20
"""Bytes of bodies after which a batch takes no more: a few large appends fill one as well."""

Send: TypeAlias = Callable[[Scope, Sequence[Advance]], Awaitable[list[bool]]]
_WaitingAppend: TypeAlias = tuple[Advance, asyncio.Future[bool]]


class Batches:
    """Appends in batches, a few at a time. One that finds room goes at once; the others wait together.

    Appends of one batch share tenant and user. Each returns whether its thread was where it should be. If
    the transaction fails for another reason, they go again one by one, so that none fails for another. If
    it is unknown whether it failed, all raise ``OutcomeUnknown``: sent again, they might be appended twice.
    """

    def __init__(self, send: Send, limit: int) -> None:
        self._send = send
        self._limit = limit
        self._running_count = 0
        self._waiting: dict[tuple[str, str | None], list[_WaitingAppend]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(self, scope: Scope, advance: Advance) -> bool:
        """Append a changeset; False if the thread has moved on, or the key was used."""
        if self._running_count < self._limit:
            self._running_count += 1
            try:
                return (await self._send(scope, [advance]))[0]
            finally:
                self._start_next()
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((scope.tenant, scope.user), []).append((advance, future))
        return await future

    async def wait_until_idle(self) -> None:
        """Wait for batches whose callers were all cancelled."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start_next(self) -> None:
        """Make room, and start batches of those that wait."""
        self._running_count -= 1
        while self._waiting and self._running_count < self._limit:
            (tenant, user), queue = next(iter(self._waiting.items()))
            # What is left of a scope goes to the end of the line, so that scopes take turns.
            del self._waiting[tenant, user]
            appends, rest = _next_batch(queue)
            if rest:
                self._waiting[tenant, user] = rest
            if appends:
                self._running_count += 1
                task = asyncio.create_task(self._run_batch(Scope(tenant=tenant, user=user), appends))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run_batch(self, scope: Scope, appends: list[_WaitingAppend]) -> None:
        try:
            results = await self._send(scope, [advance for advance, _ in appends])
        except asyncio.CancelledError:
            for _, future in appends:
                future.cancel()
            raise
        except OutcomeUnknown as error:
            for _, future in appends:
                _fail_append(future, OutcomeUnknown(problem=error.problem))
        except Exception as error:  # noqa: BLE001 - it is passed on to those who wait
            await self._run_one_by_one(scope, appends, error)
        else:
            for (_, future), is_appended in zip(appends, results, strict=True):
                if not future.done():
                    future.set_result(is_appended)
        finally:
            self._start_next()

    async def _run_one_by_one(self, scope: Scope, appends: list[_WaitingAppend], error: Exception) -> None:
        """Send the appends of a failed batch one by one; a batch of one raises its error."""
        if len(appends) == 1:
            _fail_append(appends[0][1], error)
            return
        for append in appends:
            if not append[1].done():
                # A batch of its own: _run_batch ends it with _start_next, which counts it off.
                self._running_count += 1
                await self._run_batch(scope, [append])


def _fail_append(future: asyncio.Future[bool], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _next_batch(queue: list[_WaitingAppend]) -> tuple[list[_WaitingAppend], list[_WaitingAppend]]:
    """The appends that go next, in order of their threads' keys, and those that are left."""
    appends: list[_WaitingAppend] = []
    size = 0
    rest = iter(queue)
    while len(appends) < APPENDS_PER_BATCH and size < MOST_BYTES:
        advance, future = next(rest, (None, None))
        # Those whose callers were cancelled are passed over: they were never sent.
        if advance is None or future is None:
            break
        if not future.done():
            appends.append((advance, future))
            size += sum(len(item.body or b"") for item in advance.items)
    # Two transactions that lock rows in the same order cannot wait for each other.
    return sorted(appends, key=lambda append: append[0].before.key.int), list(rest)


class ThreadLocks:
    """Locks by tenant and thread, there only while they are held.

    Without them n tasks that append to one thread would plan on the same head: one wins, n - 1 plan again,
    and so on. They only save work; what keeps writers apart is the check in the database.
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], list[asyncio.Future[None]]] = {}

    async def acquire(self, tenant: str, threads: Iterable[str]) -> bool:
        """Hold some threads until they are released; return whether it had to wait for another holder."""
        own_threads: list[str] = []
        has_waited = False
        try:
            # In one order for all, so that two tasks never wait for each other.
            for thread in sorted(threads):
                has_waited = await self._acquire((tenant, thread)) or has_waited
                own_threads.append(thread)
        except asyncio.CancelledError:
            self.release(tenant, own_threads)
            raise
        return has_waited

    def release(self, tenant: str, threads: Iterable[str]) -> None:
        """Pass threads on to the next in line, or let them go."""
        for thread in threads:
            self._release((tenant, thread))

    async def _acquire(self, key: tuple[str, str]) -> bool:
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
                self._release(key)  # it was our turn just as we were cancelled
            elif waiter in queue:
                queue.remove(waiter)
            raise
        return True

    def _release(self, key: tuple[str, str]) -> None:
        queue = self._queues[key]
        while queue:
            waiter = queue.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return
        del self._queues[key]
