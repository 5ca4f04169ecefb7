"""Approvals over HTTP: the calls that wait for a person. They are decided by run, see ``runs``."""

from collections.abc import Collection
from typing import Annotated

from litestar.params import QueryParameter

from clew.api.approvals import LIST_APPROVALS, ApprovalPage, WaitingCallView
from clew.core.errors import ThreadNotFound
from clew.runtime.turn.inbox import InboxFilter, WaitingCall, find_waiting_calls
from clew.server.http.callers import Caller, CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit
from clew.server.tenants.thread_list import first_text

NOT_SERVED = (
    "The agent {agent!r} is not served here, so nothing can be decided here. Decide where it is served, or "
    "let an operator hand the thread over."
)


@endpoint(LIST_APPROVALS)
async def list_approvals(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    thread: Annotated[str | None, QueryParameter(description="Only calls on this thread.")] = None,
    agent: Annotated[str | None, QueryParameter(description="Only calls of this agent.")] = None,
    tool: Annotated[str | None, QueryParameter(description="Only calls of this tool.")] = None,
    owner: Annotated[str | None, QueryParameter(description="Only calls on threads of this user.")] = None,
    text: Annotated[str | None, QueryParameter(description="Only calls with this text in them.")] = None,
    first: Annotated[bool, QueryParameter(description="Also what was said first on each thread.")] = False,  # noqa: FBT002 - a query parameter
) -> ApprovalPage:
    """List the calls that wait for a person, those that began to wait last first."""
    selection = InboxFilter(thread=thread, agent=agent, tool=tool, user=owner, text=text)
    pages = caller.pages(cursor, tuple[int, str], "approvals", thread, agent, tool, owner, text)
    page = await find_waiting_calls(caller.db, selection, limit=limit, after=pages.start)
    served_agents = {entry.name for entry in caller.resources.agents}
    approvals = [
        _waiting_call_view(each, served_agents, await _first_text(caller, each) if first else None)
        for each in page.calls
    ]
    return ApprovalPage(approvals=approvals, next=pages.cursor(page.next and list(page.next)))


async def _first_text(caller: Caller, waiting: WaitingCall) -> str | None:
    """Return what was said first on a thread without a title."""
    try:
        return None if waiting.title is not None else await first_text(caller.db, waiting.run.thread)
    except ThreadNotFound:
        return None  # it went a moment ago


def _waiting_call_view(
    waiting: WaitingCall, served_agents: Collection[str], first: str | None
) -> WaitingCallView:
    approval = waiting.approval
    return WaitingCallView(
        run=waiting.run.id,
        thread=waiting.run.thread,
        agent=waiting.agent,
        since=waiting.since,
        call=approval.call,
        tool=approval.tool,
        user=waiting.owner,
        title=waiting.title,
        first=first,
        arguments=approval.arguments,
        question=approval.question,
        why=approval.why,
        asked=approval.asked,
        refusal=None if waiting.agent in served_agents else NOT_SERVED.format(agent=waiting.agent),
    )


APPROVAL_ROUTES = [list_approvals]
