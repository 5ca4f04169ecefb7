"""The companion's calls of the HTTP API, on the clients of the library: the crisis log."""

from clew.client import AsyncClient, Client
from clew.client.call import ApiCall, AsyncSender, BlockingSender, CallMethod, api_call
from clew_companion.api import (
    EXPORT_CRISES,
    EXTEND_CRISES,
    LIST_CRISES,
    PURGE_CRISES,
    CrisisPage,
    NewCrisisExtension,
    NewCrisisPurge,
    RowCount,
)


class CrisisMethods:
    """Calls of the crisis log."""

    @CallMethod
    def crises(
        self,
        *,
        thread: str | None = None,
        owner: str | None = None,
        since: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ApiCall[CrisisPage]:
        """Rows of the crisis log."""
        return api_call(LIST_CRISES, thread=thread, owner=owner, since=since, limit=limit, cursor=cursor)

    @CallMethod
    def export_crises(
        self, *, thread: str | None = None, owner: str | None = None, since: int | None = None
    ) -> ApiCall[bytes]:
        """The crisis log as lines of JSON."""
        return api_call(EXPORT_CRISES, thread=thread, owner=owner, since=since)

    @CallMethod
    def extend_crises(
        self,
        until: int,
        *,
        ids: list[str] | None = None,
        thread: str | None = None,
        owner: str | None = None,
        key: str | None = None,
    ) -> ApiCall[RowCount]:
        """Keep rows of the crisis log for longer."""
        body = NewCrisisExtension(until=until, ids=ids or [], thread=thread, owner=owner)
        return api_call(EXTEND_CRISES, body=body, key=key)

    @CallMethod
    def purge_crises(self, *, dry_run: bool = False, key: str | None = None) -> ApiCall[RowCount]:
        """Delete the rows of the crisis log whose date has come."""
        return api_call(PURGE_CRISES, body=NewCrisisPurge(dry_run=dry_run), key=key)


class AsyncCrisisClient(AsyncSender, CrisisMethods):
    """The crisis log of a server, awaited: ``AsyncCrisisClient(client).crises()``."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(client.send)


class CrisisClient(BlockingSender, CrisisMethods):
    """The crisis log of a server, blocking: ``CrisisClient(client).crises()``."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.send)
