"""Approvals: the calls that wait for a person, on whatever threads."""

import msgspec

from clew.api.route import Route
from clew.core.encoding import JSON


class WaitingCallView(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a decision, with its run and its thread.

    ``refusal`` says why it cannot be decided on this server: its agent is not served here. It is null where
    a decision is taken. ``since`` is when it began to wait. ``first`` is made from the first message of a
    thread without a title, if it is asked for.
    """

    run: str
    thread: str
    agent: str
    since: int
    call: str
    tool: str
    user: str | None = None
    title: str | None = None
    first: str | None = None
    arguments: JSON = None
    question: JSON = None
    why: str = "approval"
    asked: int = 1
    refusal: str | None = None


class ApprovalPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some calls that wait, those that began to wait last first. The calls of one run are on one page."""

    approvals: list[WaitingCallView]
    next: str | None = None


LIST_APPROVALS = Route("list_approvals", "GET", "/approvals", ApprovalPage)
