"""Our messages as a provider hears them, and its answers as ours."""

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
"""What an entry is: a thought; what the provider has put on the text or the call itself; who said it all."""
_STAMPED = ("id", "provider_name", "provider_details")
_ORIGIN = ("provider_name", "provider_url", "model_name")
_thinking = TypeAdapter(ThinkingPart)


class Thoughts(msgspec.Struct, frozen=True, kw_only=True):
    """The thoughts of an answer: those that go with its text, and those that go with each of its calls."""

    text: tuple[JSON, ...] = ()
    calls: tuple[tuple[JSON, ...], ...] = ()


def thoughts_of(response: ModelResponse) -> Thoughts:
    """What has to go back with an answer. Each thought goes with what was said right after it."""
    calls: list[list[JSON]] = []
    text: list[JSON] = []
    waiting: list[JSON] = []
    one_text = sum(isinstance(part, TextPart) and bool(part.content) for part in response.parts) == 1
    for part in response.parts if any(map(_has_to_go_back, response.parts)) else ():
        if isinstance(part, ThinkingPart):
            dumped = _thinking.dump_python(part, mode="json", exclude_none=True, warnings=False)
            waiting.append({**dumped, "kind": THINKING})
        elif isinstance(part, ToolCallPart):
            calls.append([*waiting, *_entry(STAMP, part, _STAMPED)])
            waiting = []
        elif isinstance(part, TextPart) and part.content:
            text += [*waiting, *(_entry(STAMP, part, _STAMPED) if one_text else ())]
            waiting = []
    (calls[-1] if calls else text).extend(waiting)
    origin = _entry(ORIGIN, response, _ORIGIN)
    return Thoughts(
        text=tuple([*origin, *text] if text else []),
        calls=tuple(tuple([*origin, *call] if call else []) for call in calls),
    )


def _has_to_go_back(part: ModelResponsePart) -> bool:
    stamped = isinstance(part, TextPart | ToolCallPart) and part.provider_details is not None
    return stamped or isinstance(part, ThinkingPart)


def _entry(kind: str, about: object, names: Iterable[str]) -> list[JSON]:
    found = {name: getattr(about, name) for name in names if getattr(about, name) is not None}
    dumped: dict[str, JSON] = TypeAdapter(dict[str, Any]).dump_python(found, mode="json")
    return [{**dumped, "kind": kind}] if found else []


def as_thinking(thoughts: Sequence[JSON]) -> list[ModelResponsePart]:
    """The thoughts among entries, as parts of an answer."""
    found: list[ModelResponsePart] = []
    for entry in thoughts:
        if isinstance(entry, dict) and entry.get("kind") == THINKING:
            given = {name: value for name, value in entry.items() if name != "kind"}
            try:
                found.append(_thinking.validate_python(given))
            except ValidationError:
                continue  # another version wrote it: a conversation goes on without an old thought
    return found


def stamp_of(thoughts: Sequence[JSON]) -> dict[str, Any]:
    """What the provider has put on the text or the call itself."""
    return _found(STAMP, thoughts, _STAMPED)


def origin_of(thoughts: Sequence[JSON]) -> dict[str, Any]:
    """Who has thought it."""
    return _found(ORIGIN, thoughts, _ORIGIN)


def _found(kind: str, thoughts: Sequence[JSON], names: Iterable[str]) -> dict[str, Any]:
    for entry in thoughts:
        if isinstance(entry, dict) and entry.get("kind") == kind:
            return {name: entry[name] for name in names if name in entry}
    return {}


def own_thoughts(response: ModelResponse, models: Sequence[Provided[Any]]) -> ModelResponse:
    """An answer without what another provider's model has thought."""
    parts = [
        part
        for part in response.parts
        if not isinstance(part, ThinkingPart) or _is_own(response, part, models)
    ]
    return response if len(parts) == len(response.parts) else _with(response, parts)


def _is_own(response: ModelResponse, part: ThinkingPart, models: Sequence[Provided[Any]]) -> bool:
    return any(model.accepts_stateless_artifacts(response, part) for model in models)


def _with(response: ModelResponse, parts: Sequence[ModelResponsePart]) -> ModelResponse:
    return ModelResponse(
        parts=parts,
        provider_name=response.provider_name,
        provider_url=response.provider_url,
        model_name=response.model_name,
    )


UNANSWERED = "The call was not answered."


@dataclass(kw_only=True)
class _Exchange:
    """What the model said, with the results of its calls; or what it was told."""

    said: list[ModelResponsePart] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    results: dict[str, ToolReturnPart] = field(default_factory=dict)
    heard: list[ModelRequestPart] = field(default_factory=list)
    origin: dict[str, Any] = field(default_factory=dict)

    def say(self, part: TextPart | ToolCallPart, thoughts: Sequence[JSON]) -> None:
        """Say something, after what was thought before it."""
        self.said += [*as_thinking(thoughts), replace(part, **stamp_of(thoughts))]
        self.origin = self.origin or origin_of(thoughts)


