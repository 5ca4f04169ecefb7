"""The audit over HTTP, for operators and auditors."""

import msgspec
from litestar import get
from litestar.params import FromQuery

from clew.api.operators import AuditPage
from clew.database.audit import audit_subject
from clew.server.http import audit
from clew.server.http.callers import ADMIN, AUDITOR, CurrentCaller
from clew.server.routes.threads import Cursor, Limit


@get("/audit", operation_id="list_audit")
async def list_audit(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    action: FromQuery[str | None] = None,
    user: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    thread: FromQuery[str | None] = None,
) -> AuditPage:
    """What operators did, the newest first; by whom, about an owner or a thread. Role auditor or admin."""
    db = caller.tenant_database(AUDITOR, ADMIN)
    query = audit.AuditQuery(action=action, user=user, about=audit_subject(owner, thread))
    list_name = f"audit\0{msgspec.json.encode(query).decode()}"
    before = caller.position(cursor, int, list_name)
    entries, next = await audit.entries(db, query, limit=limit, before=before)
    return AuditPage(entries=entries, next=caller.cursor(next, list_name) if next is not None else None)


AUDIT_ROUTES = [list_audit]
