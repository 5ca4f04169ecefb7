"""One runtime for each tenant that is served here, opened with its first request."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

from clew.core.errors import ClewError, StoreClosed
from clew.database.database import Database
from clew.runtime.runtime import Runtime
from clew.server.tenants.incognito import IncognitoThreads

log = logging.getLogger("clew.server")
POLL_SECONDS = 0.02
SWEEP_SECONDS = 1.0
"""How long a runtime that was opened to be swept stays open at least."""

MakeRuntime: TypeAlias = Callable[[Database], Runtime[Any, Any]]
"""Makes the runtime of one tenant: which schema, stages, tools and model it has is the application's."""

ListTenants: TypeAlias = Callable[[], Awaitable[list[str]]]
"""Every tenant whose threads must be tended, also those that nobody asks about here."""


def ignore_count(count: int) -> None:
    """Ignore the number of runtimes."""


class _OpenRuntime:
    """A runtime in use by so many."""

    def __init__(self, runtime: Runtime[Any, Any]) -> None:
        self.runtime = runtime
        self.use_count = 0

    @property
    def is_idle(self) -> bool:
        return self.use_count == 0 and self.runtime.is_idle


class TenantRuntimes:
    """The runtimes of a process. Beyond ``limit`` the longest unused one that is idle is closed.

    ``on_change`` gets their number.
    """

    def __init__(
        self,
        db: Database,
        make_runtime: MakeRuntime,
        *,
        limit: int,
        incognito_limit: int = 1_000,
        on_change: Callable[[int], None] = ignore_count,
    ) -> None:
        self._on_change = on_change
        self.incognito = IncognitoThreads(make_runtime, limit=incognito_limit)
        self._db = db
        self._make_runtime = make_runtime
        self._limit = limit
        self._runtimes: OrderedDict[str, _OpenRuntime] = OrderedDict()
        self._is_closed = False

    @property
    def tenants(self) -> list[str]:
        """The tenants that have a runtime here now."""
        return list(self._runtimes)

    @asynccontextmanager
    async def runtime_for(self, tenant: str) -> AsyncIterator[Runtime[Any, Any]]:
        """Hold the runtime of a tenant open.

        Raises:
            StoreClosed: The server is closing.
        """
        if self._is_closed:
            raise StoreClosed
        entry = self._runtimes.get(tenant)
        is_new = entry is None
        if entry is None:
            entry = self._runtimes[tenant] = _OpenRuntime(self._make_runtime(self._db.scope(tenant=tenant)))
            self._on_change(len(self._runtimes))
        self._runtimes.move_to_end(tenant)
        entry.use_count += 1
        try:
            if is_new:
                await entry.runtime.__aenter__()
            yield entry.runtime
        finally:
            entry.use_count -= 1
            await self._close_idle()

    async def _close_idle(self) -> None:
        # The idle one is looked up anew each time: while one closes, others are opened, or closed elsewhere.
        while len(self._runtimes) > self._limit:
            idle_tenant = next((tenant for tenant, each in self._runtimes.items() if each.is_idle), None)
            if idle_tenant is None:
                return
            idle_entry = self._runtimes.pop(idle_tenant)
            self._on_change(len(self._runtimes))
            await idle_entry.runtime.close()

    async def tend_tenants(self, list_tenants: ListTenants, *, seconds: float) -> None:
        """Keep every known tenant swept, until the server closes.

        A runtime sweeps when it is opened, and then by itself for as long as it stays open.
        """
        while not self._is_closed:
            tenants: list[str] = []
            with self._log_errors(seconds):
                await self.incognito.drop_idle()
                tenants = await list_tenants()
            for tenant in tenants:
                with self._log_errors(seconds):  # an error of one tenant must not keep the others waiting
                    is_new = tenant not in self._runtimes
                    async with self.runtime_for(tenant):
                        await asyncio.sleep(SWEEP_SECONDS if is_new else 0)
            await asyncio.sleep(seconds)

    @contextmanager
    def _log_errors(self, seconds: float) -> Iterator[None]:
        """Log an error and go on; the next round tries again."""
        try:
            yield
        except ClewError as error:
            log.warning("The tenants are looked after again in %s s: %s", seconds, error)

    async def close(self, *, drain_seconds: float) -> None:
        """Wait for the turns at work, for so long; then close every runtime."""
        self._is_closed = True
        try:
            async with asyncio.timeout(drain_seconds):
                while not all(each.runtime.is_idle for each in self._runtimes.values()):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)  # there is no event for the end of all turns
        except TimeoutError:
            log.warning("Turns were still at work after %s s; they are cut off.", drain_seconds)
        await self.incognito.close()
        while self._runtimes:
            _, each = self._runtimes.popitem()
            self._on_change(len(self._runtimes))
            await each.runtime.close()
