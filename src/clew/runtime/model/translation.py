"""Translation between our messages and those of a provider."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model as Provided

from clew.core.encoding import JSON
from clew.runtime.model.messages import CALL, REPAIR, RESULT, Message
from clew.runtime.model.protocol import ToolCall, Usage

THINKING, STAMP, ORIGIN = "thinking", "stamp", "origin"
"""The kinds of entries: a thought; the provider's details of a text or call; the origin of them all."""
_STAMP_FIELDS = ("id", "provider_name", "provider_details")
_ORIGIN_FIELDS = ("provider_name", "provider_url", "model_name")
_thinking = TypeAdapter(ThinkingPart)


class Thoughts(msgspec.Struct, frozen=True, kw_only=True):
    """The thoughts of an answer: those that go with its text, and those that go with each of its calls."""

    text: tuple[JSON, ...] = ()
    calls: tuple[tuple[JSON, ...], ...] = ()


def thoughts_of(response: ModelResponse) -> Thoughts:
    """The entries that go back with an answer. Each thought goes with the part right after it."""
    calls: list[list[JSON]] = []
    text: list[JSON] = []
    waiting: list[JSON] = []
    one_text = sum(isinstance(part, TextPart) and bool(part.content) for part in response.parts) == 1
    for part in response.parts if any(map(_must_return, response.parts)) else ():
        if isinstance(part, ThinkingPart):
            fields = _thinking.dump_python(part, mode="json", exclude_none=True, warnings=False)
            waiting.append({**fields, "kind": THINKING})
        elif isinstance(part, ToolCallPart):
            calls.append([*waiting, *_entry(STAMP, part, _STAMP_FIELDS)])
            waiting = []
        elif isinstance(part, TextPart) and part.content:
            text += [*waiting, *(_entry(STAMP, part, _STAMP_FIELDS) if one_text else ())]
            waiting = []
    (calls[-1] if calls else text).extend(waiting)
    origin = _entry(ORIGIN, response, _ORIGIN_FIELDS)
    return Thoughts(
        text=tuple([*origin, *text] if text else []),
        calls=tuple(tuple([*origin, *call] if call else []) for call in calls),
    )


def _must_return(part: ModelResponsePart) -> bool:
    has_stamp = isinstance(part, TextPart | ToolCallPart) and part.provider_details is not None
    return has_stamp or isinstance(part, ThinkingPart)


def _entry(kind: str, source: object, names: Iterable[str]) -> list[JSON]:
    values = {name: getattr(source, name) for name in names if getattr(source, name) is not None}
    fields: dict[str, JSON] = TypeAdapter(dict[str, Any]).dump_python(values, mode="json")
    return [{**fields, "kind": kind}] if values else []


def as_thinking(thoughts: Sequence[JSON]) -> list[ModelResponsePart]:
    """The thoughts among entries, as parts of an answer."""
    parts: list[ModelResponsePart] = []
    for entry in thoughts:
        if isinstance(entry, dict) and entry.get("kind") == THINKING:
            fields = {name: value for name, value in entry.items() if name != "kind"}
            try:
                parts.append(_thinking.validate_python(fields))
            except ValidationError:
                continue  # another version wrote it: a conversation goes on without an old thought
    return parts


def stamp_of(thoughts: Sequence[JSON]) -> dict[str, Any]:
    """The details that the provider put on the text or the call itself."""
    return _fields_of(STAMP, thoughts, _STAMP_FIELDS)


def origin_of(thoughts: Sequence[JSON]) -> dict[str, Any]:
    """The provider and the model of a thought."""
    return _fields_of(ORIGIN, thoughts, _ORIGIN_FIELDS)


def _fields_of(kind: str, thoughts: Sequence[JSON], names: Iterable[str]) -> dict[str, Any]:
    for entry in thoughts:
        if isinstance(entry, dict) and entry.get("kind") == kind:
            return {name: entry[name] for name in names if name in entry}
    return {}


def own_thoughts(response: ModelResponse, models: Sequence[Provided[Any]]) -> ModelResponse:
    """An answer without the thoughts of another provider's model, which none of these models would take."""
    parts = [
        part
        for part in response.parts
        if not isinstance(part, ThinkingPart) or _is_own(response, part, models)
    ]
    return response if len(parts) == len(response.parts) else _response_with(response, parts)


def _is_own(response: ModelResponse, part: ThinkingPart, models: Sequence[Provided[Any]]) -> bool:
    return any(model.accepts_stateless_artifacts(response, part) for model in models)


def _response_with(response: ModelResponse, parts: Sequence[ModelResponsePart]) -> ModelResponse:
    return ModelResponse(
        parts=parts,
        provider_name=response.provider_name,
        provider_url=response.provider_url,
        model_name=response.model_name,
    )


NO_ANSWER = "The call was not answered."


@dataclass(kw_only=True)
class _Exchange:
    """An answer of the model with the results of its calls, or a request to it, in a provider's parts."""

    response_parts: list[ModelResponsePart] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    results: dict[str, ToolReturnPart] = field(default_factory=dict)
    request_parts: list[ModelRequestPart] = field(default_factory=list)
    origin: dict[str, Any] = field(default_factory=dict)

    def add_response(self, part: TextPart | ToolCallPart, thoughts: Sequence[JSON]) -> None:
        """Add a part to the answer of the model, after the thoughts that go with it."""
        self.response_parts += [*as_thinking(thoughts), replace(part, **stamp_of(thoughts))]
        self.origin = self.origin or origin_of(thoughts)


