"""Waking of tasks that wait for a thread: at once for a commit of this process, by polling for others'.

One poll serves all waiters. It reads a token first, and asks for threads only if that has changed.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeAlias

from clew.core.errors import ClewError
from clew.core.values import Scope

THREADS_PER_POLL = 256
"""Threads asked for in one poll; the others have their turn in the next."""

Waiter: TypeAlias = "asyncio.Future[None]"


class ScopedThread(NamedTuple):
    """A thread, and on whose behalf it is asked for."""

    scope: Scope
    thread: str


class ChangeSource(Protocol):
    """The commits of other processes, as a store can see them."""

    async def change_token(self) -> object:
        """A value that differs from the one before once another process has committed."""
        ...

    async def versions(self, threads: Sequence[ScopedThread]) -> Sequence[int | None]:
        """The versions of some threads; None for one that is not there."""
        ...


class ChangeWaiters:
    """Futures of tasks that wait for a thread to change."""

    def __init__(self, source: ChangeSource | None = None, *, seconds: float = 0.0) -> None:
        self._source = source
        self._seconds = seconds
        self._thread_waiters: dict[tuple[str, str], dict[Waiter, tuple[Scope, int]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._poll_task: asyncio.Task[None] | None = None
        self._last_token: object = None
        self._is_stale = False
        self._unchecked_keys: deque[tuple[str, str]] = deque()
        self._change_count = 0
        self._any_waiters: set[Waiter] = set()

    def wake(self, tenant: str, threads: Iterable[str]) -> None:
        """Wake the tasks that wait for one of these threads, or for any."""
        for thread in threads:
            for waiter in self._thread_waiters.pop((tenant, thread), ()):
                if not waiter.done():
                    waiter.set_result(None)
            self._announce_change()

    def wake_all(self) -> None:
        """Wake every task, to read for itself what there is."""
        for tenant, thread in list(self._thread_waiters):
            self.wake(tenant, [thread])
        self._announce_change()

    @contextmanager
    def waiter_for(self, scope: Scope, thread: str, after: int) -> Iterator[Waiter]:
        """A future that is done once a thread is past a version.

        Read the version inside the context: a commit in between wakes the future.
        """
        key = (scope.tenant, thread)
        waiter: Waiter = asyncio.get_running_loop().create_future()
        waiters = self._thread_waiters.setdefault(key, {})
        waiters[waiter] = (scope, after)
        self._schedule_poll()
        try:
            yield waiter
        finally:
            waiters.pop(waiter, None)
            if not waiters and self._thread_waiters.get(key) is waiters:
                del self._thread_waiters[key]

    async def wait_for_any_change(self, after: int, timeout: float) -> int:
        """The number of commits seen, once that is no longer what it was, or the time is over."""
        if self._change_count == after:
            waiter: Waiter = asyncio.get_running_loop().create_future()
            self._any_waiters.add(waiter)
            self._schedule_poll()
            try:
                await asyncio.wait([waiter], timeout=timeout)
            finally:
                self._any_waiters.discard(waiter)
        return self._change_count

    def _announce_change(self) -> None:
        self._change_count += 1
        while self._any_waiters:
            waiter = self._any_waiters.pop()
            if not waiter.done():
                waiter.set_result(None)

    # Polling.

    def _schedule_poll(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # a poll that was begun on another loop never ends there
            self._loop, self._timer, self._poll_task = loop, None, None
        if (
            self._source is not None
            and self._timer is None
            and self._poll_task is None
            and self._has_waiters()
        ):
            self._timer = loop.call_later(self._seconds, self._start_poll, self._source)

    def _has_waiters(self) -> bool:
        return bool(self._thread_waiters or self._any_waiters)

    def _start_poll(self, source: ChangeSource) -> None:
        self._timer = None
        if self._has_waiters():
            self._poll_task = asyncio.ensure_future(self._poll(source))
            self._poll_task.add_done_callback(self._on_poll_done)

    def _on_poll_done(self, task: "asyncio.Task[None]") -> None:
        self._poll_task = None
        if not task.cancelled():
            self._schedule_poll()

    async def _poll(self, source: ChangeSource) -> None:
        """Poll once. After an error every waiter is woken, and meets the error when it reads."""
        try:
            token = await source.change_token()
            if token != self._last_token:
                self._is_stale = True
                self._announce_change()
            self._last_token = token
            if self._is_stale and not self._unchecked_keys:
                self._unchecked_keys.extend(self._thread_waiters)
                self._is_stale = False
            if threads := self._next_threads():
                self._wake_changed(dict(zip(threads, await source.versions(threads), strict=True)))
        except ClewError:
            self._unchecked_keys.clear()
            self.wake_all()

    def _next_threads(self) -> list[ScopedThread]:
        threads: dict[ScopedThread, None] = {}
        while self._unchecked_keys and len(threads) < THREADS_PER_POLL:
            key = self._unchecked_keys.popleft()
            for scope, _ in self._thread_waiters.get(key, {}).values():
                threads[ScopedThread(scope, key[1])] = None
        return list(threads)

    def _wake_changed(self, versions: dict[ScopedThread, int | None]) -> None:
        for scope, thread in versions:
            for waiter, (waiter_scope, after) in list(
                self._thread_waiters.get((scope.tenant, thread), {}).items()
            ):
                version = versions.get(ScopedThread(waiter_scope, thread), after)
                if (version is None or version > after) and not waiter.done():
                    waiter.set_result(None)
