"""Messages of items of any format: role, text, tool calls and tool results. Nothing is refused.

What a model thought before it spoke is not said: it stays in the item, and in none of these.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clew.core.encoding import JSON
from clew.core.log.tool_calls import CALL, REPAIR, RESULT
from clew.core.messages.plain import PlainMessage, PlainToolCall, PlainToolResult, as_value, with_tool_names
from clew.core.text.words import text_of
from clew.core.values import Item

Body = Mapping[str, Any]
ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
THOUGHTS = ("reasoning", "reasoning_content", "thinking")


def plain_messages(items: Iterable[Item]) -> list[PlainMessage]:
    """A log as plain messages, each tool result with the name of its tool. What says nothing is left out."""
    return with_tool_names(message for item in items for message in project_item(item))


def project_item(item: Item) -> tuple[PlainMessage, ...]:
    """The messages of an item: one for each role that speaks in it, none if it says nothing.

    An item in an unknown format, or one that is not what its format says, gives the text that is in it.
    """
    body = _unpack(item.body) if item.codec == "msgpack" else item.body
    read = _readers.get(item.format, _unknown_format)
    native_messages = tuple(read(item, body)) if isinstance(body, dict) else ()
    messages = native_messages or tuple(_unknown_format(item, {}))
    return tuple(message for message in messages if message.text or message.calls or message.results)


def _unknown_format(item: Item, body: Body) -> Iterator[PlainMessage]:
    yield PlainMessage(role=item.role or "system", text=text_of(item))


def _unpack(body: JSON) -> JSON:
    """Decode MessagePack to plain data: of an object its fields. No object is made."""
    try:
        return msgspec.msgpack.decode(body, ext_hook=_unpack_object)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return None


def _unpack_object(code: int, data: memoryview) -> JSON:
    """The fields of an object that LangGraph packed: they follow its module and its class."""
    value = _unpack(data)
    is_object = isinstance(value, list) and len(value) > 2 and isinstance(value[2], dict)
    return value[2] if is_object else value


# Our own.


def _clew(item: Item, body: Body) -> Iterator[PlainMessage]:
    if item.kind == CALL and "name" in body:
        yield _call_message(item.call, body["name"], body.get("arguments"))
    elif item.kind == RESULT and "output" in body:
        yield _result_message(item.call, "", body["output"])
    elif item.kind == REPAIR:
        calls = body.get("calls")
        reason = body.get("content")
        yield PlainMessage(
            role="tool",
            results=tuple(PlainToolResult(id=call, output=reason) for call in calls)
            if isinstance(calls, dict)
            else (),
        )
    else:
        yield from _unknown_format(item, body)


# OpenAI's Responses API.


def _responses(item: Item, body: Body) -> Iterator[PlainMessage]:
    kind = str(body.get("type") or ("message" if "role" in body else ""))
    id = body.get("call_id") or body.get("id")
    if kind == "message":
        yield PlainMessage(role=_role(body.get("role"), item), text=_content_text(body.get("content")))
    elif kind in THOUGHTS:
        yield PlainMessage(role="assistant")
    elif kind.endswith("_call_output"):
        yield _result_message(id, "", body.get("output"))
    elif kind.endswith("_call"):
        yield _call_message(id, body.get("name") or kind.removesuffix("_call"), _arguments(body))
        if body.get("output") is not None:  # the provider ran it, and gives call and output as one item
            yield _result_message(id, body.get("name"), body["output"])


def _arguments(body: Body) -> JSON:
    for name in ("arguments", "input", "action", "code", "queries"):
        if body.get(name) is not None:
            return as_value(body[name])
    return None


# LangChain.


def _langchain(item: Item, body: Body) -> Iterator[PlainMessage]:
    message = next((part for name in ("data", "kwargs") if isinstance(part := body.get(name), dict)), body)
    role = _role(message.get("type") or message.get("role") or body.get("type"), item)
    if message.get("tool_call_id"):
        yield _result_message(message["tool_call_id"], message.get("name"), message.get("content"))
        return
    calls = tuple(
        PlainToolCall(id=_id(call), name=str(call.get("name") or ""), arguments=as_value(call.get("args")))
        for call in _dicts(message.get("tool_calls"))
    )
    yield PlainMessage(role=role, text=_content_text(message.get("content")), calls=calls)


# Google ADK.


def _adk(item: Item, body: Body) -> Iterator[PlainMessage]:
    content = body.get("content")
    parts = list(_dicts(content.get("parts"))) if isinstance(content, dict) else []
    calls = [part for part in map(_first_object("function_call", "functionCall"), parts) if part]
    answers = [part for part in map(_first_object("function_response", "functionResponse"), parts) if part]
    role = "user" if body.get("author") == "user" else "assistant"
    yield PlainMessage(
        role="tool",
        results=tuple(
            PlainToolResult(id=_id(answer), name=str(answer.get("name") or ""), output=_tool_output(answer))
            for answer in answers
        ),
    )
    yield PlainMessage(
        role=role,
        text="\n".join(
            part["text"] for part in parts if isinstance(part.get("text"), str) and _is_visible(part)
        ),
        calls=tuple(
            PlainToolCall(id=_id(call), name=str(call.get("name") or ""), arguments=call.get("args") or {})
            for call in calls
        ),
    )


def _is_visible(part: Body) -> bool:
    return not part.get("thought")


def _tool_output(answer: Body) -> JSON:
    """The output of a tool; a value that is not an object is put into one, under ``result``."""
    response = answer.get("response")
    if isinstance(response, dict) and response.keys() == {"result"}:
        return response["result"]
    return response


def _first_object(*names: str) -> Callable[[Body], Body | None]:
    """The first object that a part has under one of the names."""
    return lambda part: next((part[name] for name in names if isinstance(part.get(name), dict)), None)


# Pydantic AI.

_PROMPTS = {"system-prompt": "system", "user-prompt": "user"}


def _pydantic_ai(item: Item, body: Body) -> Iterator[PlainMessage]:
    parts = list(_dicts(body.get("parts")))
    if body.get("kind") == "response":
        yield from _response_messages(parts)
        return
    for part in parts:
        kind = str(part.get("part_kind"))
        if kind in _PROMPTS:
            yield PlainMessage(role=_PROMPTS[kind], text=_content_text(part.get("content")))
        elif kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
            yield _result_message(part.get("tool_call_id"), part.get("tool_name"), part.get("content"))
        elif kind in ("retry-prompt", "retry-feedback"):
            yield PlainMessage(role="user", text=_content_text(part.get("content")))


def _response_messages(parts: Sequence[Body]) -> Iterator[PlainMessage]:
    """The messages of a model's response; a tool that the provider ran is called and answered in one."""
    yield PlainMessage(
        role="assistant",
        text="".join(part["content"] for part in parts if _is_text(part)),
        calls=tuple(
            PlainToolCall(
                id=str(part.get("tool_call_id") or ""),
                name=str(part.get("tool_name") or ""),
                arguments=as_value(part.get("args")),
            )
            for part in parts
            if str(part.get("part_kind")).endswith("tool-call")
        ),
    )
    for part in parts:
        if str(part.get("part_kind")).endswith("tool-return"):
            yield _result_message(part.get("tool_call_id"), part.get("tool_name"), part.get("content"))


