"""Events of a stream, as the wire has them."""

import msgspec

from clew.api.route import Route
from clew.core.encoding import JSON

EVENT_STREAM_TYPE = "text/event-stream"
END_EVENT = "end"
"""The type of the last event of a stream that ended well."""
PROBLEM_EVENT = "problem"
"""The type of the last event of a stream that ended with an error."""
RUN_FINISHED_EVENT = "run_finished"


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. Durable ones have an id, from which a stream can be resumed."""

    type: str
    data: dict[str, JSON]
    id: str | None = None


FOLLOW_THREADS = Route("follow_threads", "GET", "/events", StreamEvent, media_type=EVENT_STREAM_TYPE)
FOLLOW_THREAD = Route(
    "follow_thread", "GET", "/threads/{id}/events", StreamEvent, media_type=EVENT_STREAM_TYPE
)
