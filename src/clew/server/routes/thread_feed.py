"""The list of threads over HTTP as it changes: told to whoever listens, who need not ask again."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from litestar.response import Stream

from clew.api.threads import Told
from clew.core.encoding import plain
from clew.core.errors import InvalidArgument
from clew.core.values import Summary
from clew.server.http.callers import Calling
from clew.server.http.sse import CLOCKS_APART
from clew.server.http.views import thread_view
from clew.server.routes.turns import EVENTS, LastEvent, streamed
from clew.server.tenants.thread_feed import Newest, difference

LISTENING, THREAD, GONE = "listening", "thread", "gone"
LONGEST = 15


@get("/events", operation_id="follow_threads", media_type=EVENTS)
async def follow_threads(
    caller: Calling,
    last_event: LastEvent = None,
    after: Annotated[str | None, QueryParameter(description="The same as Last-Event-ID.")] = None,
    wait: Annotated[bool, QueryParameter(description="Whether to wait for what is yet to come.")] = True,  # noqa: FBT002 - a query parameter
) -> Stream:
    """Threads as they are made, changed and deleted, from the one after an event on, or from now."""
    mark = _mark_of(last_event if last_event is not None else after)

    async def events() -> AsyncIterator[Told]:
        async with caller.serving.lists.listening(caller.scope) as newest:
            async for event in _told(newest, mark, wait=wait):
                yield event

    return await streamed(caller, events(), peek=True, closing=caller.serving.closing)


def _mark_of(id: str | None) -> int | None:
    """The time that the id of an event says; None without one.

    Raises:
        InvalidArgument: It is no id of an event.
    """
    if id is None or id == "":
        return None
    if not (id.isascii() and id.isdecimal() and len(id) <= LONGEST):
        raise InvalidArgument(problem=f"{id[:40]!r} is not the id of an event. It is a number.")
    return int(id)


async def _told(newest: Newest, mark: int | None, *, wait: bool) -> AsyncIterator[Told]:
    """What has changed since a mark, and then what changes, in the order of its times.

    Whoever writes has a clock of its own, so what was written shortly before the mark is told once more.
    """
    page = newest.page
    latest = max((each.updated for each in page.threads), default=0)
    since = latest if mark is None else min(mark, latest)
    yield Told(type=LISTENING, data={"threads": len(page.threads)}, id=str(since))
    missed = [] if mark is None else [each for each in page.threads if each.updated > since - CLOCKS_APART]
    async for event in _threads(newest, sorted(missed, key=lambda each: each.updated), since):
        yield event
    since = latest
    while wait:
        before, page = page, await newest.after(page)
        changed, gone = difference(before, page)
        for id in gone:
            yield Told(type=GONE, data={"id": id})
        async for event in _threads(newest, changed, since):
            yield event
        since = max((since, *(each.updated for each in changed)))


async def _threads(newest: Newest, threads: Iterable[Summary], since: int) -> AsyncIterator[Told]:
    for each in threads:
        since = max(since, each.updated)
        view = thread_view(each, await newest.last_said(each))
        yield Told(type=THREAD, data=plain(view), id=str(since))


CHANGES = [follow_threads]
