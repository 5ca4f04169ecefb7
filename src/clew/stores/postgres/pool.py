"""The pool of our own: it knows when its server is away, and asks for it for as long as it is."""

from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from clew.stores.postgres.address import Address

AGAIN_SECONDS = 3.0
"""How long the pool tries by itself, with pauses twice as long each time; then it is told to begin anew."""
AWAY_SECONDS = 3.0
"""How long a call waits for a connection while the server is away."""
AT_ONCE = 0.01


class Pool(AsyncConnectionPool[AsyncConnection[Any]]):
    """Connections to one database.

    Left alone, a pool doubles its pauses for five minutes: a server that had been away for two was found
    again after two more, and whoever asked meanwhile waited for the whole timeout each time.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(
            address.conninfo,
            min_size=address.pool_min,
            max_size=address.pool_max,
            timeout=address.pool_timeout,
            reconnect_timeout=AGAIN_SECONDS,
            reconnect_failed=self._again,
            configure=self._found,
            open=False,
            name="clew",
            kwargs={"autocommit": True, "prepare_threshold": 0 if address.prepares else None},
        )
        self.is_away = False

    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:
        """A connection, waited for as long as the address says; while the server is away, not so long."""
        whole = self.timeout if timeout is None else timeout
        first = min(whole, AWAY_SECONDS)
        try:
            return await super().getconn(first)
        except PoolTimeout:
            if self.is_away or whole <= first:
                raise
        return await super().getconn(whole - first)

    async def _found(self, connection: AsyncConnection[Any]) -> None:
        self.is_away = False

    async def _again(self, pool: AsyncConnectionPool[Any]) -> None:
        """Have it try again from the beginning, which a pool does only if somebody asks for a connection."""
        self.is_away = True
        with suppress(PoolTimeout, PoolClosed):
            await self.putconn(await super().getconn(AT_ONCE))
