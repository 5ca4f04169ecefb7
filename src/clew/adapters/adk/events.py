"""Between ADK's events and items; and from plain messages to events."""

import logging
from collections.abc import Iterable, Iterator

from google.adk.events import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from clew.adapters.adk.scopes import persistent_state
from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, check_finite
from clew.core.errors import InvalidValue
from clew.core.messages.plain import PlainMessage, messages_by_role
from clew.core.values import HISTORY, Head, Item, Window
from clew.database.thread import Thread

FORMAT = "adk"
"""The format of the items."""

EVENTS_PER_PAGE = 64

_log = logging.getLogger(__name__)


def item_of(event: Event) -> Item:
    """An event as an item, without temporary state.

    Raises:
        InvalidValue: The event has no JSON form.
    """
    check_finite(event.model_dump(exclude_none=True), "event")
    try:
        body = event.model_dump(mode="json", exclude_none=True)
    except PydanticSerializationError as error:
        raise InvalidValue(path=f"event {event.id!r}", problem=str(error)) from error
    body["actions"]["state_delta"] = persistent_state(body["actions"]["state_delta"])
    return item_of_body(body)


def item_of_body(body: dict[str, JSON]) -> Item:
    """An event in its JSON form as an item."""
    run = body.get("invocation_id") or None
    return Item(body=body, role=_role_of(body), id=body.get("id"), format=FORMAT, run=run)


def _role_of(body: dict[str, JSON]) -> str:
    if body.get("author") == "user":
        return "user"
    content = body.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    has_responses = any(isinstance(part, dict) and part.get("function_response") for part in parts or ())
    return "tool" if has_responses else "assistant"


async def read_events(thread: Thread, version: int, config: GetSessionConfig | None) -> list[Event]:
    """The events of a version that a window asks for, oldest first."""
    limit = config.num_recent_events if config else None
    since = config.after_timestamp if config else None
    if limit == 0:
        return []
    if since is None:
        return _events_in(await thread.items(at=version, last=limit), thread.id)
    events: list[Event] = []
    before: int | None = None
    while limit is None or len(events) < limit:
        page = await thread.items(at=version, last=EVENTS_PER_PAGE, before=before)
        newer = [event for event in _events_in(page, thread.id) if event.timestamp >= since]
        events = newer + events
        # Clocks differ a little, so one event that is too early does not end it; a page of them does.
        if not newer:
            break
        before = page[0].place
    return events if limit is None else events[-limit:]


async def read_update_time(thread: Thread, head: Head) -> float:
    """The time of a session's newest event, in seconds; of its last change if it has none."""
    if HISTORY in head.counters.logs:
        for item in await thread.items(last=1, at=head.version):
            if isinstance(item.body, dict) and isinstance(item.body.get("timestamp"), float | int):
                return float(item.body["timestamp"])
    return head.updated / 1000


def _events_in(window: Window, thread: str) -> list[Event]:
    """The events in a window. What cannot be read is reported, and hides nothing else."""
    for unreadable in window.broken:
        _log.warning("Thread %r: item %d cannot be read: %s", thread, unreadable.place, unreadable.problem)
    return [event for item in window if (event := _event_of(item, thread)) is not None]


def _event_of(item: Item, thread: str) -> Event | None:
    if item.format != FORMAT:
        _log.warning("Thread %r: item %d is no event, but %r.", thread, item.place, item.format)
        return None
    try:
        return Event.model_validate(item.body)
    except ValidationError as error:
        _log.warning("Thread %r: item %d cannot be read: %s", thread, item.place, error)
        return None


@check_arguments
def events_of(messages: Iterable[PlainMessage], *, agent: str, invocation_id: str = "") -> list[Event]:
    """Plain messages as events, ready to append: what an agent says or gets at once is one event.

    Instructions are left out: in ADK they belong to the agent, not to the session.
    """
    return [
        Event(
            author="user" if role == "user" else agent,
            invocation_id=invocation_id,
            content=types.Content(
                role="model" if role == "assistant" else "user", parts=list(_parts_of(group))
            ),
        )
        for role, group in messages_by_role(messages)
        if role != "system"
    ]


def _parts_of(messages: Iterable[PlainMessage]) -> Iterator[types.Part]:
    for message in messages:
        if message.text:
            yield types.Part(text=message.text)
        for call in message.calls:
            args = call.arguments if isinstance(call.arguments, dict) else {"value": call.arguments}
            yield types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=args))
        for result in message.results:
            output = result.output if isinstance(result.output, dict) else {"result": result.output}
            answer = types.FunctionResponse(id=result.id, name=result.name, response=output)
            yield types.Part(function_response=answer)
