"""Durable events of threads and turns, each once and in order, from any mark on.

A durable event has an id, its version and its index in it. A client that lost its connection names the last
id that it has seen and gets every durable event behind it, from whatever process: they are read from the log.
Live text has no id; a message that was cut off comes again whole, as the durable event that it became.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from clew.api.events import StreamEvent
from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument, NotFound, ThreadNotFound
from clew.database.database import Database
from clew.database.thread import CHANGESETS_PER_PAGE, Thread, changesets_after
from clew.runtime.records.events import ErrorEvent, Event, Mark, RunFinished, events_of
from clew.runtime.records.runs import KIND, run_id_for_key, run_of
from clew.runtime.runtime import AFTER_LAST_EVENT, Runtime

CLOCK_SKEW_MS = 60_000
"""How far the clocks of two processes may be apart."""


def parse_event_id(id: str | None) -> Mark | None:
    """Return the mark that the id of an event stands for; None without one.

    Raises:
        InvalidArgument: It is no id of an event.
    """
    if id is None or id == "":
        return None
    version, dot, index = id.partition(".")
    if not dot or not (version.isascii() and version.isdecimal() and index.isascii() and index.isdecimal()):
        raise InvalidArgument(problem=f"{id[:40]!r} is not the id of an event. It looks like 12.0.")
    if len(version) > 15 or len(index) > 9:
        raise InvalidArgument(problem="The id of the event is of no thread.")
    return int(version), int(index)


def stream_event(event: Event) -> StreamEvent:
    """Return an event as the wire has it."""
    data = as_json(event)
    kind, mark = data.pop("type"), data.pop("mark", None)
    return StreamEvent(type=kind, data=data, id=None if mark is None else f"{mark[0]}.{mark[1]}")


async def thread_events(
    runtime: Runtime[Any, Any], thread: str, user: str | None, after: Mark | None, run: str | None
) -> AsyncIterator[StreamEvent]:
    """Iterate over the events of a thread as they come; with a run, until that run has ended."""
    async with aclosing(runtime.events(thread, after=after, user=user, live=True)) as events:  # type: ignore[type-var]  # a generator
        async for event in events:
            yield stream_event(event)
            if run is not None and isinstance(event, RunFinished) and event.run == run:
                return


async def resumable_turn_events(
    events: AsyncIterator[Event],
    runtime: Runtime[Any, Any],
    thread: Thread,
    user: str | None,
    after: Mark | None,
) -> AsyncIterator[StreamEvent]:
    """Iterate over a turn, with every durable event of its thread behind a mark, each once and in order.

    Until the turn has its first event, the log is followed too: the turn may be at work in another process,
    which began it under the same idempotency key.
    """
    position = _StreamPosition(
        thread, after if after is not None else (await _version_or_zero(thread), AFTER_LAST_EVENT)
    )
    queue: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()
    log_task = asyncio.create_task(_queue_log_events(runtime, thread.id, user, position.mark, queue))
    turn_task = asyncio.create_task(_queue_turn_events(events, queue, log_task))
    turn_error: BaseException | None = None
    try:
        while (event := await queue.get()) is not None:
            if isinstance(event, BaseException):
                turn_error = event
                break
            if event.mark is None:
                if not isinstance(event, ErrorEvent):
                    yield stream_event(event)
                continue
            async for each in position.events_upto(event):
                yield each
        async for each in position.remaining_events():
            yield each
        if turn_error is not None:
            raise turn_error
    finally:
        for task in (log_task, turn_task):
            task.cancel()
        await asyncio.gather(log_task, turn_task, return_exceptions=True)


class _StreamPosition:
    """The position of a stream in its thread: the mark of the last durable event that it has sent."""

    def __init__(self, thread: Thread, mark: Mark) -> None:
        self._thread = thread
        self.mark = mark

    async def events_upto(self, event: Event) -> AsyncIterator[StreamEvent]:
        """Iterate over the events that were not sent yet, up to an event and with it."""
        mark = event.mark
        if mark is None or mark <= self.mark:
            return
        # A gap: other runs committed in between, or the client has missed some. The log has them.
        if not self._is_next(mark):
            with suppress(ThreadNotFound):  # a thread that is in no log, whose events the turn itself brings
                async for each in self._events_from_log(mark[0] - 1 if mark[1] == 0 else mark[0]):
                    yield each
        if mark > self.mark:
            self.mark = mark
            yield stream_event(event)

    async def remaining_events(self) -> AsyncIterator[StreamEvent]:
        """Iterate over the events that were not sent yet, up to now."""
        with suppress(ThreadNotFound):
            async for each in self._events_from_log(None):
                yield each

    def _is_next(self, mark: Mark) -> bool:
        version, index = self.mark
        return mark == (version, index + 1) or (mark[0] == version + 1 and mark[1] == 0)

    async def _events_from_log(self, upto: int | None) -> AsyncIterator[StreamEvent]:
        async for change in changesets_after(self._thread, max(self.mark[0] - 1, 0), upto=upto):
            for event in events_of(change):
                if event.mark is not None and event.mark > self.mark:
                    self.mark = event.mark
                    yield stream_event(event)


async def _queue_turn_events(
    events: AsyncIterator[Event],
    queue: "asyncio.Queue[Event | BaseException | None]",
    log_task: "asyncio.Task[None]",
) -> None:
    """Put the events of a turn into a queue; from the first of them on, the log need not be followed."""
    try:
        async for event in events:
            log_task.cancel()
            queue.put_nowait(event)
    except Exception as error:  # noqa: BLE001  # the reader of the queue raises it
        queue.put_nowait(error)
    queue.put_nowait(None)


async def _queue_log_events(
    runtime: Runtime[Any, Any],
    thread: str,
    user: str | None,
    mark: Mark,
    queue: "asyncio.Queue[Event | BaseException | None]",
) -> None:
    """Put the events of the log into a queue."""
    with suppress(ThreadNotFound):
        async for event in runtime.events(thread, after=mark, user=user, live=True):
            queue.put_nowait(event)


async def mark_before_turn(db: Database, thread: str, key: str | None) -> Mark | None:
    """Return the mark before the turn with an idempotency key, to send it whole; None if it is new."""
    if key is None:
        return None
    try:
        run = run_of(await db.records.get(KIND, run_id_for_key(thread, key)))
        upto = (await db.thread(thread).head()).version
    except NotFound:
        return None
    first = upto + 1
    while upto > 0:
        page = await db.thread(thread).changesets(
            after=max(upto - CHANGESETS_PER_PAGE, 0), upto=upto, limit=CHANGESETS_PER_PAGE
        )
        first = next((change.version for change in page if change.run_id == run.id), first)
        if page[0].time < run.started - CLOCK_SKEW_MS:
            break
        upto -= CHANGESETS_PER_PAGE
    return first - 1, AFTER_LAST_EVENT


async def _version_or_zero(thread: Thread) -> int:
    try:
        return (await thread.head()).version
    except ThreadNotFound:
        return 0