def as_heard(messages: Sequence[Message]) -> list[ModelMessage]:
    """Messages for a provider: each call followed by its one result, no result without its call.

    Calls that were closed without an answer get a result that says so. What stands side by side from the
    same side is one message, since not every provider takes two in a row. The last one is a request.
    """
    turns: list[ModelMessage] = []
    for part in _as_parts(_exchanges(messages)):
        last = turns[-1] if turns else None
        if isinstance(part, ModelRequest) and isinstance(last, ModelRequest):
            turns[-1] = ModelRequest(parts=[*last.parts, *part.parts])
        else:
            turns.append(part)
    if not turns or isinstance(turns[-1], ModelResponse):
        turns.append(ModelRequest(parts=[]))
    return turns


def _exchanges(messages: Sequence[Message]) -> list[_Exchange]:
    exchanges: list[_Exchange] = []
    open: dict[str, _Exchange] = {}
    for message in messages:
        if message.kind == REPAIR:
            for call in list(open):
                _answer(open, call, _text(message.content) or UNANSWERED, outcome="interrupted")
        elif message.kind == RESULT:
            _answer(open, message.call or "", message.content)
        elif message.kind == CALL and message.call:
            exchange = _speaking(exchanges, call=message.call)
            exchange.calls[message.call] = message.name or ""
            exchange.say(_call(message), message.thoughts)
            open[message.call] = exchange
        elif message.role == "assistant":
            exchange = _speaking(exchanges)
            if message.content:
                exchange.say(TextPart(_text(message.content)), message.thoughts)
        else:
            exchanges.append(_Exchange(heard=[_heard(message)]))
    return exchanges


def _speaking(exchanges: list[_Exchange], *, call: str | None = None) -> _Exchange:
    """The answer that a message is part of: text comes before calls, calls before results."""
    last = exchanges[-1] if exchanges else None
    goes_on = last is not None and not last.heard and not last.results
    if last is None or not goes_on or (last.calls and (call is None or call in last.calls)):
        exchanges.append(_Exchange())
    return exchanges[-1]


def _answer(open: dict[str, _Exchange], call: str, content: Any, outcome: Any = "success") -> None:
    exchange = open.pop(call, None)
    if exchange is not None:
        name = exchange.calls[call]
        exchange.results[call] = ToolReturnPart(name, content, tool_call_id=call, outcome=outcome)


def _call(message: Message) -> ToolCallPart:
    arguments = message.arguments
    given = arguments if isinstance(arguments, str | dict) else msgspec.json.encode(arguments).decode()
    return ToolCallPart(message.name or "", given, tool_call_id=message.call or "")


def _heard(message: Message) -> ModelRequestPart:
    said = _text(message.content)
    return SystemPromptPart(said) if message.role == "system" else UserPromptPart(said)


def _text(content: JSON) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def _as_parts(exchanges: Sequence[_Exchange]) -> Iterator[ModelRequest | ModelResponse]:
    for exchange in exchanges:
        if exchange.said:
            yield ModelResponse(parts=exchange.said, **exchange.origin)
        if exchange.calls:
            yield ModelRequest(parts=[_result(exchange, call) for call in exchange.calls])
        if exchange.heard:
            yield ModelRequest(parts=exchange.heard)


def _result(exchange: _Exchange, call: str) -> ToolReturnPart:
    name = exchange.calls[call]
    missing = ToolReturnPart(name, UNANSWERED, tool_call_id=call, outcome="interrupted")
    return exchange.results.get(call, missing)


def text_of(event: ModelResponseStreamEvent) -> str:
    """The text that an event brings, if it brings any."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return mended(event.part.content)
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return mended(event.delta.content_delta)
    return ""


def whole_text(response: ModelResponse) -> str:
    """All text of an answer."""
    return mended("".join(part.content for part in response.parts if isinstance(part, TextPart)))


def mended(text: str) -> str:
    """A text whose surrogates are joined again, or replaced where one is alone: only so can it be stored."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def calls_of(
    response: ModelResponse,
    known: Sequence[Message],
    new_id: Callable[[], str] = lambda: f"call-{secrets.token_hex(8)}",
) -> tuple[ToolCall, ...]:
    """The tool calls of an answer, each with an id that no call before it has.

    Raises:
        ValueError: Arguments are not JSON; it names the tool.
    """
    taken = {message.call for message in known}
    calls: list[ToolCall] = []
    asked = [part for part in response.parts if isinstance(part, ToolCallPart)]
    for part, thoughts in zip_longest(asked, thoughts_of(response).calls, fillvalue=()):
        assert isinstance(part, ToolCallPart)
        id = new_id() if not part.tool_call_id or part.tool_call_id in taken else part.tool_call_id
        taken.add(id)
        calls.append(ToolCall(id=id, name=part.tool_name, arguments=_arguments(part), thoughts=thoughts))
    return tuple(calls)


def _arguments(part: ToolCallPart) -> JSON:
    given = part.args
    if isinstance(given, Mapping):
        return dict(given)
    try:
        return msgspec.json.decode(given) if given and given.strip() else {}
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ValueError(f"the arguments for tool {part.tool_name!r} are not JSON ({error})") from error


def usage_of(response: ModelResponse) -> Usage:
    """What an answer cost; its price is 0 where none is known."""
    try:
        price = round(response.cost().total_price * 1_000_000)
    except (AssertionError, LookupError, ValueError):
        price = 0
    used = response.usage
    return Usage(calls=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost=price)
