"""Incognito at the edge: each identity has a runtime of its own, in memory, and reaches nobody else's.

Inside it nobody is known by name. Threads of one id are told apart by whose runtime they are in, so an id
that somebody else uses, incognito or not, is neither seen nor taken.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from clew.core.errors import RateLimited
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.status import NONE
from clew.stores.memory import MemoryStore

STAYS = 60 * 60.0
"""How long a runtime is kept that nobody has asked for: longer than any of its sessions lasts untouched."""
LATER_MS = 60_000

Guest: TypeAlias = tuple[str, str | None]
"""A tenant, and the user who is not to be known; None where the credentials speak for all users."""


class _Stay:
    """The runtime of one identity, and the threads that it has begun."""

    def __init__(self, db: Database, runtime: Runtime[Any, Any], now: float) -> None:
        self.db = db
        self.runtime = runtime
        self.threads: set[str] = set()
        self.users = 0
        self.touched = now

    async def close(self) -> None:
        await self.runtime.close()
        await self.db.store.close()


class Guests:
    """The runtimes of those who are incognito in this process."""

    def __init__(
        self,
        make: Callable[[Database], Runtime[Any, Any]],
        *,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._limit = limit
        self._clock = clock
        self._stays: dict[Guest, _Stay] = {}

    def __len__(self) -> int:
        return len(self._stays)

    @asynccontextmanager
    async def of(self, guest: Guest, thread: str) -> AsyncIterator[tuple[Runtime[Any, Any], Database]]:
        """The runtime of a guest for one of its threads, and the store that it is on.

        Raises:
            RateLimited: There are as many guests as there may be.
        """
        stay = self._stays.get(guest) or await self._entered(guest)
        stay.threads.add(thread)
        stay.users += 1
        try:
            yield stay.runtime, stay.db
        finally:
            stay.users -= 1
            stay.touched = self._clock()

    async def _entered(self, guest: Guest) -> _Stay:
        if len(self._stays) >= self._limit:
            raise RateLimited(what="incognito users at once", limit=self._limit, retry_after_ms=LATER_MS)
        db = Database(MemoryStore()).scope(tenant=guest[0])
        stay = self._stays[guest] = _Stay(db, self._make(db), self._clock())
        await stay.runtime.__aenter__()
        return stay

    async def holds(self, guest: Guest, thread: str) -> bool:
        """Whether a thread of this id is a guest's own and incognito."""
        stay = self._stays.get(guest)
        if stay is None or thread not in stay.threads:
            return False
        if stay.users > 0 or (await stay.runtime.session_status(thread)).status != NONE:
            return True
        stay.threads.discard(thread)  # it was left for too long
        return False

    async def store_of(self, guest: Guest, thread: str | None) -> Database | None:
        """Where all that goes with an incognito thread is kept; None if a guest has no such thread."""
        if thread is None or not await self.holds(guest, thread):
            return None
        return self._stays[guest].db

    async def reading(self, guest: Guest, thread: str) -> Thread | None:
        """A guest's incognito thread, to be read; None if there is no such thread."""
        return self._stays[guest].runtime.thread(thread) if await self.holds(guest, thread) else None

    async def thread_of(self, guest: Guest, run: str) -> str | None:
        """The incognito thread of a guest that a run is at work or waits on, if there is one."""
        stay = self._stays.get(guest)
        for thread in list(stay.threads) if stay is not None else ():
            if stay is not None and (await stay.runtime.session_status(thread)).run == run:
                return thread
        return None

    async def drop_idle(self) -> None:
        """Forget those who have been away for long."""
        before = self._clock() - STAYS
        for guest, stay in list(self._stays.items()):
            if stay.users == 0 and stay.touched < before and stay.runtime.is_idle:
                await self.forget(guest)

    async def forget(self, guest: Guest) -> None:
        """Forget a guest, with everything that was said."""
        stay = self._stays.pop(guest, None)
        if stay is not None:
            await stay.close()

    async def close(self) -> None:
        """Forget everybody."""
        for guest in list(self._stays):
            await self.forget(guest)
