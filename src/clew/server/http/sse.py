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

from clew.api.threads import Told
from clew.core.encoding import encode, plain
from clew.core.errors import ClewError, InvalidArgument, NotThere, StoreFailed, ThreadNotFound
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.execution.start import key_id
from clew.runtime.records.events import Event, Failed, Mark, RunFinished, events_of
from clew.runtime.records.runs import KIND, run_of
from clew.runtime.runtime import LAST, Runtime
from clew.server.http.views import failure, problem_of

log = logging.getLogger("clew.server")
PAGE = 256
CLOCKS_APART = 60_000
END = "end"
FINISHED = "run_finished"
ERROR = "problem"
PING = b": still here\n\n"


def mark_of(id: str | None) -> Mark | None:
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


def told(event: Event) -> Told:
    """An event as the wire has it."""
    data = plain(event)
    kind, mark = data.pop("type"), data.pop("mark", None)
    return Told(type=kind, data=data, id=None if mark is None else f"{mark[0]}.{mark[1]}")


def problem_event(error: ClewError) -> Told:
    """An error as the last event of a stream."""
    if isinstance(error, StoreFailed):
        log.warning("A stream ends: %s", error)  # whoever hears of it is told that the log says more
    return Told(type=ERROR, data=plain(problem_of(error)))


def as_bytes(event: Told) -> bytes:
    """An event in the format of server-sent events."""
    id = f"id: {event.id}\n" if event.id is not None else ""
    return f"{id}event: {event.type}\ndata: ".encode() + encode(event.data) + b"\n\n"


async def following(
    runtime: Runtime[Any, Any], thread: str, user: str | None, after: Mark | None, run: str | None
) -> AsyncIterator[Told]:
    """The durable events of a thread as they commit; with a run, until that run has ended."""
    async with aclosing(runtime.events(thread, after=after, user=user)) as events:  # type: ignore[type-var]  # a generator
        async for event in events:
            yield told(event)
            if run is not None and isinstance(event, RunFinished) and event.run == run:
                return


async def turning(
    events: AsyncIterator[Event],
    runtime: Runtime[Any, Any],
    thread: Thread,
    user: str | None,
    after: Mark | None,
) -> AsyncIterator[Told]:
    """A turn as it goes, with every durable event of its thread behind a mark, each once and in order.

    Until the turn speaks, the log is followed too: the turn may be at work in another process.
    """
    journey = _Journey(thread, after if after is not None else (await _version(thread), LAST))
    queue: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()
    log = asyncio.create_task(_logged(runtime, thread.id, user, journey.mark, queue))
    turn = asyncio.create_task(_pumped(events, queue, log))
    failure: BaseException | None = None
    try:
        while (event := await queue.get()) is not None:
            if isinstance(event, BaseException):
                failure = event
                break
            if event.mark is None:
                if not isinstance(event, Failed):
                    yield told(event)
                continue
            async for each in journey.upto(event):
                yield each
        async for each in journey.rest():
            yield each
        if failure is not None:
            raise failure
    finally:
        for task in (log, turn):
            task.cancel()
        await asyncio.gather(log, turn, return_exceptions=True)


class _Journey:
    """How far along its thread a stream has come."""

    def __init__(self, thread: Thread, mark: Mark) -> None:
        self._thread = thread
        self.mark = mark

    async def upto(self, event: Event) -> AsyncIterator[Told]:
        """What has not been told, up to an event and with it."""
        mark = event.mark
        if mark is None or mark <= self.mark:
            return
        if not self._is_next(mark):
            with suppress(ThreadNotFound):  # then it is kept in this process alone, and told by the turn
                async for each in self._between(mark[0] - 1 if mark[1] == 0 else mark[0]):
                    yield each
        if mark > self.mark:
            self.mark = mark
            yield told(event)

    async def rest(self) -> AsyncIterator[Told]:
        """What has not been told, up to now."""
        with suppress(ThreadNotFound):
            async for each in self._between(None):
                yield each

    def _is_next(self, mark: Mark) -> bool:
        version, index = self.mark
        return mark == (version, index + 1) or (mark[0] == version + 1 and mark[1] == 0)

    async def _between(self, upto: int | None) -> AsyncIterator[Told]:
        after = max(self.mark[0] - 1, 0)
        while changes := await self._thread.changesets(after=after, upto=upto, limit=PAGE):
            for change in changes:
                for event in events_of(change):
                    if event.mark is not None and event.mark > self.mark:
                        self.mark = event.mark
                        yield told(event)
            after = changes[-1].version


