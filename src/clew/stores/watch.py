"""Waking those who wait for a thread: at once for a commit of this process, by looking around for others'.

However many wait, one look serves them all, and as long as nobody commits it asks for no thread at all.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeAlias

from clew.core.errors import ClewError
from clew.core.values import Scope

AT_ONCE = 256
"""How many threads are asked for in one look; the others have their turn in the next."""

Woken: TypeAlias = "asyncio.Future[None]"


class Asked(NamedTuple):
    """A thread, and on whose behalf it is asked for."""

    scope: Scope
    thread: str


class Lookout(Protocol):
    """What a store can see of the commits of other processes."""

    async def sign(self) -> object:
        """Something that differs from what it was before, once anybody has committed."""
        ...

    async def versions(self, asked: Sequence[Asked]) -> Sequence[int | None]:
        """At which version each of some threads is; None for one that is not there."""
        ...


class Wakes:
    """Futures of tasks that wait for a thread to change."""

    def __init__(self, lookout: Lookout | None = None, *, seconds: float = 0.0) -> None:
        self._lookout = lookout
        self._seconds = seconds
        self._waiting: dict[tuple[str, str], dict[Woken, tuple[Scope, int]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._seen: object = None
        self._is_stale = False
        self._unseen: deque[tuple[str, str]] = deque()
        self._stirs = 0
        self._listening: set[Woken] = set()

    def wake(self, tenant: str, threads: Iterable[str]) -> None:
        """Wake all who wait for one of these threads, or for any."""
        for thread in threads:
            for woken in self._waiting.pop((tenant, thread), ()):
                if not woken.done():
                    woken.set_result(None)
            self._stir()

    def wake_all(self) -> None:
        """Wake everybody, to find out for themselves what there is."""
        for tenant, thread in list(self._waiting):
            self.wake(tenant, [thread])
        self._stir()

    @contextmanager
    def waiting(self, scope: Scope, thread: str, after: int) -> Iterator[Woken]:
        """What is done once a thread is past a version. Only then look whether it is already."""
        key = (scope.tenant, thread)
        woken: Woken = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(key, {})
        waiting[woken] = (scope, after)
        self._look_later()
        try:
            yield woken
        finally:
            waiting.pop(woken, None)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]

    async def stirred(self, after: int, timeout: float) -> int:
        """How often anybody was seen to commit, once that is no longer what it was, or the time is over."""
        if self._stirs == after:
            woken: Woken = asyncio.get_running_loop().create_future()
            self._listening.add(woken)
            self._look_later()
            try:
                await asyncio.wait([woken], timeout=timeout)
            finally:
                self._listening.discard(woken)
        return self._stirs

    def _stir(self) -> None:
        self._stirs += 1
        while self._listening:
            woken = self._listening.pop()
            if not woken.done():
                woken.set_result(None)

    # Looking around.

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what was begun on another one is never brought to its end there
            self._loop, self._timer, self._looking = loop, None, None
        if self._lookout is not None and self._timer is None and self._looking is None and self._is_awaited():
            self._timer = loop.call_later(self._seconds, self._look_now, self._lookout)

    def _is_awaited(self) -> bool:
        return bool(self._waiting or self._listening)

    def _look_now(self, lookout: Lookout) -> None:
        self._timer = None
        if self._is_awaited():
            self._looking = asyncio.ensure_future(self._look(lookout))
            self._looking.add_done_callback(self._looked)

    def _looked(self, task: "asyncio.Task[None]") -> None:
        self._looking = None
        if not task.cancelled():
            self._look_later()

    async def _look(self, lookout: Lookout) -> None:
        """Look around once. Whoever waits meets an error by itself, when it reads."""
        try:
            sign = await lookout.sign()
            if sign != self._seen:
                self._is_stale = True
                self._stir()
            self._seen = sign
            if self._is_stale and not self._unseen:
                self._unseen.extend(self._waiting)
                self._is_stale = False
            if asked := self._next():
                self._compare(dict(zip(asked, await lookout.versions(asked), strict=True)))
        except ClewError:
            self._unseen.clear()
            self.wake_all()

    def _next(self) -> list[Asked]:
        found: dict[Asked, None] = {}
        while self._unseen and len(found) < AT_ONCE:
            key = self._unseen.popleft()
            for scope, _ in self._waiting.get(key, {}).values():
                found[Asked(scope, key[1])] = None
        return list(found)

    def _compare(self, versions: dict[Asked, int | None]) -> None:
        for scope, thread in versions:
            for woken, (whose, after) in list(self._waiting.get((scope.tenant, thread), {}).items()):
                version = versions.get(Asked(whose, thread), after)
                if (version is None or version > after) and not woken.done():
                    woken.set_result(None)
