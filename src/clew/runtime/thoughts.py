"""What a model thought before it spoke, for its provider alone: kept beside messages and shown to nobody."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import Model as Provided

from clew.core.encoding import JSON

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
