"""Calls of approvals."""

from clew.api.approvals import LIST_APPROVALS, ApprovalPage
from clew.client.call import ApiCall, CallMethod, api_call


class ApprovalMethods:
    """Calls of approvals."""

    @CallMethod
    def approvals(
        self,
        *,
        thread: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        owner: str | None = None,
        text: str | None = None,
        first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ApiCall[ApprovalPage]:
        """Return the calls that wait for a person, those that began to wait last first."""
        return api_call(
            LIST_APPROVALS,
            thread=thread,
            agent=agent,
            tool=tool,
            owner=owner,
            text=text,
            first=first or None,
            limit=limit,
            cursor=cursor,
        )
