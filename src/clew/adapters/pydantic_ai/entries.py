"""Between Pydantic AI's messages and items; and from plain messages to a history."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import cast

from pydantic import ValidationError
from pydantic_ai import messages as theirs
from pydantic_ai.conversation_store import ConversationEntry
from pydantic_core import PydanticSerializationError

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, check_finite
from clew.core.errors import InvalidValue
from clew.core.messages.orphans import find_orphans
from clew.core.messages.plain import PlainMessage, with_tool_names
from clew.core.values import Item, Window

FORMAT = "pydantic-ai"
"""The format of the items, and the key of a conversation's record in the state."""

CALL_PARTS = ("tool-call",)
TOOL_PARTS = ("tool-return", "retry-prompt")

_adapter = theirs.ModelMessagesTypeAdapter
_log = logging.getLogger(__name__)


def items_of(entries: Sequence[ConversationEntry]) -> list[Item]:
    """Entries as items.

    Raises:
        InvalidValue: A message has no JSON form.
    """
    return [
        Item(
            body=_json_of(entry.message),
            role=_role_of(entry.message),
            id=entry.id,
            format=FORMAT,
            run=entry.message.run_id,
        )
        for entry in entries
    ]


def _json_of(message: theirs.ModelMessage) -> JSON:
    check_finite(_adapter.dump_python([message])[0], message.kind)
    try:
        return _adapter.dump_python([message], mode="json")[0]
    except PydanticSerializationError as error:
        raise InvalidValue(path=f"a {message.kind}", problem=str(error)) from error


def _role_of(message: theirs.ModelMessage) -> str:
    if isinstance(message, theirs.ModelResponse):
        return "assistant"
    return "tool" if all(part.part_kind in TOOL_PARTS for part in message.parts) else "user"


def entries_of(window: Window, thread: str) -> list[ConversationEntry]:
    """The entries in a window, each linked to the one before it. What cannot be read is reported."""
    for unreadable in window.broken:
        _log.warning("Thread %r: item %d cannot be read: %s", thread, unreadable.place, unreadable.problem)
    entries: list[ConversationEntry] = []
    for item in window:
        message = _message_of(item, thread)
        if message is not None and item.id is not None:
            parent = entries[-1].id if entries else None
            entries.append(ConversationEntry(id=item.id, parent_id=parent, message=message))
    return entries


def _message_of(item: Item, thread: str) -> theirs.ModelMessage | None:
    if item.format != FORMAT:
        _log.warning("Thread %r: item %d is no message, but %r.", thread, item.place, item.format)
        return None
    try:
        return _adapter.validate_python([item.body])[0]
    except ValidationError as error:
        _log.warning("Thread %r: item %d cannot be read: %s", thread, item.place, error)
        return None


def closing_message(messages: Sequence[theirs.ModelMessage]) -> theirs.ModelRequest | None:
    """The message that answers the calls a history ends with, each as interrupted; None if there are none.

    Any other half of a call Pydantic AI repairs by itself, before each request.
    """
    last = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].kind == "response"), None)
    orphans = find_orphans((_ids_in(each, CALL_PARTS), _ids_in(each, TOOL_PARTS)) for each in messages)
    open_calls = {call for at, call in orphans.calls if at == last}
    if last is None or not open_calls:
        return None
    [_, closing] = theirs.repair_messages([messages[last]])
    parts = [part for part in closing.parts if getattr(part, "tool_call_id", None) in open_calls]
    return theirs.ModelRequest(parts=cast("list[theirs.ModelRequestPart]", parts))


def _ids_in(message: theirs.ModelMessage, kinds: Sequence[str]) -> list[str]:
    """The ids of the calls in parts of some kinds; a retry that belongs to no tool answers none."""
    parts = (part for part in message.parts if part.part_kind in kinds)
    return [
        part.tool_call_id
        for part in parts
        if isinstance(part, theirs.ToolCallPart | theirs.ToolReturnPart)
        or (isinstance(part, theirs.RetryPromptPart) and part.tool_name is not None)
    ]


@check_arguments
def history_of(messages: Iterable[PlainMessage]) -> list[theirs.ModelMessage]:
    """Plain messages as a message history: for ``message_history=``, or for a conversation."""
    history: list[theirs.ModelMessage] = []
    for is_response, group in groupby(with_tool_names(messages), key=lambda each: each.role == "assistant"):
        if is_response:
            history.append(theirs.ModelResponse(parts=list(_response_parts(group))))
        else:
            history.append(theirs.ModelRequest(parts=list(_request_parts(group))))
    return history


def _response_parts(messages: Iterable[PlainMessage]) -> Iterator[theirs.TextPart | theirs.ToolCallPart]:
    for message in messages:
        if message.text:
            yield theirs.TextPart(content=message.text)
        for call in message.calls:
            yield theirs.ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id)


def _request_parts(
    messages: Iterable[PlainMessage],
) -> Iterator[theirs.SystemPromptPart | theirs.UserPromptPart | theirs.ToolReturnPart]:
    for message in messages:
        for result in message.results:
            yield theirs.ToolReturnPart(tool_name=result.name, content=result.output, tool_call_id=result.id)
        if message.text and message.role == "system":
            yield theirs.SystemPromptPart(content=message.text)
        elif message.text:
            yield theirs.UserPromptPart(content=message.text)
