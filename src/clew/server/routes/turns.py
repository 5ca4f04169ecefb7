"""Turns over HTTP: a message is posted, and its turn comes back whole or event by event."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from litestar import Request, Response
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from clew.api.events import EVENT_STREAM_TYPE, StreamEvent
from clew.api.route import IDEMPOTENCY_KEY
from clew.api.turns import POST_TURN, POST_TURN_ON, NewThreadTurn, NewTurn, TurnView
from clew.core.encoding import check_id
from clew.runtime.model.messages import Message
from clew.runtime.records.events import Mark
from clew.runtime.turn.result import TurnResult
from clew.server.http.callers import Caller, CurrentCaller, ThreadAccess, ThreadId
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import LastEvent, etag, memory_mode
from clew.server.http.paths import check_reachable
from clew.server.http.sse import stream_response
from clew.server.http.views import turn_view
from clew.server.tenants.turn_events import (
    mark_before_turn,
    parse_event_id,
    resumable_turn_events,
)

HTTP = "http"
"""The origin of turns that come by a request of their own."""
TURN_RESPONSE = ResponseSpec(
    TurnView, generate_examples=False, description="The turn; or its events, if those are accepted."
)


@endpoint(POST_TURN, responses={200: TURN_RESPONSE})
async def post_turn(
    thread_id: ThreadId,
    data: JSONBody[NewTurn],
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    last_event: LastEvent = None,
) -> Response[Any]:
    """Run one turn. With ``Accept: text/event-stream`` its events are sent as they come.

    With an Idempotency-Key it can be sent again after any failure: the turn runs once, and goes on where it
    was if its process has died.
    """
    return await _run_turn(thread_id, data, caller, request, last_event)


@endpoint(POST_TURN_ON, responses={200: TURN_RESPONSE})
async def post_thread_turn(
    data: JSONBody[NewThreadTurn],
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    last_event: LastEvent = None,
) -> Response[Any]:
    """Run one turn on the thread that the body names; a thread is never made up."""
    return await _run_turn(check_reachable(data.thread), data, caller, request, last_event)


async def _run_turn(
    thread: str, data: NewTurn, caller: Caller, request: Request[Any, Any, Any], last_event: str | None
) -> Response[Any]:
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is not None:
        check_id(key, "idempotency key")
    if EVENT_STREAM_TYPE in request.headers.get("accept", ""):
        events = turn_events(caller, thread, data, key=key, origin=HTTP, last_event=last_event)
        return await stream_response(caller, events, peek=True)
    result = await run_whole_turn(caller, thread, data, key=key, origin=HTTP)
    return Response(turn_view(result), headers=etag(result.version))


async def run_whole_turn(
    caller: Caller, thread: str, turn: NewTurn, *, key: str | None, origin: str
) -> TurnResult[Any]:
    """Run a turn within the limits, and return its result."""
    with caller.resources.user_turns.enter(caller.name):
        async with _turn_access(caller, thread, turn) as access:
            return await access.runtime.run_turn(
                thread,
                access.agent.turn_input(turn, thread, access.user),
                user=access.user,
                key=key,
                busy=turn.busy,
                message_id=turn.message_id,
                origin=origin,
                mode=access.mode,
            )


def _turn_access(caller: Caller, thread: str, turn: NewTurn) -> AbstractAsyncContextManager[ThreadAccess]:
    """Hold the place where a turn runs open."""
    mode = memory_mode(turn.mode)
    return caller.thread_access(thread, mode=mode, user=turn.user, agent=turn.agent)


async def turn_events(
    caller: Caller,
    thread: str,
    turn: NewTurn,
    *,
    key: str | None,
    origin: str,
    last_event: str | None = None,
    after: Mark | None = None,
    messages: Sequence[Message] = (),
) -> AsyncIterator[StreamEvent]:
    """Run a turn within the limits, and iterate over its events.

    ``after`` is the mark of the last event that the client has, in place of the id ``last_event``.
    ``messages`` come before that of the turn.
    """
    mark = after or parse_event_id(last_event)
    with caller.resources.user_turns.enter(caller.name):
        async with _turn_access(caller, thread, turn) as access:
            events = access.runtime.stream_turn(
                thread,
                access.agent.turn_input(turn, thread, access.user),
                user=access.user,
                key=key,
                busy=turn.busy,
                message_id=turn.message_id,
                messages=messages,
                origin=origin,
                mode=access.mode,
            )
            mark = mark or await mark_before_turn(access.db, thread, key)
            async for each in resumable_turn_events(
                events, access.runtime, access.db.thread(thread), access.user, mark
            ):
                yield each


TURN_ROUTES = [post_turn, post_thread_turn]
