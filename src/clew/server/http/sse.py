"""Streams: a turn as it goes, or a thread as it grows, told in events that can be resumed anywhere.

A durable event has an id, its version and its place in it. Whoever lost a connection says the last id it has
seen and gets every durable event behind it, once, from whatever process: they are read from the log. Live
text has no id; if a message was cut off, it comes again whole, as the durable event that it became.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from clew.api.threads import StreamEvent
from clew.core.encoding import as_json, encode
from clew.core.errors import ClewError, InvalidArgument, NotFound, StoreFailed, ThreadNotFound
from clew.database.database import Database
from clew.database.thread import CHANGESETS_PER_PAGE, Thread, changesets_after
from clew.runtime.records.events import ErrorEvent, Event, Mark, RunFinished, events_of
from clew.runtime.records.runs import KIND, run_id_for_key, run_of
from clew.runtime.runtime import AFTER_LAST_EVENT, Runtime
from clew.server.http.views import failure_problem, problem_of

log = logging.getLogger("clew.server")
CLOCK_SKEW_MS = 60_000
END_EVENT = "end"
RUN_FINISHED_EVENT = "run_finished"
PROBLEM_EVENT = "problem"
PING = b": still here\n\n"


def parse_event_id(id: str | None) -> Mark | None:
    """Where the id of an event stands; None without one.

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
    """An event as the wire has it."""
    data = as_json(event)
    kind, mark = data.pop("type"), data.pop("mark", None)
    return StreamEvent(type=kind, data=data, id=None if mark is None else f"{mark[0]}.{mark[1]}")


def problem_event(error: ClewError) -> StreamEvent:
    """An error as the last event of a stream."""
    if isinstance(error, StoreFailed):
        log.warning("A stream ends: %s", error)  # whoever hears of it is told that the log says more
    return StreamEvent(type=PROBLEM_EVENT, data=as_json(problem_of(error)))


def encode_event(event: StreamEvent) -> bytes:
    """An event in the format of server-sent events."""
    id = f"id: {event.id}\n" if event.id is not None else ""
    return f"{id}event: {event.type}\ndata: ".encode() + encode(event.data) + b"\n\n"


async def thread_events(
    runtime: Runtime[Any, Any], thread: str, user: str | None, after: Mark | None, run: str | None
) -> AsyncIterator[StreamEvent]:
    """The durable events of a thread as they commit; with a run, until that run has ended."""
    async with aclosing(runtime.events(thread, after=after, user=user)) as events:  # type: ignore[type-var]  # a generator
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
    """A turn as it goes, with every durable event of its thread behind a mark, each once and in order.

    Until the turn speaks, the log is followed too: the turn may be at work in another process.
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
    """How far along its thread a stream has come."""

    def __init__(self, thread: Thread, mark: Mark) -> None:
        self._thread = thread
        self.mark = mark

    async def events_upto(self, event: Event) -> AsyncIterator[StreamEvent]:
        """What has not been told, up to an event and with it."""
        mark = event.mark
        if mark is None or mark <= self.mark:
            return
        if not self._is_next(mark):
            with suppress(ThreadNotFound):  # then it is kept in this process alone, and told by the turn
                async for each in self._events_from_log(mark[0] - 1 if mark[1] == 0 else mark[0]):
                    yield each
        if mark > self.mark:
            self.mark = mark
            yield stream_event(event)

    async def remaining_events(self) -> AsyncIterator[StreamEvent]:
        """What has not been told, up to now."""
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
    """Put a turn's events into a queue; from the first of them on, nobody has to look into the log."""
    try:
        async for event in events:
            log_task.cancel()
            queue.put_nowait(event)
    except Exception as error:  # noqa: BLE001  # whoever reads the queue raises it, or tells of it
        queue.put_nowait(error)
    queue.put_nowait(None)


async def _queue_log_events(
    runtime: Runtime[Any, Any],
    thread: str,
    user: str | None,
    mark: Mark,
    queue: "asyncio.Queue[Event | BaseException | None]",
) -> None:
    """Put the log's events into a queue."""
    with suppress(ThreadNotFound):
        async for event in runtime.events(thread, after=mark, user=user):
            queue.put_nowait(event)


async def mark_before_turn(db: Database, thread: str, key: str | None) -> Mark | None:
    """The mark before the turn with a key began, if it has; its events are told from there on."""
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


class EventStream:
    """A stream whose first event may have come already, so that an error at once is no stream at all."""

    def __init__(self, events: AsyncIterator[StreamEvent]) -> None:
        self._events = events
        self._next_task: asyncio.Task[StreamEvent | None] | None = None

    async def peek(self, seconds: float) -> None:
        """Wait a little for the first event.

        Raises:
            ClewError: There is an error instead.
        """
        self._next_task = asyncio.create_task(self._next_event())
        ready, _ = await asyncio.wait([self._next_task], timeout=seconds)
        if ready:
            self._next_task.result()

    async def events(self) -> AsyncIterator[StreamEvent]:
        """The events; an error is the last of them."""
        try:
            while (event := await (self._next_task or self._next_event())) is not None:
                self._next_task = None
                yield event
        except ClewError as error:
            yield problem_event(error)
        finally:
            await self.close()

    async def chunks(self, ping_seconds: float, closing: asyncio.Event) -> AsyncIterator[bytes]:
        """The events as they are sent, with a sign of life while there are none.

        Once the server is closing it stops without an end, so that a client goes on elsewhere.
        """
        stop, last_type = asyncio.create_task(closing.wait()), ""
        try:
            while True:
                self._next_task = self._next_task or asyncio.create_task(self._next_event())
                ready, _ = await asyncio.wait(
                    [self._next_task, stop], timeout=ping_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                if stop in ready:
                    return
                if not ready:
                    yield PING
                    continue
                event = self._next_task.result()
                if event is None:
                    break
                self._next_task, last_type = None, event.type
                yield encode_event(event)
            yield encode_event(StreamEvent(type=END_EVENT, data={}))
        except ClewError as error:
            yield encode_event(problem_event(error))
        except Exception:  # who is cut off takes it for a lost connection, and asks again and again
            log.exception("A stream failed")
            is_reported = last_type == RUN_FINISHED_EVENT  # the end of the run has told what went wrong
            yield encode_event(
                StreamEvent(type=END_EVENT, data={})
                if is_reported
                else StreamEvent(type=PROBLEM_EVENT, data=as_json(failure_problem()))
            )
        finally:
            stop.cancel()
            await self.close()

    async def close(self) -> None:
        """Listen no more."""
        if self._next_task is not None:
            self._next_task.cancel()
            await asyncio.gather(self._next_task, return_exceptions=True)
            self._next_task = None
        if isinstance(self._events, AsyncGenerator):
            await self._events.aclose()

    async def _next_event(self) -> StreamEvent | None:
        return await anext(self._events, None)
