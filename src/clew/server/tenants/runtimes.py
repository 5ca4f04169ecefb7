"""One runtime for each tenant that is served here, opened when it is first asked for."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

from clew.core.errors import ClewError, StoreClosed
from clew.database.database import Database
from clew.runtime.runtime import Runtime
from clew.server.tenants.incognito import Guests

log = logging.getLogger("clew.server")
LOOK_AGAIN = 0.02
SWEEP_TIME = 1.0
"""How long a runtime that was opened to be swept stays open at least."""

MakeRuntime: TypeAlias = Callable[[Database], Runtime[Any, Any]]
"""Makes the runtime of one tenant: which schema, stages, tools and model it has is the application's."""

Known: TypeAlias = Callable[[], Awaitable[list[str]]]
"""Every tenant whose threads must be tended, also those that nobody asks about here."""


class _Open:
    """A runtime in use by so many."""

    def __init__(self, runtime: Runtime[Any, Any]) -> None:
        self.runtime = runtime
        self.users = 0

    @property
    def is_idle(self) -> bool:
        return self.users == 0 and self.runtime.is_idle


class Runtimes:
    """The runtimes of a process. Beyond ``limit`` the longest unused one that is idle is closed."""

    def __init__(self, db: Database, make: MakeRuntime, *, limit: int, guests: int = 1_000) -> None:
        self.guests = Guests(make, limit=guests)
        self._db = db
        self._make = make
        self._limit = limit
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._closed = False

    @property
    def tenants(self) -> list[str]:
        """Those that have a runtime here now."""
        return list(self._open)

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[Runtime[Any, Any]]:
        """The runtime of a tenant, kept open for as long as this is.

        Raises:
            StoreClosed: The server is closing.
        """
        if self._closed:
            raise StoreClosed
        found = self._open.get(tenant)
        is_new = found is None
        if found is None:
            found = self._open[tenant] = _Open(self._make(self._db.scope(tenant=tenant)))
        self._open.move_to_end(tenant)
        found.users += 1
        try:
            if is_new:
                await found.runtime.__aenter__()
            yield found.runtime
        finally:
            found.users -= 1
            await self._shrink()

    async def _shrink(self) -> None:
        # Who is idle is looked at anew each time: while one closes, others are asked for, or close it too.
        while len(self._open) > self._limit:
            idle = next((tenant for tenant, each in self._open.items() if each.is_idle), None)
            if idle is None:
                return
            await self._open.pop(idle).runtime.close()

    async def tend(self, known: Known, *, seconds: float) -> None:
        """See to it, again and again, that every known tenant is swept here now and then.

        A runtime sweeps when it is opened, and then by itself for as long as it stays open.
        """
        while not self._closed:
            tenants: list[str] = []
            with self._told(seconds):
                await self.guests.drop_idle()
                tenants = await known()
            for tenant in tenants:
                with self._told(seconds):  # what one of them meets keeps no other waiting
                    is_new = tenant not in self._open
                    async with self.of(tenant):
                        await asyncio.sleep(SWEEP_TIME if is_new else 0)
            await asyncio.sleep(seconds)

    @contextmanager
    def _told(self, seconds: float) -> Iterator[None]:
        """Go on after an error, which is told: the next look around comes."""
        try:
            yield
        except ClewError as error:
            log.warning("The tenants are looked after again in %s s: %s", seconds, error)

    async def close(self, *, drain_seconds: float) -> None:
        """Let the turns at work end, for so long; then close every runtime."""
        self._closed = True
        try:
            async with asyncio.timeout(drain_seconds):
                while not all(each.runtime.is_idle for each in self._open.values()):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_AGAIN)  # turns tell nobody of their end
        except TimeoutError:
            log.warning("Turns were still at work after %s s; they are cut off.", drain_seconds)
        await self.guests.close()
        while self._open:
            _, each = self._open.popitem()
            await each.runtime.close()
