"""All that a store holds, across tenants: for backups, checks and other work of operators."""

from collections.abc import Sequence

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


async def list_threads(reader: Reader, scope: Scope) -> list[ThreadRow | UnreadableThread]:
    """Every thread of a scope, memories too, the newest first."""
    rows: list[ThreadRow | UnreadableThread] = []
    page: Sequence[ThreadRow | UnreadableThread] = await reader.read(
        scope, ask(AskThreads(None, None, THREADS_PER_PAGE))
    )
    while page:
        rows += page
        before = (page[-1].created, page[-1].id)
        page = await reader.read(scope, ask(AskThreads(None, before, THREADS_PER_PAGE)))
    return rows
