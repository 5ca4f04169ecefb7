"""Incognito threads: each identity has a runtime of its own, in memory, and reaches no other.

Inside it nobody is known by name. Threads of one id are told apart by the runtime that they are in, so an id
that another user has, incognito or not, is neither seen nor taken. A runtime is found by the scope of its
identity: a tenant, and a user or, for credentials that speak for all users, None.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from clew.core.errors import RateLimited
from clew.core.values import Scope
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.status import NONE
from clew.stores.memory import MemoryStore

IDLE_SECONDS = 60 * 60.0
"""How long an unused runtime is kept: longer than any of its sessions lasts untouched."""
RETRY_MS = 60_000


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
    """The incognito runtimes of this process."""

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
        self._runtimes: dict[Scope, _IncognitoRuntime] = {}

    def __len__(self) -> int:
        return len(self._runtimes)

    @asynccontextmanager
    async def runtime_for(
        self, scope: Scope, thread: str
    ) -> AsyncIterator[tuple[Runtime[Any, Any], Database]]:
        """Hold the runtime of an identity open for one of its threads; give it and its database.

        Raises:
            RateLimited: There are as many incognito users as there may be.
        """
        entry = self._runtimes.get(scope) or await self._open_runtime(scope)
        entry.threads.add(thread)
        entry.use_count += 1
        try:
            yield entry.runtime, entry.db
        finally:
            entry.use_count -= 1
            entry.last_used = self._clock()

    async def _open_runtime(self, scope: Scope) -> _IncognitoRuntime:
        if len(self._runtimes) >= self._limit:
            raise RateLimited(what="incognito users at once", limit=self._limit, retry_after_ms=RETRY_MS)
        db = Database(MemoryStore()).scope(tenant=scope.tenant)
        entry = self._runtimes[scope] = _IncognitoRuntime(db, self._make_runtime(db), self._clock())
        await entry.runtime.__aenter__()
        return entry

    async def has_thread(self, scope: Scope, thread: str) -> bool:
        """Return whether an identity has an incognito thread of this id."""
        entry = self._runtimes.get(scope)
        if entry is None or thread not in entry.threads:
            return False
        if entry.use_count > 0 or (await entry.runtime.session_status(thread)).status != NONE:
            return True
        entry.threads.discard(thread)  # its session expired, and nothing of it is left
        return False

    async def database_of(self, scope: Scope, thread: str | None) -> Database | None:
        """Return the database of an incognito thread; None if the identity has no such thread."""
        if thread is None or not await self.has_thread(scope, thread):
            return None
        return self._runtimes[scope].db

    async def readable_thread(self, scope: Scope, thread: str) -> Thread | None:
        """Return an incognito thread to read; None if the identity has no such thread."""
        return self._runtimes[scope].runtime.thread(thread) if await self.has_thread(scope, thread) else None

    async def thread_of_run(self, scope: Scope, run: str) -> str | None:
        """Return the incognito thread that a run works or waits on; None if there is none."""
        entry = self._runtimes.get(scope)
        for thread in list(entry.threads) if entry is not None else ():
            if entry is not None and (await entry.runtime.session_status(thread)).run == run:
                return thread
        return None

    async def drop_idle(self) -> None:
        """Close the runtimes that have not been used for long."""
        cutoff = self._clock() - IDLE_SECONDS
        for scope, entry in list(self._runtimes.items()):
            if entry.use_count == 0 and entry.last_used < cutoff and entry.runtime.is_idle:
                await self.forget_user(scope)

    async def forget_user(self, scope: Scope) -> None:
        """Close the runtime of an identity, and forget everything in it."""
        entry = self._runtimes.pop(scope, None)
        if entry is not None:
            await entry.close()

    async def close(self) -> None:
        """Close every runtime."""
        for scope in list(self._runtimes):
            await self.forget_user(scope)
