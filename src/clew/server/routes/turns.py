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

from clew.api.requests import Mode, NewTurn, NewTurnOn
from clew.api.threads import Told, TurnView
from clew.core.encoding import check_id
from clew.core.errors import ClewError
from clew.runtime.context import MemoryMode
from clew.runtime.execution.turn_options import TurnOptions
from clew.runtime.records.events import Event, RunFinished
from clew.runtime.runtime import LAST
from clew.server.http.callers import Caller, Calling, Home, ThreadId, reachable
from clew.server.http.idempotency import KEY, OWN
from clew.server.http.openapi import ALSO, VERSIONED, WORKS
from clew.server.http.sse import Opened, begun, following, mark_of, turning
from clew.server.http.views import turn_view

EVENTS = "text/event-stream"
PEEK_SECONDS = 0.25
"""How long an answer waits for the first event, so that an error at once has a status of its own."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
CHECKED_SECONDS = 10.0
"""For how long it is taken that whoever hears a stream is still let in."""

TOLD = ResponseSpec(
    TurnView, generate_examples=False, description="The turn; or its events, if those are accepted."
)
TURN = {OWN: True, WORKS: True, VERSIONED: True, ALSO: [EVENTS]}

LastEvent = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", description="The last event that was seen; go on behind it."),
]


@post(
    "/threads/{id:str}/turns",
    operation_id="post_turn",
    opt=TURN,
    status_code=200,
    responses={200: TOLD},
)
async def post_turn(
    thread_id: ThreadId,
    data: JSONBody[NewTurn],
    caller: Calling,
    request: Request[Any, Any, Any],
    last_event: LastEvent = None,
) -> Response[Any]:
    """Run one turn. With ``Accept: text/event-stream`` it is told as it goes.

    With an Idempotency-Key it can be sent again after anything: the turn is made once, and goes on where it
    was if its process has died.
    """
    return await _turn(thread_id, data, caller, request, last_event)


@post(
    "/turns",
    operation_id="post_turn_on",
    opt=TURN,
    status_code=200,
    responses={200: TOLD},
)
async def post_turn_on(
    data: JSONBody[NewTurnOn], caller: Calling, request: Request[Any, Any, Any], last_event: LastEvent = None
) -> Response[Any]:
    """Run one turn on the thread that the body names. No thread is ever made up."""
    return await _turn(reachable(data.thread), data, caller, request, last_event)


@get("/threads/{id:str}/events", operation_id="follow_thread", media_type=EVENTS)
async def follow_thread(
    thread_id: ThreadId,
    caller: Calling,
    last_event: LastEvent = None,
    after: Annotated[str | None, QueryParameter(description="The same as Last-Event-ID.")] = None,
    run: Annotated[str | None, QueryParameter(description="End when this run has ended.")] = None,
) -> Stream:
    """The durable events of a thread as they commit, from the one after an event on, or from now."""
    mark = mark_of(last_event if last_event is not None else after)
    incognito = await caller.serving.runtimes.guests.holds(caller.guest(), thread_id)
    if not incognito:
        head = await caller.db.thread(thread_id).head()
        mark = mark or (head.version, LAST)

    async def events() -> AsyncIterator[Told]:
        async with caller.home(thread_id) as home:
            async for event in following(home.runtime, thread_id, home.user, mark, run):
                yield event

    return await streamed(caller, events(), peek=incognito, closing=caller.serving.closing)


async def _turn(
    thread: str, data: NewTurn, caller: Caller, request: Request[Any, Any, Any], last_event: str | None
) -> Response[Any]:
    key = request.headers.get(KEY)
    if key is not None:
        check_id(key, "idempotency key")
    options = TurnOptions(
        user=data.user,
        key=key,
        busy=data.busy,
        message_id=data.message_id,
        origin="http",
        mode=mode_of(data.mode),
    )
    if EVENTS in request.headers.get("accept", ""):
        events = turn_events(caller, thread, data.message, options, last_event)
        return await streamed(caller, events, peek=True)
    with caller.serving.turns.enter(caller.name):
        async with _home(caller, thread, options) as home:
            began = time.perf_counter()
            try:
                said = caller.serving.agent.given(data.message, thread, home.user)
                done = await home.runtime.run_turn(thread, said, **_at(home, options))
            except ClewError:
                caller.serving.metrics.turns.labels("refused").inc()
                raise
            counted(caller, done.termination, began)
    return Response(turn_view(done), headers={"ETag": f'"{done.version}"'})


def mode_of(said: Mode | None) -> MemoryMode | None:
    """The mode that a request asks for; None for the one that is offered."""
    return None if said is None else MemoryMode[said.upper()]


def _home(caller: Caller, thread: str, options: TurnOptions) -> AbstractAsyncContextManager[Home]:
    """Where a turn runs. An incognito one is nobody's; any other is somebody's."""
    return caller.home(thread, mode=options.get("mode"), user=options.get("user"), someone=True)


def _at(home: Home, options: TurnOptions) -> TurnOptions:
    """What is said about a turn, as it is said where its thread is at home."""
    return {**options, "user": home.user, "mode": home.mode}


async def turn_events(
    caller: Caller, thread: str, message: str, options: TurnOptions, last_event: str | None
) -> AsyncIterator[Told]:
    """A turn as it goes, counted and within the limits."""
    mark = mark_of(last_event)
    with caller.serving.turns.enter(caller.name):
        async with _home(caller, thread, options) as home:
            began, at_home = time.perf_counter(), _at(home, options)
            said = caller.serving.agent.given(message, thread, home.user)

            async def told() -> AsyncIterator[Event]:
                async for event in home.runtime.stream_turn(thread, said, **at_home):
                    if isinstance(event, RunFinished):
                        counted(caller, event.termination, began)
                    yield event

            mark = mark or await begun(home.db, thread, options.get("key"))
            async for each in turning(told(), home.runtime, home.db.thread(thread), home.user, mark):
                yield each


def counted(caller: Caller, termination: str, began: float) -> None:
    """Count a turn that has ended."""
    caller.serving.metrics.turns.labels(termination).inc()
    caller.serving.metrics.turn_seconds.observe(time.perf_counter() - began)


async def to_the_welcome(caller: Caller, events: AsyncIterator[Told]) -> AsyncIterator[Told]:
    """Events for as long as the caller is let in: a key that was revoked hears nothing more.

    Raises:
        AccessRefused: The caller is not let in any more.
    """
    checked = time.monotonic()
    async with aclosing(events) as told:  # type: ignore[type-var]  # a generator
        async for event in told:
            if time.monotonic() - checked > CHECKED_SECONDS:
                await caller.again()
                checked = time.monotonic()
            yield event


async def streamed(
    caller: Caller, events: AsyncIterator[Told], *, peek: bool, closing: asyncio.Event | None = None
) -> Stream:
    """A stream of events, within the limits of open ones; with a peek, unless an error comes at once."""
    with ExitStack() as held:
        held.enter_context(caller.streaming())
        opened = Opened(to_the_welcome(caller, events))
        if peek:
            await opened.peek(PEEK_SECONDS)
        place = held.pop_all()

    async def sent() -> AsyncIterator[bytes]:
        with place:
            ping = caller.serving.settings.ping_seconds
            async for chunk in opened.as_bytes(ping, closing or asyncio.Event()):
                yield chunk

    told = sent()
    weakref.finalize(told, place.close)  # a client that left before the first byte never has it begun
    return Stream(told, media_type=EVENTS, headers=HEADERS)


TURNS = [post_turn, post_turn_on, follow_thread]
