"""The database under a session: given open, or opened when it is first needed."""

import asyncio
from collections.abc import Awaitable
from typing import Annotated, TypeAlias
from weakref import WeakKeyDictionary

from clew.core.errors import InvalidArgument, StoreClosed
from clew.core.shapes import described
from clew.threads.database import Database


class Ground:
    """A database that was given and stays open, or one that is opened here and closed again.

    The SDK runs one session in several event loops, so what is awaited here belongs to one loop only.
    """

    def __init__(self, database: Database | Awaitable[Database]) -> None:
        self.closed = False
        self._given = isinstance(database, Database)
        self._database = database if isinstance(database, Database) else None
        self._opening = None if isinstance(database, Database) else database
        self._doors: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def database(self) -> Database:
        """The database, open.

        Raises:
            StoreClosed: The session was closed.
        """
        if self.closed:
            raise StoreClosed
        return self._database or await self._opened()

    async def close(self) -> None:
        """Close the database, if it was opened here."""
        if not self._given and self._database is not None:
            await self._database.close()

    async def _opened(self) -> Database:
        assert self._opening is not None
        async with self._doors.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._database is None:
                await self._keep(await self._opening)
        assert self._database is not None
        return self._database

    async def _keep(self, found: Database) -> None:
        """Keep a database, unless another event loop was quicker."""
        if self._database is None:
            self._database = found
        else:
            await found.close()


def check_database(database: object, what: str) -> None:
    """Refuse what is neither a database nor about to be one.

    Raises:
        InvalidArgument: It is something else, such as a URL.
    """
    if not isinstance(database, Database | Awaitable):
        raise InvalidArgument(
            problem=f"{what} must be a Database or clew.open(url), not {described(database)}."
        )


DatabaseOrOpening: TypeAlias = Annotated[Database | Awaitable[Database], check_database]
"""A database that is open, or one that is about to be opened."""
