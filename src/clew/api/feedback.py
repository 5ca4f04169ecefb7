"""Feedback of users on their sessions: given by them, listed and exported by operators."""

from typing import Literal, TypeAlias

import msgspec

from clew.api.route import LINES_TYPE, Route

FeedbackLabel: TypeAlias = Literal["positive", "neutral", "negative"]


class NewFeedback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Feedback of a user on a session: a label, never text."""

    label: FeedbackLabel


class FeedbackView(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback on an episode, whose id it has; ``turns`` is how many turns that had by then."""

    id: str
    thread: str
    user: str | None
    label: str
    source: str
    modality: str
    turns: int
    recorded: int


class FeedbackPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some feedback, the newest first."""

    feedback: list[FeedbackView]
    next: str | None = None


RECORD_SESSION_FEEDBACK = Route(
    "record_session_feedback", "POST", "/sessions/{id}/feedback", FeedbackView, body=NewFeedback, status=201
)
LIST_FEEDBACK = Route("list_feedback", "GET", "/feedback", FeedbackPage, audit="read feedback")
EXPORT_FEEDBACK = Route(
    "export_feedback", "GET", "/feedback/export", bytes, media_type=LINES_TYPE, audit="export feedback"
)
