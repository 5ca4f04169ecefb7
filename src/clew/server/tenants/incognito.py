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

IDLE_SECONDS = 60 * 60.0
"""How long a runtime is kept that nobody has asked for: longer than any of its sessions lasts untouched."""
RETRY_MS = 60_000

UserKey: TypeAlias = tuple[str, str | None]
"""A tenant, and the user who is not to be known; None where the credentials speak for all users."""


class _IncognitoRuntime:
    """The runtime of one identity, and the threads that it has begun."""

    def __init__(self, db: Database, runtime: Runtime[Any, Any], now: float) -> None:
        self.db = db
        self.runtime = runtime
        self.threads: set[str] = set()
        self.use_count = 0
        self.last_used = now

    async def close(self) -> None:
        await self.runtime.close()
        await self.db.store.close()


class IncognitoThreads:
    """The runtimes of those who are incognito in this process."""

    def __init__(
        self,
        make_runtime: Callable[[Database], Runtime[Any, Any]],
        *,
        limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make_runtime = make_runtime
        self._limit = limit
        self._clock = clock
        self._runtimes: dict[UserKey, _IncognitoRuntime] = {}

    def __len__(self) -> int:
        return len(self._runtimes)

    @asynccontextmanager
    async def runtime_for(
        self, user_key: UserKey, thread: str
    ) -> AsyncIterator[tuple[Runtime[Any, Any], Database]]:
        """The runtime of a guest for one of its threads, and the store that it is on.

        Raises:
            RateLimited: There are as many guests as there may be.
        """
        entry = self._runtimes.get(user_key) or await self._open_runtime(user_key)
        entry.threads.add(thread)
        entry.use_count += 1
        try:
            yield entry.runtime, entry.db
        finally:
            entry.use_count -= 1
            entry.last_used = self._clock()

    async def _open_runtime(self, user_key: UserKey) -> _IncognitoRuntime:
        if len(self._runtimes) >= self._limit:
            raise RateLimited(what="incognito users at once", limit=self._limit, retry_after_ms=RETRY_MS)
        db = Database(MemoryStore()).scope(tenant=user_key[0])
        entry = self._runtimes[user_key] = _IncognitoRuntime(db, self._make_runtime(db), self._clock())
        await entry.runtime.__aenter__()
        return entry

    async def has_thread(self, user_key: UserKey, thread: str) -> bool:
        """Whether a thread of this id is a guest's own and incognito."""
        entry = self._runtimes.get(user_key)
        if entry is None or thread not in entry.threads:
            return False
        if entry.use_count > 0 or (await entry.runtime.session_status(thread)).status != NONE:
            return True
        entry.threads.discard(thread)  # it was left for too long
        return False

    async def database_of(self, user_key: UserKey, thread: str | None) -> Database | None:
        """Where all that goes with an incognito thread is kept; None if a guest has no such thread."""
        if thread is None or not await self.has_thread(user_key, thread):
            return None
        return self._runtimes[user_key].db

    async def readable_thread(self, user_key: UserKey, thread: str) -> Thread | None:
        """A guest's incognito thread, to be read; None if there is no such thread."""
        return (
            self._runtimes[user_key].runtime.thread(thread)
            if await self.has_thread(user_key, thread)
            else None
        )

    async def thread_of_run(self, user_key: UserKey, run: str) -> str | None:
        """The incognito thread of a guest that a run is at work or waits on, if there is one."""
        entry = self._runtimes.get(user_key)
        for thread in list(entry.threads) if entry is not None else ():
            if entry is not None and (await entry.runtime.session_status(thread)).run == run:
                return thread
        return None

    async def drop_idle(self) -> None:
        """Forget those who have been away for long."""
        cutoff = self._clock() - IDLE_SECONDS
        for user_key, entry in list(self._runtimes.items()):
            if entry.use_count == 0 and entry.last_used < cutoff and entry.runtime.is_idle:
                await self.forget_user(user_key)

    async def forget_user(self, user_key: UserKey) -> None:
        """Forget a guest, with everything that was said."""
        entry = self._runtimes.pop(user_key, None)
        if entry is not None:
            await entry.close()

    async def close(self) -> None:
        """Forget everybody."""
        for user_key in list(self._runtimes):
            await self.forget_user(user_key)
