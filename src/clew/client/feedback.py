"""Calls of feedback: that of a user, and those of operators."""

from clew.api.feedback import (
    EXPORT_FEEDBACK,
    LIST_FEEDBACK,
    RECORD_SESSION_FEEDBACK,
    FeedbackLabel,
    FeedbackPage,
    FeedbackView,
    NewFeedback,
)
from clew.client.call import ApiCall, CallMethod, api_call


class FeedbackMethods:
    """The call with which a user gives feedback."""

    @CallMethod
    def record_session_feedback(
        self, id: str, label: FeedbackLabel, *, key: str | None = None
    ) -> ApiCall[FeedbackView]:
        """Record what a user thinks of a session; it goes on."""
        return api_call(RECORD_SESSION_FEEDBACK, id, body=NewFeedback(label=label), key=key)


class FeedbackLogMethods:
    """Calls of operators about the feedback of a tenant."""

    @CallMethod
    def feedback(
        self,
        *,
        thread: str | None = None,
        owner: str | None = None,
        since: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ApiCall[FeedbackPage]:
        """Return feedback, the newest first."""
        return api_call(LIST_FEEDBACK, thread=thread, owner=owner, since=since, limit=limit, cursor=cursor)

    @CallMethod
    def export_feedback(
        self, *, thread: str | None = None, owner: str | None = None, since: int | None = None
    ) -> ApiCall[bytes]:
        """Return feedback as lines of JSON."""
        return api_call(EXPORT_FEEDBACK, thread=thread, owner=owner, since=since)
