"""Feedback over HTTP: users record it, operators list and export it; each look of theirs is in the audit."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Request
from litestar.params import FromQuery, JSONBody
from litestar.response import Stream

from clew.api.feedback import (
    EXPORT_FEEDBACK,
    LIST_FEEDBACK,
    RECORD_SESSION_FEEDBACK,
    FeedbackPage,
    FeedbackView,
    NewFeedback,
)
from clew.api.route import IDEMPOTENCY_KEY
from clew.core.encoding import as_json, encode
from clew.database.database import Database
from clew.runtime.records.feedback import Feedback, feedback_of, feedback_query, feedback_rows
from clew.server.http import audit
from clew.server.http.callers import Caller, CurrentCaller, ThreadId
from clew.server.http.cursors import record_position
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit, TimeQuery

SOURCE = "http"


@endpoint(RECORD_SESSION_FEEDBACK)
async def record_session_feedback(
    thread_id: ThreadId, data: JSONBody[NewFeedback], caller: CurrentCaller, request: Request[Any, Any, Any]
) -> FeedbackView:
    """Record what a user thinks of a session: a label, never text. The session goes on.

    One key records it once. A session has one row: what is said later, or at its end, replaces it. That of an
    incognito session stays in memory with it.
    """
    key = request.headers.get(IDEMPOTENCY_KEY)
    async with caller.thread_access(thread_id) as access:
        await access.check_exists(thread_id)
        feedback = await access.runtime.record_session_feedback(
            thread_id, data.label, source=SOURCE, key=key, user=access.user
        )
    return _feedback_view(feedback)


@endpoint(LIST_FEEDBACK)
async def list_feedback(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    thread: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    since: TimeQuery = None,
) -> FeedbackPage:
    """List feedback of the tenant, the newest first; of a thread, of a user, from a time on. Role admin."""
    db = await _audited_database(caller, LIST_FEEDBACK.audit, thread, owner)
    pages = caller.pages(cursor, tuple[int, str], "feedback", thread, owner, since)
    query = msgspec.structs.replace(
        feedback_query(thread=thread, owner=owner, since=since), limit=limit + 1, after=pages.start
    )
    records, next = pages.cut(await db.records.find(query), limit, record_position)
    return FeedbackPage(feedback=[_feedback_view(feedback_of(record)) for record in records], next=next)


@endpoint(EXPORT_FEEDBACK)
async def export_feedback(
    caller: CurrentCaller,
    thread: FromQuery[str | None] = None,
    owner: FromQuery[str | None] = None,
    since: TimeQuery = None,
) -> Stream:
    """Export feedback of the tenant as lines of JSON, the newest first. Role admin."""
    query = feedback_query(thread=thread, owner=owner, since=since)
    db = await _audited_database(caller, EXPORT_FEEDBACK.audit, thread, owner)
    await db.records.find(
        msgspec.structs.replace(query, limit=1)
    )  # what is wrong is refused here, not midway

    async def lines() -> AsyncIterator[bytes]:
        async for feedback in feedback_rows(db, query):
            yield encode(as_json(_feedback_view(feedback))) + b"\n"

    return Stream(lines(), media_type=EXPORT_FEEDBACK.media_type)


async def _audited_database(caller: Caller, action: str, thread: str | None, owner: str | None) -> Database:
    """Return the database of the tenant, for an operator, once it is recorded that they look."""
    db = caller.tenant_database()
    about_owner = owner if thread is None else None
    await audit.record_action(db, caller.identity, action, owner=about_owner, thread=thread)
    return db


def _feedback_view(feedback: Feedback) -> FeedbackView:
    return FeedbackView(**{name: getattr(feedback, name) for name in FeedbackView.__struct_fields__})


FEEDBACK_ROUTES = [record_session_feedback, list_feedback, export_feedback]
