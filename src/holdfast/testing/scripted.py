"""A model that says what it was told to say, so that a test knows every word."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from holdfast.core.errors import ModelFailed
from holdfast.runtime.models import Part, Reply, Request, Text, ToolCall, Usage

T = TypeVar("T")
Line: TypeAlias = str | Reply | BaseException | Callable[[Request], Any] | asyncio.Event
"""What comes next: a text, a whole reply, an error to raise, a function of the request that gives any of
these (or, for a typed answer, the value), or an event to wait for before the next line."""


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
        reply = said if isinstance(said, Reply) else Reply(text=str(said), usage=_usage(request, str(said)))
        for piece in _cut(reply.text, self._pieces):
            yield Text(piece)
        yield reply

    async def fill(self, request: Request, kind: type[T]) -> tuple[T, Usage]:
        """The next line, as a value of the type asked for."""
        said = await self._next(request)
        return msgspec.convert(said, kind), _usage(request, str(said))

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
