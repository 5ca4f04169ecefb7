"""The protocol of models: stream a reply with tools, or fill a typed answer."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from clew.core.encoding import JSON
from clew.runtime.model.messages import Message

T = TypeVar("T")


class Usage(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The cost of model calls. ``cost`` is in millionths of a dollar, where a price is known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
        )


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool that a model asks for, with the thoughts that go with it."""

    id: str
    name: str
    arguments: JSON
    thoughts: tuple[JSON, ...] = ()


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a tool for a model."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request to a model."""

    messages: Sequence[Message]
    instructions: str = ""
    tools: Sequence[ToolSpec] = ()


class TextChunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of the text of a reply that is still being made."""

    text: str


class Reply(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A finished reply. ``thoughts`` are what the model thought before its text, as it wants them back."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thoughts: tuple[JSON, ...] = ()
    usage: Usage = Usage(calls=1)


ReplyPart: TypeAlias = TextChunk | Reply


class Model(Protocol):
    """A language model.

    Both methods raise ``ModelFailed``; ``retry`` in it says whether the same request may succeed later. They
    are asked once for each attempt and do not retry themselves. When they are cancelled, or the stream is
    closed, they let go of whatever they hold at once.
    """

    name: str

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The reply as it comes: any number of texts, then the whole, with its tool calls."""
        ...

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """An answer of a given type, and what it cost."""
        ...
