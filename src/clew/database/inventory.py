"""All that a store holds, across tenants: for backups, checks and other work of operators."""

from collections.abc import AsyncIterator

from clew.core.log.rows import AskTenants, AskThreads, ThreadRow, UnreadableThread, ask
from clew.core.ports import Reader
from clew.core.values import Scope

THREADS_PER_PAGE = 1000


async def list_tenants(reader: Reader) -> list[str]:
    """The tenants that have anything in a store.

    Raises:
        Forbidden: The login of the store does not see every tenant.
    """
    return await reader.read(Scope(), ask(AskTenants()))


async def all_threads(reader: Reader, scope: Scope) -> AsyncIterator[ThreadRow | UnreadableThread]:
    """Every thread of a scope, memories too, the newest first, read page by page."""
    before: tuple[int, str] | None = None
    while rows := await reader.read(scope, ask(AskThreads(None, before, THREADS_PER_PAGE))):
        for row in rows:
            yield row
        before = (rows[-1].created, rows[-1].id)


async def list_threads(reader: Reader, scope: Scope) -> list[ThreadRow | UnreadableThread]:
    """Every thread of a scope, memories too, the newest first."""
    return [row async for row in all_threads(reader, scope)]
