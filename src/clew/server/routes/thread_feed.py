"""The list of threads over HTTP as it changes: told to whoever listens, who need not ask again."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from litestar.response import Stream

from clew.api.threads import StreamEvent
from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument
from clew.core.values import ThreadSummary
from clew.server.http.callers import CurrentCaller
from clew.server.http.sse import CLOCK_SKEW_MS
from clew.server.http.views import thread_view
from clew.server.routes.turns import EVENT_STREAM, LastEvent, stream_response
from clew.server.tenants.thread_feed import NewestThreads, page_difference

LISTENING_EVENT, THREAD_EVENT, GONE_EVENT = "listening", "thread", "gone"
LONGEST_ID = 15


@get("/events", operation_id="follow_threads", media_type=EVENT_STREAM)
async def follow_threads(
    caller: CurrentCaller,
    last_event: LastEvent = None,
    after: Annotated[str | None, QueryParameter(description="The same as Last-Event-ID.")] = None,
    wait: Annotated[bool, QueryParameter(description="Whether to wait for what is yet to come.")] = True,  # noqa: FBT002 - a query parameter
) -> Stream:
    """Threads as they are made, changed and deleted, from the one after an event on, or from now."""
    last_time = _time_of_event(last_event if last_event is not None else after)

    async def events() -> AsyncIterator[StreamEvent]:
        async with caller.resources.thread_feeds.subscription(caller.scope) as feed:
            async for event in _feed_events(feed, last_time, wait=wait):
                yield event

    return await stream_response(caller, events(), peek=True, closing=caller.resources.closing)


def _time_of_event(id: str | None) -> int | None:
    """The time that the id of an event says; None without one.

    Raises:
        InvalidArgument: It is no id of an event.
    """
    if id is None or id == "":
        return None
    if not (id.isascii() and id.isdecimal() and len(id) <= LONGEST_ID):
        raise InvalidArgument(problem=f"{id[:40]!r} is not the id of an event. It is a number.")
    return int(id)


async def _feed_events(
    feed: NewestThreads, last_time: int | None, *, wait: bool
) -> AsyncIterator[StreamEvent]:
    """What has changed since a mark, and then what changes, in the order of its times.

    Whoever writes has a clock of its own, so what was written shortly before the mark is told once more.
    """
    page = feed.page
    latest = max((each.updated for each in page.threads), default=0)
    since = latest if last_time is None else min(last_time, latest)
    yield StreamEvent(type=LISTENING_EVENT, data={"threads": len(page.threads)}, id=str(since))
    backlog = (
        [] if last_time is None else [each for each in page.threads if each.updated > since - CLOCK_SKEW_MS]
    )
    async for event in _thread_events(feed, sorted(backlog, key=lambda each: each.updated), since):
        yield event
    since = latest
    while wait:
        before, page = page, await feed.next_page(page)
        updates, deleted_ids = page_difference(before, page)
        for id in deleted_ids:
            yield StreamEvent(type=GONE_EVENT, data={"id": id})
        async for event in _thread_events(feed, updates, since):
            yield event
        since = max((since, *(each.updated for each in updates)))


async def _thread_events(
    feed: NewestThreads, threads: Iterable[ThreadSummary], since: int
) -> AsyncIterator[StreamEvent]:
    for each in threads:
        since = max(since, each.updated)
        view = thread_view(each, await feed.last_text(each))
        yield StreamEvent(type=THREAD_EVENT, data=as_json(view), id=str(since))


FEED_ROUTES = [follow_threads]
