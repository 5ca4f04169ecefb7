"""The crisis log over HTTP, for operators; each look at it is in the audit."""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from litestar.params import FromQuery, JSONBody, QueryParameter
from litestar.response import Stream

from clew.core.encoding import as_json, encode
from clew.core.erasure.receipts import RETAINED_KIND
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.server.http import audit
from clew.server.http.callers import CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit
from clew_companion.api import (
    EXPORT_CRISES,
    EXTEND_CRISES,
    LIST_CRISES,
    PURGE_CRISES,
    CrisisPage,
    CrisisView,
    NewCrisisExtension,
    NewCrisisPurge,
    RowCount,
)
from clew_companion.crisis.log import (
    CRISIS_TAG,
    Crisis,
    count_expired,
    crises,
    crisis_of,
    extend_retention,
    purge_expired,
)

MOST_ROWS = 1_000
"""How many rows are read for one page, while those from some time on are looked for."""

Since = Annotated[int | None, QueryParameter(ge=0, le=1 << 53, description="Only rows from this time on.")]


@endpoint(LIST_CRISES)
async def list_crises(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    thread: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    since: Since = None,
) -> CrisisPage:
    """Rows of the crisis log, those first that are kept for longest. Role admin."""
    db = caller.tenant_database()
    await audit.record_action(
        db, caller.identity, LIST_CRISES.audit, owner=owner if thread is None else None, thread=thread
    )
    pages = caller.pages(cursor, tuple[int, str], "crises", thread, owner, since)
    tags = (CRISIS_TAG,) if thread is None else (CRISIS_TAG, f"thread:{thread}")
    query = RecordQuery(
        kind=RETAINED_KIND, tags=tags, owner=owner, newest=True, limit=limit, after=pages.start
    )
    rows, position = await _rows_since(db, query, since or 0)
    return CrisisPage(
        rows=[_crisis_view(row) for row in rows],
        next=pages.cursor(as_json(position)),
    )


async def _rows_since(
    db: Database, query: RecordQuery, since: int
) -> tuple[list[Crisis], tuple[int, str] | None]:
    """Rows from a time on, and where the next page begins; fewer if too many had to be looked at."""
    rows: list[Crisis] = []
    for _ in range(0, MOST_ROWS, query.limit):
        records = await db.records.find(query)
        for record in records:
            row, after = crisis_of(record), (record.sort, record.id)
            query = msgspec.structs.replace(query, after=after)
            if row.time >= since:
                rows.append(row)
            if len(rows) == query.limit:
                return rows, after
        if len(records) < query.limit:
            return rows, None
    return rows, query.after


def _crisis_view(row: Crisis) -> CrisisView:
    return CrisisView(**{name: getattr(row, name) for name in CrisisView.__struct_fields__})


@endpoint(EXPORT_CRISES)
async def export_crises(
    caller: CurrentCaller,
    thread: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    since: Since = None,
) -> Stream:
    """The crisis log as lines of JSON, in the order in which rows are purged. Role admin."""
    db = caller.tenant_database()
    await audit.record_action(
        db, caller.identity, EXPORT_CRISES.audit, owner=owner if thread is None else None, thread=thread
    )

    rows = crises(db, thread=thread, owner=owner, since=since)
    first_row = await anext(rows, None)  # a wrong argument is refused here; a stream could only break off

    async def lines() -> AsyncIterator[bytes]:
        if first_row is not None:
            yield encode(as_json(first_row)) + b"\n"
        async for row in rows:
            yield encode(as_json(row)) + b"\n"

    return Stream(lines(), media_type=EXPORT_CRISES.media_type)


@endpoint(EXTEND_CRISES)
async def extend_crises(data: JSONBody[NewCrisisExtension], caller: CurrentCaller) -> RowCount:
    """Keep rows of the crisis log for longer; none is kept for less. Role admin."""
    db = caller.tenant_database()
    await audit.record_action(
        db,
        caller.identity,
        EXTEND_CRISES.audit,
        owner=data.owner if data.thread is None else None,
        thread=data.thread,
        facts={"until": data.until, "ids": len(data.ids)},
    )
    count = await extend_retention(
        db, until=data.until, now=db.store.now(), ids=data.ids, thread=data.thread, owner=data.owner
    )
    return RowCount(rows=count)


@endpoint(PURGE_CRISES)
async def purge_crises(data: JSONBody[NewCrisisPurge], caller: CurrentCaller) -> RowCount:
    """Delete the rows of the crisis log whose date has come. Role admin."""
    db = caller.tenant_database()
    if data.dry_run:
        return RowCount(rows=await count_expired(db, now=db.store.now()))
    await audit.record_action(db, caller.identity, PURGE_CRISES.audit)
    return RowCount(rows=await purge_expired(db, now=db.store.now()))


CRISIS_ROUTES = [list_crises, export_crises, extend_crises, purge_crises]
