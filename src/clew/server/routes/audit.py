"""The audit over HTTP, for operators and auditors."""

from litestar.params import FromQuery

from clew.api.audit import LIST_AUDIT, AuditPage
from clew.core.encoding import as_json
from clew.database.audit import audit_subject
from clew.server.http import audit
from clew.server.http.callers import CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit
from clew.server.identity.roles import ADMIN, AUDITOR


@endpoint(LIST_AUDIT)
async def list_audit(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    action: FromQuery[str | None] = None,
    user: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    thread: FromQuery[str | None] = None,
) -> AuditPage:
    """List what operators did, the newest first; by user, owner or thread. Role auditor or admin."""
    db = caller.tenant_database(AUDITOR, ADMIN)
    query = audit.AuditQuery(action=action, user=user, about=audit_subject(owner, thread))
    pages = caller.pages(cursor, int, "audit", as_json(query))
    entries, next = await audit.entries(db, query, limit=limit, before=pages.start)
    return AuditPage(entries=entries, next=pages.cursor(next))


AUDIT_ROUTES = [list_audit]
