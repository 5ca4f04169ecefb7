"""Events over HTTP: a thread as it grows, and the list of threads as it changes."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated

from litestar.params import QueryParameter
from litestar.response import Stream

from clew.api.events import FOLLOW_THREAD, FOLLOW_THREADS, StreamEvent
from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument
from clew.core.values import ThreadSummary
from clew.runtime.runtime import AFTER_LAST_EVENT
from clew.server.http.callers import CurrentCaller, ThreadId
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import AfterQuery, LastEvent
from clew.server.http.sse import stream_response
from clew.server.http.views import thread_view
from clew.server.tenants.thread_feed import NewestThreads, page_difference
from clew.server.tenants.turn_events import CLOCK_SKEW_MS, parse_event_id, thread_events

LISTENING_EVENT, THREAD_EVENT, GONE_EVENT = "listening", "thread", "gone"
LONGEST_ID = 15


@endpoint(FOLLOW_THREAD)
async def follow_thread(
    thread_id: ThreadId,
    caller: CurrentCaller,
    last_event: LastEvent = None,
    after: AfterQuery = None,
    run: Annotated[str | None, QueryParameter(description="End when this run has ended.")] = None,
) -> Stream:
    """Follow the durable events of a thread as they commit, from the one after an event on, or from now."""
    mark = parse_event_id(last_event if last_event is not None else after)
    is_incognito = await caller.incognito.has_thread(caller.scope, thread_id)
    if not is_incognito:
        head = await caller.db.thread(thread_id).head()
        mark = mark or (head.version, AFTER_LAST_EVENT)

    async def events() -> AsyncIterator[StreamEvent]:
        async with caller.thread_access(thread_id) as access:
            async for event in thread_events(access.runtime, thread_id, access.user, mark, run):
                yield event

    return await stream_response(caller, events(), peek=is_incognito, closing=caller.resources.closing)


@endpoint(FOLLOW_THREADS)
async def follow_threads(
    caller: CurrentCaller,
    last_event: LastEvent = None,
    after: AfterQuery = None,
    wait: Annotated[bool, QueryParameter(description="Whether to wait for what is yet to come.")] = True,  # noqa: FBT002 - a query parameter
) -> Stream:
    """Follow threads as they are made, changed and deleted, from the one after an event on, or from now."""
    last_time = _time_of_event(last_event if last_event is not None else after)

    async def events() -> AsyncIterator[StreamEvent]:
        async with caller.resources.thread_feeds.subscription(caller.scope) as feed:
            async for event in _feed_events(feed, last_time, wait=wait):
                yield event

    return await stream_response(caller, events(), peek=True, closing=caller.resources.closing)


def _time_of_event(id: str | None) -> int | None:
    """Return the time in the id of an event; None without one.

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
    """Iterate over changes since a time, and then over changes as they come, in the order of their times.

    Each process has a clock of its own, so what was written shortly before that time is sent once more.
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
        view = thread_view(each, await feed.texts(each))
        yield StreamEvent(type=THREAD_EVENT, data=as_json(view), id=str(since))


EVENT_ROUTES = [follow_thread, follow_threads]
