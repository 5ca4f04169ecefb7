"""Plain messages: texts, tool calls and tool results in a format that belongs to no framework."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from clew.core.encoding import JSON, decode, encode
from clew.core.errors import StoreDamaged


class PlainToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool; its id pairs it with the result."""

    id: str
    name: str
    arguments: JSON = None


class PlainToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a tool."""

    id: str
    name: str = ""
    output: JSON = None


class PlainMessage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One message: ``system``, ``user``, ``assistant`` or ``tool``, with text, tool calls and results."""

    role: str
    text: str = ""
    calls: tuple[PlainToolCall, ...] = ()
    results: tuple[PlainToolResult, ...] = ()


def messages_by_role(messages: Iterable[PlainMessage]) -> Iterator[tuple[str, list[PlainMessage]]]:
    """Messages of one role that follow each other, together."""
    for role, group in groupby(messages, key=lambda message: message.role):
        yield role, list(group)


def with_tool_names(messages: Iterable[PlainMessage]) -> list[PlainMessage]:
    """The messages, each result with the name of its tool, which some formats keep with the call alone."""
    names: dict[str, str] = {}
    output = []
    for message in messages:
        names |= {call.id: call.name for call in message.calls}
        results = tuple(
            msgspec.structs.replace(result, name=result.name or names.get(result.id, ""))
            for result in message.results
        )
        output.append(msgspec.structs.replace(message, results=results))
    return output


def as_text(value: JSON) -> str:
    """A value as the text that a model is given: as it is, or as JSON."""
    return value if isinstance(value, str) else encode(value).decode()


def as_value(text: JSON) -> JSON:
    """The value behind JSON text; anything else as it is."""
    if not isinstance(text, str):
        return text
    try:
        return decode(text.encode())
    except (StoreDamaged, UnicodeEncodeError):
        return text


# As others write them.


def as_responses(messages: Iterable[PlainMessage]) -> list[dict[str, JSON]]:
    """Messages as input items of OpenAI's Responses API, which OpenAI Agents' sessions hold."""
    items: list[dict[str, JSON]] = []
    for message in messages:
        if message.text:
            items.append({"role": message.role, "content": message.text})
        items += [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": as_text({} if call.arguments is None else call.arguments),
            }
            for call in message.calls
        ]
        items += [
            {"type": "function_call_output", "call_id": result.id, "output": as_text(result.output)}
            for result in message.results
        ]
    return items


def as_chat(messages: Iterable[PlainMessage]) -> list[dict[str, JSON]]:
    """Messages as those of a chat completion, which LangChain and most providers take."""
    chat: list[dict[str, JSON]] = []
    for role, group in messages_by_role(messages):
        results = [result for message in group for result in message.results]
        chat += [
            {"role": "tool", "tool_call_id": result.id, "content": as_text(result.output)}
            for result in results
        ]
        text = "\n".join(message.text for message in group if message.text)
        calls = [_chat_call(call) for message in group for call in message.calls]
        if text or calls:
            chat.append({"role": role, "content": text, **({"tool_calls": calls} if calls else {})})
    return chat


def _chat_call(call: PlainToolCall) -> dict[str, JSON]:
    arguments = as_text({} if call.arguments is None else call.arguments)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