def provider_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    """Messages for a provider: each call followed by its one result, no result without its call.

    Calls that were closed without an answer get a result that says so. Neighbouring requests become one,
    since not every provider takes two in a row. The last message is a request.
    """
    result: list[ModelMessage] = []
    for part in _model_messages(_exchanges(messages)):
        last = result[-1] if result else None
        if isinstance(part, ModelRequest) and isinstance(last, ModelRequest):
            result[-1] = ModelRequest(parts=[*last.parts, *part.parts])
        else:
            result.append(part)
    if not result or isinstance(result[-1], ModelResponse):
        result.append(ModelRequest(parts=[]))
    return result


def _exchanges(messages: Sequence[Message]) -> list[_Exchange]:
    exchanges: list[_Exchange] = []
    open_exchanges: dict[str, _Exchange] = {}
    for message in messages:
        if message.kind == REPAIR:
            for call in list(open_exchanges):
                _add_result(open_exchanges, call, _text(message.content) or NO_ANSWER, outcome="interrupted")
        elif message.kind == RESULT:
            _add_result(open_exchanges, message.call or "", message.content)
        elif message.kind == CALL and message.call:
            exchange = _current_response(exchanges, call=message.call)
            exchange.calls[message.call] = message.name or ""
            exchange.add_response(_call_part(message), message.thoughts)
            open_exchanges[message.call] = exchange
        elif message.role == "assistant":
            exchange = _current_response(exchanges)
            if message.content:
                exchange.add_response(TextPart(_text(message.content)), message.thoughts)
        else:
            exchanges.append(_Exchange(request_parts=[_request_part(message)]))
    return exchanges


def _current_response(exchanges: list[_Exchange], *, call: str | None = None) -> _Exchange:
    """The answer that a message is part of: text comes before calls, calls before results."""
    last = exchanges[-1] if exchanges else None
    if (
        last is None
        or last.request_parts
        or last.results
        or (last.calls and (call is None or call in last.calls))
    ):
        last = _Exchange()
        exchanges.append(last)
    return last


def _add_result(
    open_exchanges: dict[str, _Exchange], call: str, content: Any, outcome: Any = "success"
) -> None:
    exchange = open_exchanges.pop(call, None)
    if exchange is not None:
        name = exchange.calls[call]
        exchange.results[call] = ToolReturnPart(name, content, tool_call_id=call, outcome=outcome)


def _call_part(message: Message) -> ToolCallPart:
    arguments = message.arguments
    arguments_text = (
        arguments if isinstance(arguments, str | dict) else msgspec.json.encode(arguments).decode()
    )
    return ToolCallPart(message.name or "", arguments_text, tool_call_id=message.call or "")


def _request_part(message: Message) -> ModelRequestPart:
    text = _text(message.content)
    return SystemPromptPart(text) if message.role == "system" else UserPromptPart(text)


def _text(content: JSON) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def _model_messages(exchanges: Sequence[_Exchange]) -> Iterator[ModelRequest | ModelResponse]:
    for exchange in exchanges:
        if exchange.response_parts:
            yield ModelResponse(parts=exchange.response_parts, **exchange.origin)
        if exchange.calls:
            yield ModelRequest(parts=[_result(exchange, call) for call in exchange.calls])
        if exchange.request_parts:
            yield ModelRequest(parts=exchange.request_parts)


def _result(exchange: _Exchange, call: str) -> ToolReturnPart:
    name = exchange.calls[call]
    missing = ToolReturnPart(name, NO_ANSWER, tool_call_id=call, outcome="interrupted")
    return exchange.results.get(call, missing)


def event_text(event: ModelResponseStreamEvent) -> str:
    """The text that an event brings, if it brings any."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return repair_surrogates(event.part.content)
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return repair_surrogates(event.delta.content_delta)
    return ""


def response_text(response: ModelResponse) -> str:
    """All text of an answer."""
    return repair_surrogates("".join(part.content for part in response.parts if isinstance(part, TextPart)))


def repair_surrogates(text: str) -> str:
    """A text whose surrogates are joined again, or replaced where one is alone: only so can it be stored."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def calls_of(
    response: ModelResponse,
    messages: Sequence[Message],
    new_id: Callable[[], str] = lambda: f"call-{secrets.token_hex(8)}",
) -> tuple[ToolCall, ...]:
    """The tool calls of an answer, each with an id that no call before it has.

    Raises:
        ValueError: Arguments are not JSON; it names the tool.
    """
    used_ids = {message.call for message in messages}
    calls: list[ToolCall] = []
    parts = [part for part in response.parts if isinstance(part, ToolCallPart)]
    for part, thoughts in zip_longest(parts, thoughts_of(response).calls, fillvalue=()):
        assert isinstance(part, ToolCallPart)
        id = new_id() if not part.tool_call_id or part.tool_call_id in used_ids else part.tool_call_id
        used_ids.add(id)
        calls.append(ToolCall(id=id, name=part.tool_name, arguments=_arguments(part), thoughts=thoughts))
    return tuple(calls)


def _arguments(part: ToolCallPart) -> JSON:
    arguments = part.args
    if isinstance(arguments, Mapping):
        return dict(arguments)
    try:
        return msgspec.json.decode(arguments) if arguments and arguments.strip() else {}
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ValueError(f"the arguments for tool {part.tool_name!r} are not JSON ({error})") from error


def usage_of(response: ModelResponse) -> Usage:
    """The usage of an answer; its cost is 0 where no price is known."""
    try:
        price = round(response.cost().total_price * 1_000_000)
    except (AssertionError, LookupError, ValueError):
        price = 0
    usage = response.usage
    return Usage(calls=1, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=price)
