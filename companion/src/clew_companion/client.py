"""The companion's calls of the HTTP API, on the clients of the library: the crisis log."""

from clew.client import AsyncClient, Client
from clew.client.call import ApiCall, AsyncSender, BlockingSender, CallMethod, api_call
from clew_companion.api import CrisisPage, NewCrisisExtension, NewCrisisPurge, RowCount


def crises(
    *,
    thread: str | None = None,
    owner: str | None = None,
    since: int | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> ApiCall[CrisisPage]:
    """Rows of the crisis log."""
    return api_call(
        "GET",
        "/crises",
        CrisisPage,
        thread=thread,
        owner=owner,
        since=since,
        limit=limit,
        cursor=cursor,
    )


def export_crises(
    *, thread: str | None = None, owner: str | None = None, since: int | None = None
) -> ApiCall[bytes]:
    """The crisis log as lines of JSON."""
    return api_call("GET", "/crises/export", bytes, thread=thread, owner=owner, since=since)


def extend_crises(
    until: int,
    *,
    ids: list[str] | None = None,
    thread: str | None = None,
    owner: str | None = None,
    key: str | None = None,
) -> ApiCall[RowCount]:
    """Keep rows of the crisis log for longer."""
    body = NewCrisisExtension(until=until, ids=ids or [], thread=thread, owner=owner)
    return api_call("POST", "/crises/extend", RowCount, body=body, key=key)


def purge_crises(*, dry_run: bool = False, key: str | None = None) -> ApiCall[RowCount]:
    """Delete the rows of the crisis log whose date has come."""
    body = NewCrisisPurge(dry_run=dry_run)
    return api_call("POST", "/crises/purge", RowCount, body=body, key=key)


class CrisisMethods:
    """The calls about the crisis log, for either client."""

    crises = CallMethod(crises)
    export_crises = CallMethod(export_crises)
    extend_crises = CallMethod(extend_crises)
    purge_crises = CallMethod(purge_crises)


class AsyncCrisisClient(AsyncSender, CrisisMethods):
    """The crisis log of a server, awaited: ``AsyncCrisisClient(client).crises()``."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(client.send)


class CrisisClient(BlockingSender, CrisisMethods):
    """The crisis log of a server, blocking: ``CrisisClient(client).crises()``."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.send)
