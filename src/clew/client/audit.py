"""Calls of the audit."""

from clew.api.audit import LIST_AUDIT, AuditPage
from clew.client.call import ApiCall, CallMethod, api_call


class AuditMethods:
    """Calls of the audit."""

    @CallMethod
    def audit(
        self,
        *,
        action: str | None = None,
        user: str | None = None,
        owner: str | None = None,
        thread: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ApiCall[AuditPage]:
        """Return what operators did, the newest first."""
        return api_call(
            LIST_AUDIT, action=action, user=user, owner=owner, thread=thread, limit=limit, cursor=cursor
        )
