"""A model that says what it was told to say, so that a test knows every word."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from clew.core.errors import ModelFailed
from clew.runtime.model.protocol import Part, Reply, Request, Text, ToolCall, Usage

T = TypeVar("T")
Line: TypeAlias = (
    str
    | Reply
    | BaseException
    | asyncio.Event
    | Sequence[str | BaseException | asyncio.Event]
    | Callable[[Request], Any]
)
"""What comes next: a text, a whole reply, an error to raise, a function of the request that gives any of
these (or, for a typed answer, the value), or an event to wait for before the next line. A list is one text
in just these pieces, with events to wait for between them and an error where it breaks off."""


class ScriptedModel:
    """Plays a script, one line for each call, and keeps every request it got."""

    def __init__(self, *script: Line, name: str = "scripted", pieces: int = 4) -> None:
        self.name = name
        self.requests: list[Request] = []
        self._script = list(script)
        self._pieces = pieces

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """The next line, its text in pieces."""
        said = await self._next(request)
        reply = said if isinstance(said, Reply) else None
        pieces = (
            said if isinstance(said, list | tuple) else _cut(reply.text if reply else str(said), self._pieces)
        )
        text = ""
        for piece in pieces:
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            elif isinstance(piece, BaseException):
                raise piece
            else:
                text += piece
                yield Text(piece)
        yield reply or Reply(text=text, usage=_usage(request, text))

    async def fill(self, request: Request, kind: type[T]) -> tuple[T, Usage]:
        """The next line, as a value of the type asked for."""
        said = await self._next(request)
        try:
            return msgspec.convert(said, kind), _usage(request, str(said))
        except msgspec.ValidationError as error:
            problem = f"its answer is not what was asked for: {error}"
            spent = msgspec.to_builtins(_usage(request, str(said)))
            raise ModelFailed(model=self.name, problem=problem, retry=True, spent=spent) from error

    async def _next(self, request: Request) -> Any:
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


def calls(*wanted: tuple[str, str, Any], text: str = "") -> Reply:
    """A reply that calls tools: ``calls(("c1", "weather", {"city": "Oslo"}))``."""
    return Reply(
        text=text, calls=tuple(ToolCall(id=id, name=name, arguments=given) for id, name, given in wanted)
    )


def _usage(request: Request, said: str) -> Usage:
    """Tokens as if every word were one."""
    heard = sum(len(message.text.split()) for message in request.messages)
    return Usage(calls=1, input_tokens=heard, output_tokens=len(said.split()))


def _cut(text: str, pieces: int) -> Sequence[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]
