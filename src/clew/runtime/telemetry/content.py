"""Content of spans, in the form that the GenAI conventions give it; written only where it is asked for."""

from collections.abc import Sequence

import msgspec

from clew.core.encoding import JSON, as_json
from clew.runtime.model.messages import CALL, RESULT, Message
from clew.runtime.model.protocol import ModelRequest, Reply


def json_text(value: object) -> str:
    """Return a value as JSON, the only form of content that every backend takes."""
    return msgspec.json.encode(as_json(value)).decode()


def instructions_text(request: ModelRequest) -> str:
    """Return the instructions of a request."""
    return json_text([_text_part(request.instructions)])


def input_text(messages: Sequence[Message]) -> str:
    """Return the messages of a request."""
    return json_text([{"role": message.role, "parts": [_part_of(message)]} for message in messages])


def output_text(reply: Reply) -> str:
    """Return a reply as the message that it is."""
    calls = [_call_part(call.id, call.name, call.arguments) for call in reply.calls]
    parts = [*([_text_part(reply.text)] if reply.text else []), *calls]
    return json_text([{"role": "assistant", "parts": parts, "finish_reason": finish_reason(reply)}])


def finish_reason(reply: Reply) -> str:
    """Return why a reply ended; one that was cut off is no reply."""
    return "tool_calls" if reply.calls else "stop"


def _part_of(message: Message) -> JSON:
    if message.kind == CALL:
        return _call_part(message.call, message.name, message.arguments)
    if message.kind == RESULT:
        return {"type": "tool_call_response", "id": message.call, "response": as_json(message.content)}
    return _text_part(message.text)


def _text_part(text: str) -> JSON:
    return {"type": "text", "content": text}


def _call_part(id: str | None, name: str | None, arguments: JSON) -> JSON:
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