async def _pumped(
    events: AsyncIterator[Event],
    queue: "asyncio.Queue[Event | BaseException | None]",
    log: "asyncio.Task[None]",
) -> None:
    """Put a turn's events into a queue; from the first of them on, nobody has to look into the log."""
    try:
        async for event in events:
            log.cancel()
            queue.put_nowait(event)
    except Exception as error:  # noqa: BLE001  # whoever reads the queue raises it, or tells of it
        queue.put_nowait(error)
    queue.put_nowait(None)


async def _logged(
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


async def begun(db: Database, thread: str, key: str | None) -> Mark | None:
    """The mark before the turn with a key began, if it has; its events are told from there on."""
    if key is None:
        return None
    try:
        run = run_of(await db.records.get(KIND, key_id(thread, key)))
        upto = (await db.thread(thread).head()).version
    except NotThere:
        return None
    first = upto + 1
    while upto > 0:
        page = await db.thread(thread).changesets(after=max(upto - PAGE, 0), upto=upto, limit=PAGE)
        first = next((change.version for change in page if change.run_id == run.id), first)
        if page[0].time < run.started - CLOCKS_APART:
            break
        upto -= PAGE
    return first - 1, LAST


async def _version(thread: Thread) -> int:
    try:
        return (await thread.head()).version
    except ThreadNotFound:
        return 0


class Opened:
    """A stream whose first event may have come already, so that an error at once is no stream at all."""

    def __init__(self, events: AsyncIterator[Told]) -> None:
        self._events = events
        self._next: asyncio.Task[Told | None] | None = None

    async def peek(self, seconds: float) -> None:
        """Wait a little for the first event.

        Raises:
            ClewError: There is an error instead.
        """
        self._next = asyncio.create_task(self._one())
        done, _ = await asyncio.wait([self._next], timeout=seconds)
        if done:
            self._next.result()

    async def told(self) -> AsyncIterator[Told]:
        """The events; an error is the last of them."""
        try:
            while (event := await (self._next or self._one())) is not None:
                self._next = None
                yield event
        except ClewError as error:
            yield problem_event(error)
        finally:
            await self.close()

    async def as_bytes(self, ping_seconds: float, closing: asyncio.Event) -> AsyncIterator[bytes]:
        """The events as they are sent, with a sign of life while there are none.

        Once the server is closing it stops without an end, so that a client goes on elsewhere.
        """
        stop, last = asyncio.create_task(closing.wait()), ""
        try:
            while True:
                self._next = self._next or asyncio.create_task(self._one())
                done, _ = await asyncio.wait(
                    [self._next, stop], timeout=ping_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                if stop in done:
                    return
                if not done:
                    yield PING
                    continue
                event = self._next.result()
                if event is None:
                    break
                self._next, last = None, event.type
                yield as_bytes(event)
            yield as_bytes(Told(type=END, data={}))
        except ClewError as error:
            yield as_bytes(problem_event(error))
        except Exception:  # who is cut off takes it for a lost connection, and asks again and again
            log.exception("A stream failed")
            said = last == FINISHED  # the end of the run has told what went wrong
            yield as_bytes(Told(type=END, data={}) if said else Told(type=ERROR, data=plain(failure())))
        finally:
            stop.cancel()
            await self.close()

    async def close(self) -> None:
        """Listen no more."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
            self._next = None
        if isinstance(self._events, AsyncGenerator):
            await self._events.aclose()

    async def _one(self) -> Told | None:
        return await anext(self._events, None)
