"""AG-UI over HTTP: the input of a run comes in, and the run goes out event by event."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from litestar import Request
from litestar.params import JSONBody
from litestar.response import Stream

from clew.api.ag_ui import RUN_AG_UI, AgUiInput, AgUiOptions
from clew.api.events import StreamEvent
from clew.api.route import IDEMPOTENCY_KEY
from clew.api.turns import NewTurn
from clew.core.encoding import check_id
from clew.core.errors import MissingExtra, TurnBusy
from clew.runtime.model.messages import Message
from clew.runtime.records.events import Mark
from clew.server.http.callers import Caller, CurrentCaller, ThreadAccess
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import LastEvent, memory_mode
from clew.server.http.paths import check_reachable
from clew.server.http.sse import stream_response
from clew.server.routes.turns import turn_events
from clew.server.tenants.turn_events import parse_event_id, resumable_turn_events

if TYPE_CHECKING:
    from clew.server.protocols.ag_ui.plan import RunPlan, ThreadPoint

ORIGIN = "ag-ui"
"""The origin of turns that come by this protocol."""


@endpoint(RUN_AG_UI)
async def run_ag_ui(
    data: JSONBody[AgUiInput],
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    last_event: LastEvent = None,
) -> Stream:
    """Run an agent as AG-UI 1.0 has it; the events of the run are sent as they come.

    A new message of the user at the end of the list starts a turn, once, however often it is sent. ``resume``
    answers interrupts. Anything else gives the client what it does not have, and follows a run at work.
    """
    if find_spec("ag_ui") is None:
        raise MissingExtra(extra="server", package="ag-ui-protocol")
    # The package takes a while to import, and most servers are never asked for it.
    from clew.server.protocols.ag_ui.plan import options_of, read_plan
    from clew.server.protocols.ag_ui.run import encode_ag_ui

    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is not None:
        check_id(key, "idempotency key")
    check_id(data.run_id, "run id")
    check_reachable(check_id(data.thread_id, "thread id"))
    options = options_of(data)
    cursor = parse_event_id(last_event if last_event is not None else options.last_event_id)
    async with _access(caller, data, options) as access:
        plan, point = await read_plan(access.db, data, cursor, key)
        if plan.kind == "resume":
            await access.check_user(data.thread_id)
    events = _run_events(caller, data, options, plan, point)
    closing = caller.resources.closing if plan.kind == "follow" else None
    return await stream_response(caller, events, peek=True, closing=closing, encode=encode_ag_ui)


async def _run_events(
    caller: Caller, data: AgUiInput, options: AgUiOptions, plan: "RunPlan", point: "ThreadPoint"
) -> AsyncIterator[StreamEvent]:
    """Do what a plan says, within the limits, and iterate over the events of the run."""
    from clew.server.protocols.ag_ui.run import AgUiRun

    async with _access(caller, data, options) as access:
        work: AsyncIterator[StreamEvent] | None = None
        if plan.kind == "turn":
            work = _turn(caller, data, options, plan, point.mark)
        elif plan.kind == "resume":
            work = _resumption(caller, access, plan, data.thread_id, point.mark)
        async for event in AgUiRun(access, data, plan, point).events(work):
            yield event


def _access(
    caller: Caller, data: AgUiInput, options: AgUiOptions
) -> AbstractAsyncContextManager[ThreadAccess]:
    mode = memory_mode(options.mode)
    return caller.thread_access(data.thread_id, mode=mode, user=options.user, agent=options.agent)


def _turn(
    caller: Caller, data: AgUiInput, options: AgUiOptions, plan: "RunPlan", mark: Mark
) -> AsyncIterator[StreamEvent]:
    """Run a turn with the new messages of the input, the last of which is its own."""
    from clew.server.protocols.ag_ui.plan import text_of_message

    *earlier, last = plan.messages
    turn = NewTurn(
        message=text_of_message(last),
        user=options.user,
        mode=options.mode,
        message_id=last.id,
        busy=options.busy,
        channel=options.channel,
        installed_skills=options.installed_skills,
        agent=options.agent,
    )
    messages = [Message(role="user", id=each.id, content=text_of_message(each)) for each in earlier]
    return turn_events(
        caller, data.thread_id, turn, key=plan.key, origin=ORIGIN, after=mark, messages=messages
    )


async def _resumption(
    caller: Caller, access: ThreadAccess, plan: "RunPlan", thread: str, mark: Mark
) -> AsyncIterator[StreamEvent]:
    """Go on with the run of a plan."""
    events = access.runtime.stream_resume(thread, plan.decisions, user=access.user)
    with caller.resources.user_turns.enter(caller.name), suppress(TurnBusy):  # another request was faster
        async for each in resumable_turn_events(
            events, access.runtime, access.db.thread(thread), access.user, mark
        ):
            yield each


AG_UI_ROUTES = [run_ag_ui]
