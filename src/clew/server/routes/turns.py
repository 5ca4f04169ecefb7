"""Turns over HTTP: post a message, hear the answer whole or as it comes, go on after a lost connection."""

import asyncio
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing
from typing import Annotated, Any

from litestar import Request, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, JSONBody, QueryParameter
from litestar.response import Stream

from clew.api.requests import MemoryModeName, NewThreadTurn, NewTurn
from clew.api.threads import StreamEvent, TurnView
from clew.core.encoding import check_id
from clew.core.errors import ClewError
from clew.runtime.context import MemoryMode
from clew.runtime.records.events import Event, RunFinished
from clew.runtime.runtime import AFTER_LAST_EVENT
from clew.server.http.callers import Caller, CurrentCaller, ThreadAccess, ThreadId, check_reachable
from clew.server.http.idempotency import COMMITS_KEY, KEY_HEADER
from clew.server.http.openapi import HAS_ETAG, OTHER_MEDIA_TYPES, RUNS_MODEL
from clew.server.http.sse import (
    EventStream,
    mark_before_turn,
    parse_event_id,
    resumable_turn_events,
    thread_events,
)
from clew.server.http.views import turn_view

EVENT_STREAM = "text/event-stream"
PEEK_SECONDS = 0.25
"""How long an answer waits for the first event, so that an error at once has a status of its own."""
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
RECHECK_SECONDS = 10.0
"""For how long it is taken that whoever hears a stream is still let in."""

HTTP = "http"
"""The origin of turns that come by a request of their own."""
TURN_RESPONSE = ResponseSpec(
    TurnView, generate_examples=False, description="The turn; or its events, if those are accepted."
)
TURN_MARKS = {COMMITS_KEY: True, RUNS_MODEL: True, HAS_ETAG: True, OTHER_MEDIA_TYPES: [EVENT_STREAM]}

LastEvent = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", description="The last event that was seen; go on behind it."),
]


@post(
    "/threads/{id:str}/turns",
    operation_id="post_turn",
    opt=TURN_MARKS,
    status_code=200,
    responses={200: TURN_RESPONSE},
)
async def post_turn(
    thread_id: ThreadId,
    data: JSONBody[NewTurn],
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    last_event: LastEvent = None,
) -> Response[Any]:
    """Run one turn. With ``Accept: text/event-stream`` it is told as it goes.

    With an Idempotency-Key it can be sent again after anything: the turn is made once, and goes on where it
    was if its process has died.
    """
    return await _run_turn(thread_id, data, caller, request, last_event)


@post(
    "/turns",
    operation_id="post_turn_on",
    opt=TURN_MARKS,
    status_code=200,
    responses={200: TURN_RESPONSE},
)
async def post_thread_turn(
    data: JSONBody[NewThreadTurn],
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    last_event: LastEvent = None,
) -> Response[Any]:
    """Run one turn on the thread that the body names. No thread is ever made up."""
    return await _run_turn(check_reachable(data.thread), data, caller, request, last_event)


@get("/threads/{id:str}/events", operation_id="follow_thread", media_type=EVENT_STREAM)
async def follow_thread(
    thread_id: ThreadId,
    caller: CurrentCaller,
    last_event: LastEvent = None,
    after: Annotated[str | None, QueryParameter(description="The same as Last-Event-ID.")] = None,
    run: Annotated[str | None, QueryParameter(description="End when this run has ended.")] = None,
) -> Stream:
    """The durable events of a thread as they commit, from the one after an event on, or from now."""
    mark = parse_event_id(last_event if last_event is not None else after)
    is_incognito = await caller.resources.runtimes.incognito.has_thread(caller.user_key(), thread_id)
    if not is_incognito:
        head = await caller.db.thread(thread_id).head()
        mark = mark or (head.version, AFTER_LAST_EVENT)

    async def events() -> AsyncIterator[StreamEvent]:
        async with caller.thread_access(thread_id) as access:
            async for event in thread_events(access.runtime, thread_id, access.user, mark, run):
                yield event

    return await stream_response(caller, events(), peek=is_incognito, closing=caller.resources.closing)


