"""A model that plays a script, so that a test knows every word."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from clew.core.arguments import check_methods
from clew.core.errors import ModelFailed
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, ToolCall, Usage

T = TypeVar("T")
ScriptLine: TypeAlias = (
    str
    | Reply
    | BaseException
    | asyncio.Event
    | Sequence[str | BaseException | asyncio.Event]
    | Callable[[ModelRequest], Any]
)
"""A line of a script: a text, a whole reply, an error to raise, a function of the request that gives any of
these (or, for a typed answer, the value), or an event to wait for before the next line. A list is one text
in just these pieces, with events to wait for between them and an error where it breaks off."""


@check_methods
class ScriptedModel:
    """Plays a script, one line for each call, and keeps every request it got."""

    def __init__(self, *script: ScriptLine, name: str = "scripted", pieces: int = 4) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._script = list(script)
        self._pieces = pieces

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The next line, its text in pieces."""
        line = await self._next_line(request)
        reply = line if isinstance(line, Reply) else None
        pieces = (
            line
            if isinstance(line, list | tuple)
            else _split_text(reply.text if reply else str(line), self._pieces)
        )
        text = ""
        for piece in pieces:
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            elif isinstance(piece, BaseException):
                raise piece
            else:
                text += piece
                yield TextChunk(piece)
        yield reply or Reply(text=text, usage=_usage(request, text))

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """The next line, as a value of the type asked for."""
        line = await self._next_line(request)
        try:
            return msgspec.convert(line, kind), _usage(request, str(line))
        except msgspec.ValidationError as error:
            problem = f"its answer is not what was asked for: {error}"
            usage = msgspec.to_builtins(_usage(request, str(line)))
            raise ModelFailed(model=self.name, problem=problem, retry=True, spent=usage) from error

    async def _next_line(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        while True:
            if not self._script:
                raise ModelFailed(model=self.name, problem="its script is over")
            line = self._script.pop(0)
            if isinstance(line, asyncio.Event):
                await line.wait()
                continue
            if callable(line) and not isinstance(line, BaseException | Reply):
                line = line(request)
            if isinstance(line, BaseException):
                raise line
            return line


def calls(*tool_calls: tuple[str, str, Any], text: str = "") -> Reply:
    """A reply that calls tools: ``calls(("c1", "weather", {"city": "Oslo"}))``."""
    return Reply(
        text=text,
        calls=tuple(ToolCall(id=id, name=name, arguments=arguments) for id, name, arguments in tool_calls),
    )


def _usage(request: ModelRequest, text: str) -> Usage:
    """Tokens as if every word were one."""
    input_tokens = sum(len(message.text.split()) for message in request.messages)
    return Usage(calls=1, input_tokens=input_tokens, output_tokens=len(text.split()))


def _split_text(text: str, pieces: int) -> Sequence[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]
