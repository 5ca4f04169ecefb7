"""Turns over a WebSocket: one connection, any number of threads; events bear the ``ref`` of their request."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import WebSocket, websocket
from litestar.exceptions import WebSocketDisconnect

from clew.api.events import StreamEvent
from clew.api.problems import choices_sentence
from clew.api.turns import NewTurn, SocketRequest
from clew.core.encoding import as_json, encode
from clew.core.errors import AccessRefused, ClewError, InvalidArgument, RateLimited, TooLarge
from clew.server.http.callers import Caller, CurrentCaller
from clew.server.http.paths import check_reachable
from clew.server.http.sse import EventStream, end_event, events_while_admitted, failure_event, problem_event
from clew.server.routes.turns import turn_events
from clew.server.tenants.turn_events import parse_event_id, thread_events

log = logging.getLogger("clew.server")
MOST_REQUESTS = 16
"""How many requests of one connection may be under way."""
POLICY_VIOLATION, TRY_AGAIN_LATER = 1008, 1013
"""The codes with which a connection is closed: access refused, or too busy."""


@websocket("/ws", name="talk")
async def serve_websocket(socket: WebSocket[Any, Any, Any], caller: CurrentCaller) -> None:
    """Take requests, and send the events of each as they come. Each is authenticated and counted."""
    await socket.accept()
    connection = _SocketConnection(socket, caller)
    try:
        with caller.stream_slot():
            while True:
                text = await socket.receive_data(mode="text")
                await caller.recheck_access()
                await connection.start_request(text)
    except ClewError as error:
        await connection.send(None, problem_event(error))
        await socket.close(code=POLICY_VIOLATION if isinstance(error, AccessRefused) else TRY_AGAIN_LATER)
    except WebSocketDisconnect:
        pass
    finally:
        await connection.close()


class _SocketConnection:
    """One connection, and the tasks of its requests."""

    def __init__(self, socket: WebSocket[Any, Any, Any], caller: Caller) -> None:
        self._socket = socket
        self._caller = caller
        self._tasks: set[asyncio.Task[None]] = set()
        self._send_lock = asyncio.Lock()

    async def start_request(self, text: str | bytes) -> None:
        """Start the request of a message; one that is refused gets a problem and an end."""
        ref = None
        try:
            request = _parse_request(text, self._caller.resources.settings.body)
            ref = request.ref
            self._caller.resources.user_requests.take(self._caller.name)
            if len(self._tasks) >= MOST_REQUESTS:
                raise RateLimited(
                    what="requests on one connection", limit=MOST_REQUESTS, retry_after_ms=1_000
                )
            task = asyncio.create_task(self._send_events(request))
        except ClewError as error:
            await self.send(ref, problem_event(error))
            await self.send(ref, end_event())
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_events(self, request: SocketRequest) -> None:
        stream = EventStream(events_while_admitted(self._caller, _request_events(self._caller, request)))
        try:
            async for event in stream.events():
                await self.send(request.ref, event)
            await self.send(request.ref, end_event())
        except WebSocketDisconnect:
            pass  # the turn goes on; its events can be read again
        except Exception:  # nothing awaits this task, and the client would wait for an end that never comes
            log.exception("A request for thread %s failed", request.thread)
            await self.send(request.ref, failure_event())
            await self.send(request.ref, end_event())

    async def send(self, ref: str | None, event: StreamEvent) -> None:
        """Send one event."""
        fields = {**as_json(event), "ref": ref}
        async with self._send_lock:
            await self._socket.send_data(encode(fields).decode(), mode="text")

    async def close(self) -> None:
        """Cancel the requests that are under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _parse_request(text: str | bytes, limit: int) -> SocketRequest:
    size = len(text.encode() if isinstance(text, str) else text)
    if size > limit:
        raise TooLarge(what="message", size=size, limit=limit)
    try:
        return msgspec.json.decode(text, type=SocketRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        field = str(error).rpartition("`$.")[2].removesuffix("`")
        advice = choices_sentence(SocketRequest, field)
        problem = f"The message is not valid: {error}." + (f" {advice}." if advice else "")
        raise InvalidArgument(problem=problem) from error


async def _request_events(caller: Caller, request: SocketRequest) -> AsyncIterator[StreamEvent]:
    if request.type == "turn":
        if request.message is None:
            raise InvalidArgument(problem="The message is not valid: a turn needs a message.")
        turn = NewTurn(
            message=request.message,
            user=request.user,
            mode=request.mode,
            busy=request.busy,
            agent=request.agent,
            channel=request.channel,
            installed_skills=request.installed_skills,
        )
        async for event in turn_events(
            caller, request.thread, turn, key=request.key, origin="websocket", last_event=request.after
        ):
            yield event
        return
    thread = check_reachable(request.thread)
    async with caller.thread_access(thread) as access:
        if not access.is_incognito:
            await access.db.thread(thread).head()
        if request.type == "cancel":
            was_cancelled = await access.runtime.cancel(thread, user=access.user)
            yield StreamEvent(type="cancelled", data={"cancelled": was_cancelled})
            return
        mark = parse_event_id(request.after)
        async for event in thread_events(access.runtime, thread, access.user, mark, None):
            yield event


WEBSOCKET_ROUTES = [serve_websocket]