async def _run_turn(
    thread: str, data: NewTurn, caller: Caller, request: Request[Any, Any, Any], last_event: str | None
) -> Response[Any]:
    key = request.headers.get(KEY_HEADER)
    if key is not None:
        check_id(key, "idempotency key")
    if EVENT_STREAM in request.headers.get("accept", ""):
        events = turn_events(caller, thread, data, key=key, origin=HTTP, last_event=last_event)
        return await stream_response(caller, events, peek=True)
    with caller.resources.user_turns.enter(caller.name):
        async with _turn_access(caller, thread, data) as access:
            start = time.perf_counter()
            try:
                turn_input = caller.resources.agent.turn_input(data.message, thread, access.user)
                result = await access.runtime.run_turn(
                    thread,
                    turn_input,
                    user=access.user,
                    key=key,
                    busy=data.busy,
                    message_id=data.message_id,
                    origin=HTTP,
                    mode=access.mode,
                )
            except ClewError:
                caller.resources.metrics.turns.labels("refused").inc()
                raise
            count_turn(caller, result.termination, start)
    return Response(turn_view(result), headers={"ETag": f'"{result.version}"'})


def memory_mode(name: MemoryModeName | None) -> MemoryMode | None:
    """The mode that a request asks for; None for the one that is offered."""
    return None if name is None else MemoryMode[name.upper()]


def _turn_access(caller: Caller, thread: str, turn: NewTurn) -> AbstractAsyncContextManager[ThreadAccess]:
    """Access to the thread of a turn. An incognito turn is nobody's; any other needs a user."""
    return caller.thread_access(thread, mode=memory_mode(turn.mode), user=turn.user, needs_user=True)


async def turn_events(
    caller: Caller, thread: str, turn: NewTurn, *, key: str | None, origin: str, last_event: str | None
) -> AsyncIterator[StreamEvent]:
    """The events of a turn as it goes, counted and within the limits."""
    mark = parse_event_id(last_event)
    with caller.resources.user_turns.enter(caller.name):
        async with _turn_access(caller, thread, turn) as access:
            start = time.perf_counter()
            turn_input = caller.resources.agent.turn_input(turn.message, thread, access.user)

            async def run_events() -> AsyncIterator[Event]:
                async for event in access.runtime.stream_turn(
                    thread,
                    turn_input,
                    user=access.user,
                    key=key,
                    busy=turn.busy,
                    message_id=turn.message_id,
                    origin=origin,
                    mode=access.mode,
                ):
                    if isinstance(event, RunFinished):
                        count_turn(caller, event.termination, start)
                    yield event

            mark = mark or await mark_before_turn(access.db, thread, key)
            async for each in resumable_turn_events(
                run_events(), access.runtime, access.db.thread(thread), access.user, mark
            ):
                yield each


def count_turn(caller: Caller, termination: str, start: float) -> None:
    """Count a turn that has ended."""
    caller.resources.metrics.turns.labels(termination).inc()
    caller.resources.metrics.turn_seconds.observe(time.perf_counter() - start)


async def events_while_admitted(
    caller: Caller, events: AsyncIterator[StreamEvent]
) -> AsyncIterator[StreamEvent]:
    """Events for as long as the caller is let in: a key that was revoked hears nothing more.

    Raises:
        AccessRefused: The caller is not let in any more.
    """
    last_check = time.monotonic()
    async with aclosing(events) as source:  # type: ignore[type-var]  # a generator
        async for event in source:
            if time.monotonic() - last_check > RECHECK_SECONDS:
                await caller.recheck_access()
                last_check = time.monotonic()
            yield event


async def stream_response(
    caller: Caller, events: AsyncIterator[StreamEvent], *, peek: bool, closing: asyncio.Event | None = None
) -> Stream:
    """A stream of events, within the limits of open ones; with a peek, unless an error comes at once."""
    with ExitStack() as stack:
        stack.enter_context(caller.stream_slot())
        stream = EventStream(events_while_admitted(caller, events))
        if peek:
            await stream.peek(PEEK_SECONDS)
        slot = stack.pop_all()

    async def chunks() -> AsyncIterator[bytes]:
        with slot:
            ping = caller.resources.settings.ping_seconds
            async for chunk in stream.chunks(ping, closing or asyncio.Event()):
                yield chunk

    body = chunks()
    weakref.finalize(body, slot.close)  # a client that left before the first byte never has it begun
    return Stream(body, media_type=EVENT_STREAM, headers=STREAM_HEADERS)


TURN_ROUTES = [post_turn, post_thread_turn, follow_thread]
