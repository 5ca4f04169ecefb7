"""The crisis log and the audit over HTTP, for operators; each look at the log is in the audit."""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from litestar import get, post
from litestar.params import FromQuery, JSONBody, QueryParameter
from litestar.response import Stream

from clew.api.operators import AuditPage, Counted, CrisisPage, CrisisView
from clew.api.requests import NewExtension, NewPurge
from clew.core.encoding import encode, plain
from clew.core.values import RecordQuery
from clew.database.audit import subject
from clew.database.database import Database
from clew.runtime.crises import CRISIS, Crisis, crises, crisis_of, due, extend, purge
from clew.server.http import audit
from clew.server.http.callers import ADMIN, AUDITOR, Calling
from clew.server.routes.threads import Cursor, Limit

LINES = "application/x-ndjson"
LOOKED_THROUGH = 1_000
"""How many rows are read for one page, while those from some time on are looked for."""

Since = Annotated[int | None, QueryParameter(ge=0, le=1 << 53, description="Only rows from this time on.")]


@get("/crises", operation_id="list_crises")
async def list_crises(
    caller: Calling,
    limit: Limit = 50,
    cursor: Cursor = None,
    thread: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    since: Since = None,
) -> CrisisPage:
    """Rows of the crisis log, those first that are kept for longest. Role admin."""
    db = caller.operating()
    await audit.note(
        db, caller.identity, "read crises", owner=owner if thread is None else None, thread=thread
    )
    list_of = f"crises\0{msgspec.json.encode([thread, owner, since]).decode()}"
    after = caller.position(cursor, tuple[int, str], list_of)
    tags = () if thread is None else (f"thread:{thread}",)
    query = RecordQuery(kind=CRISIS, tags=tags, owner=owner, newest=True, limit=limit, after=after)
    rows, stands = await _rows(db, query, since or 0)
    return CrisisPage(
        rows=[_view(row) for row in rows],
        next=caller.cursor(list(stands), list_of) if stands is not None else None,
    )


async def _rows(db: Database, query: RecordQuery, since: int) -> tuple[list[Crisis], tuple[int, str] | None]:
    """Rows from a time on, and where the next page begins; fewer if too many had to be looked at."""
    rows: list[Crisis] = []
    for _ in range(0, LOOKED_THROUGH, query.limit):
        found = await db.records.find(query)
        for record in found:
            row, after = crisis_of(record), (record.sort, record.id)
            query = msgspec.structs.replace(query, after=after)
            if row.time >= since:
                rows.append(row)
            if len(rows) == query.limit:
                return rows, after
        if len(found) < query.limit:
            return rows, None
    return rows, query.after


def _view(row: Crisis) -> CrisisView:
    return CrisisView(**{name: getattr(row, name) for name in CrisisView.__struct_fields__})


@get("/crises/export", operation_id="export_crises", media_type=LINES)
async def export_crises(
    caller: Calling,
    thread: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    since: Since = None,
) -> Stream:
    """The crisis log as lines of JSON, in the order in which rows are purged. Role admin."""
    db = caller.operating()
    await audit.note(
        db, caller.identity, "export crises", owner=owner if thread is None else None, thread=thread
    )

    async def lines() -> AsyncIterator[bytes]:
        async for row in crises(db, thread=thread, owner=owner, since=since):
            yield encode(plain(row)) + b"\n"

    return Stream(lines(), media_type=LINES)


@post("/crises/extend", operation_id="extend_crises", status_code=200)
async def extend_crises(data: JSONBody[NewExtension], caller: Calling) -> Counted:
    """Keep rows of the crisis log for longer; none is kept for less. Role admin."""
    db = caller.operating()
    await audit.note(
        db,
        caller.identity,
        "extend crises",
        owner=data.owner if data.thread is None else None,
        thread=data.thread,
        facts={"until": data.until, "ids": len(data.ids)},
    )
    count = await extend(
        db, until=data.until, now=db.store.now(), ids=data.ids, thread=data.thread, owner=data.owner
    )
    return Counted(rows=count)


@post("/crises/purge", operation_id="purge_crises", status_code=200)
async def purge_crises(data: JSONBody[NewPurge], caller: Calling) -> Counted:
    """Delete the rows of the crisis log whose date has come. Role admin."""
    db = caller.operating()
    if data.dry_run:
        return Counted(rows=await due(db, now=db.store.now()))
    await audit.note(db, caller.identity, "purge crises")
    return Counted(rows=await purge(db, now=db.store.now()))


@get("/audit", operation_id="list_audit")
async def list_audit(
    caller: Calling,
    limit: Limit = 50,
    cursor: Cursor = None,
    action: FromQuery[str | None] = None,
    user: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    thread: FromQuery[str | None] = None,
) -> AuditPage:
    """What operators did, the newest first; by whom, about an owner or a thread. Role auditor or admin."""
    db = caller.operating(AUDITOR, ADMIN)
    wanted = audit.Wanted(action=action, user=user, about=subject(owner, thread))
    list_of = f"audit\0{msgspec.json.encode(wanted).decode()}"
    before = caller.position(cursor, int, list_of)
    found, next = await audit.entries(db, wanted, limit=limit, before=before)
    return AuditPage(entries=found, next=caller.cursor(next, list_of) if next is not None else None)


CRISES = [list_crises, export_crises, extend_crises, purge_crises, list_audit]
