"""Streams of server-sent events: their format, their limits, and how they end."""

import asyncio
import logging
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack, aclosing
from typing import TypeAlias

from litestar.response import Stream

from clew.api.events import END_EVENT, EVENT_STREAM_TYPE, PROBLEM_EVENT, RUN_FINISHED_EVENT, StreamEvent
from clew.core.encoding import as_json, encode
from clew.core.errors import ClewError, StoreFailed
from clew.server.http.callers import Caller
from clew.server.http.problems import failure_problem, problem_of

log = logging.getLogger("clew.server")
PING = b": still here\n\n"
"""A comment, which clients pass over: it keeps proxies from closing an idle stream."""
PEEK_SECONDS = 0.25
"""How long a response waits for the first event, so that an error at once has a status of its own."""
STREAM_HEADERS = {
    # Litestar prefers the media type of the route to that of a Stream, and some routes reply in JSON too.
    "Content-Type": f"{EVENT_STREAM_TYPE}; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
RECHECK_SECONDS = 10.0
"""For how long the credentials of a stream are taken for valid."""


def problem_event(error: ClewError) -> StreamEvent:
    """Return an error as the last event of a stream."""
    if isinstance(error, StoreFailed):
        log.warning("A stream ends: %s", error)  # its problem says no more than that the log has it
    return StreamEvent(type=PROBLEM_EVENT, data=as_json(problem_of(error)))


def failure_event() -> StreamEvent:
    """Return the last event of a stream that an unforeseen error ended."""
    return StreamEvent(type=PROBLEM_EVENT, data=as_json(failure_problem()))


def end_event() -> StreamEvent:
    """Return the last event of a stream that is complete."""
    return StreamEvent(type=END_EVENT, data={})


def encode_event(event: StreamEvent) -> bytes:
    """Return an event in the format of server-sent events."""
    id = f"id: {event.id}\n" if event.id is not None else ""
    return f"{id}event: {event.type}\ndata: ".encode() + encode(event.data) + b"\n\n"


EncodeEvent: TypeAlias = Callable[[StreamEvent], bytes]
"""Writes an event of a stream, also the problem or the end that is its last."""


async def events_while_admitted(
    caller: Caller, events: AsyncIterator[StreamEvent]
) -> AsyncIterator[StreamEvent]:
    """Iterate over events for as long as the caller's credentials are valid.

    A stream may last for days, and a key that was revoked meanwhile must get nothing more.

    Raises:
        AccessRefused: They are not valid any more.
    """
    last_check = time.monotonic()
    async with aclosing(events) as source:  # type: ignore[type-var]  # a generator
        async for event in source:
            if time.monotonic() - last_check > RECHECK_SECONDS:
                await caller.recheck_access()
                last_check = time.monotonic()
            yield event


async def stream_response(
    caller: Caller,
    events: AsyncIterator[StreamEvent],
    *,
    peek: bool,
    closing: asyncio.Event | None = None,
    encode: EncodeEvent = encode_event,
    headers: Mapping[str, str] | None = None,
) -> Stream:
    """Return a stream of events, within the limits of open streams.

    With ``peek`` an error that comes at once is raised, and there is no stream. ``closing`` ends the stream.
    ``encode`` writes the events of another protocol, and ``headers`` go with its streams.
    """
    with ExitStack() as stack:
        stack.enter_context(caller.stream_slot())
        stream = EventStream(events_while_admitted(caller, events), encode)
        if peek:
            await stream.peek(PEEK_SECONDS)
        slot = stack.pop_all()

    async def chunks() -> AsyncIterator[bytes]:
        with slot:
            ping = caller.resources.settings.ping_seconds
            async for chunk in stream.chunks(ping, closing or asyncio.Event()):
                yield chunk

    body = chunks()
    weakref.finalize(body, slot.close)  # the generator never starts if the client left before the first byte
    return Stream(body, headers={**STREAM_HEADERS, **(headers or {})})


class EventStream:
    """A stream whose first event may be awaited before its response begins."""

    def __init__(self, events: AsyncIterator[StreamEvent], encode: EncodeEvent = encode_event) -> None:
        self._events = events
        self._encode = encode
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
        """Iterate over the events; an error is the last of them."""
        try:
            while (event := await (self._next_task or self._next_event())) is not None:
                self._next_task = None
                yield event
        except ClewError as error:
            yield problem_event(error)
        finally:
            await self.close()

    async def chunks(self, ping_seconds: float, closing: asyncio.Event) -> AsyncIterator[bytes]:
        """Iterate over the events as they are sent, with pings while there are none.

        Once the server is closing, the stream stops without an end, so that the client resumes it elsewhere.
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
                yield self._encode(event)
            yield self._encode(end_event())
        except ClewError as error:
            yield self._encode(problem_event(error))
        except (
            Exception
        ):  # without an end the client would take it for a lost connection, and resume for ever
            log.exception("A stream failed")
            is_reported = last_type == RUN_FINISHED_EVENT  # that event names the error already
            yield self._encode(end_event() if is_reported else failure_event())
        finally:
            stop.cancel()
            await self.close()

    async def close(self) -> None:
        """Stop reading, and close the source of the events."""
        if self._next_task is not None:
            self._next_task.cancel()
            await asyncio.gather(self._next_task, return_exceptions=True)
            self._next_task = None
        if isinstance(self._events, AsyncGenerator):
            await self._events.aclose()

    async def _next_event(self) -> StreamEvent | None:
        return await anext(self._events, None)
