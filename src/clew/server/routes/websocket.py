"""Turns over a WebSocket: one connection, any number of threads, each request told apart by its ``ref``."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec
from litestar import WebSocket, websocket
from litestar.exceptions import WebSocketDisconnect

from clew.api.requests import Mode
from clew.api.threads import Told
from clew.core.encoding import encode, plain
from clew.core.errors import AccessRefused, ClewError, InvalidArgument, RateLimited, TooLarge
from clew.runtime.execution.turn_options import TurnOptions
from clew.server.http.callers import Caller, Calling, reachable
from clew.server.http.sse import END, ERROR, Opened, following, mark_of, problem_event
from clew.server.http.views import failure
from clew.server.routes.turns import mode_of, to_the_welcome, turn_events

log = logging.getLogger("clew.server")
AT_ONCE = 16
"""How many requests of one connection may be under way."""
NOT_WELCOME, LATER = 1008, 1013
"""Why a line is closed: who asks may not, or not now."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends. ``after`` is the last event it has seen."""

    type: Literal["turn", "follow", "cancel"]
    thread: str
    ref: str | None = None
    message: str | None = None
    user: str | None = None
    key: str | None = None
    after: str | None = None
    mode: Mode | None = None
    busy: Literal["wait", "refuse", "queue"] = "wait"


@websocket("/ws", name="talk")
async def talk(socket: WebSocket[Any, Any, Any], caller: Calling) -> None:
    """Take requests, and send the events of each as they come. Each is looked at like one of its own."""
    await socket.accept()
    line = _Line(socket, caller)
    try:
        with caller.streaming():
            while True:
                text = await socket.receive_data(mode="text")
                await caller.again()
                await line.take(text)
    except ClewError as error:
        await line.send(None, problem_event(error))
        await socket.close(code=NOT_WELCOME if isinstance(error, AccessRefused) else LATER)
    except WebSocketDisconnect:
        pass
    finally:
        await line.close()


class _Line:
    """One connection."""

    def __init__(self, socket: WebSocket[Any, Any, Any], caller: Caller) -> None:
        self._socket = socket
        self._caller = caller
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()

    async def take(self, text: str | bytes) -> None:
        """Begin what a message asks for; what is wrong with it is said."""
        ref = None
        try:
            asked = _read(text, self._caller.serving.settings.body)
            ref = asked.ref
            self._caller.serving.pace.take(self._caller.name)
            if len(self._tasks) >= AT_ONCE:
                raise RateLimited(what="requests on one connection", limit=AT_ONCE, retry_after_ms=1_000)
            task = asyncio.create_task(self._told(asked))
        except ClewError as error:
            await self.send(ref, problem_event(error))
            await self.send(ref, Told(type=END, data={}))
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _told(self, asked: Asked) -> None:
        opened = Opened(to_the_welcome(self._caller, _events(self._caller, asked)))
        try:
            async for event in opened.told():
                await self.send(asked.ref, event)
            await self.send(asked.ref, Told(type=END, data={}))
        except WebSocketDisconnect:
            pass  # the turn goes on; its events can be had again
        except Exception:  # nobody awaits this: who asked would wait for an end that never comes
            log.exception("A request for thread %s failed", asked.thread)
            await self.send(asked.ref, Told(type=ERROR, data=plain(failure())))
            await self.send(asked.ref, Told(type=END, data={}))

    async def send(self, ref: str | None, event: Told) -> None:
        """Send one event."""
        said = {**plain(event), "ref": ref}
        async with self._sending:
            await self._socket.send_data(encode(said).decode(), mode="text")

    async def close(self) -> None:
        """Listen no more."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _read(text: str | bytes, most: int) -> Asked:
    size = len(text.encode() if isinstance(text, str) else text)
    if size > most:
        raise TooLarge(what="message", size=size, limit=most)
    try:
        return msgspec.json.decode(text, type=Asked)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(problem=f"The message cannot be used: {error}.") from error


async def _events(caller: Caller, asked: Asked) -> AsyncIterator[Told]:
    if asked.type == "turn":
        if asked.message is None:
            raise InvalidArgument(problem="The message cannot be used: a turn needs a message.")
        options = TurnOptions(
            user=asked.user, key=asked.key, busy=asked.busy, origin="websocket", mode=mode_of(asked.mode)
        )
        async for event in turn_events(caller, asked.thread, asked.message, options, asked.after):
            yield event
        return
    thread = reachable(asked.thread)
    async with caller.home(thread) as home:
        if not home.is_incognito:
            await home.db.thread(thread).head()
        if asked.type == "cancel":
            was = await home.runtime.cancel(thread, user=home.user)
            yield Told(type="cancelled", data={"cancelled": was})
            return
        mark = mark_of(asked.after)
        async for event in following(home.runtime, thread, home.user, mark, None):
            yield event


SOCKETS = [talk]