def _is_text(part: Body) -> bool:
    return part.get("part_kind") == "text" and isinstance(part.get("content"), str)


# What they have in common.


def _call_message(id: object, name: object, arguments: JSON) -> PlainMessage:
    call = PlainToolCall(id=str(id or ""), name=str(name), arguments=arguments)
    return PlainMessage(role="assistant", calls=(call,))


def _result_message(id: object, name: object, output: JSON) -> PlainMessage:
    return PlainMessage(
        role="tool", results=(PlainToolResult(id=str(id or ""), name=str(name or ""), output=output),)
    )


def _role(value: object, item: Item) -> str:
    name = str(value or item.role or "system").lower()
    name = name.removesuffix("messagechunk").removesuffix("message")
    return ROLES.get(name, name)


def _id(part: Body) -> str:
    return str(part.get("id") or "")


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    """The objects in a list."""
    if isinstance(value, list):
        yield from (part for part in value if isinstance(part, dict))


def _content_text(content: JSON) -> str:
    """The text in content that is text, or a list of parts some of which are."""
    visible_content = content
    if isinstance(content, list):
        visible_content = [
            part for part in content if not (isinstance(part, dict) and part.get("type") in THOUGHTS)
        ]
    return text_of(Item(body={"content": visible_content}))


_readers: dict[str, Callable[[Item, Body], Iterator[PlainMessage]]] = {
    "clew": _clew,
    "openai.responses": _responses,
    "langchain": _langchain,
    "adk": _adk,
    "pydantic-ai": _pydantic_ai,
}
