"""Asking a model: deadlines, retries with growing pauses, text handed on as it comes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import msgspec

from holdfast.core.errors import DeadlineExceeded, ModelFailed
from holdfast.runtime.models import Model, Reply, Request, Text, Usage

T = TypeVar("T")


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait and how often to try again. Seconds throughout."""

    call: float = 60.0
    tool: float = 60.0
    turn: float = 600.0
    attempts: int = 3
    pause: float = 0.5
    longest_pause: float = 10.0

    def before(self, attempt: int) -> float:
        """How long to pause before an attempt."""
        return min(self.pause * float(2 ** (attempt - 2)), self.longest_pause)


async def ask(
    model: Model,
    request: Request,
    patience: Patience,
    told: Callable[[str, int], None] = lambda text, attempt: None,
) -> Reply:
    """A model's whole reply; ``told`` hears its text as it comes, and which attempt it is.

    Raises:
        ModelFailed: It gave no usable reply, however often it was asked.
        DeadlineExceeded: It took too long, every time.
    """

    async def once(attempt: int) -> Reply:
        return await _whole(model, model.stream(request), lambda text: told(text, attempt))

    return await _tried(model, once, patience)


async def fill(model: Model, request: Request, kind: type[T], patience: Patience) -> tuple[T, Usage]:
    """A model's answer of a given type.

    Raises:
        ModelFailed: It gave none.
        DeadlineExceeded: It took too long.
    """
    return await _tried(model, lambda attempt: model.fill(request, kind), patience)


async def _tried(model: Model, once: Callable[[int], Awaitable[T]], patience: Patience) -> T:
    attempt = 1
    while True:
        deadline = asyncio.timeout(patience.call)
        try:
            async with deadline:
                return await once(attempt)
        except TimeoutError as error:
            if not deadline.expired():
                raise ModelFailed(model=model.name, problem=f"it timed out: {error}") from error
            failure: ModelFailed | DeadlineExceeded = DeadlineExceeded(
                what=f"Model {model.name!r}", seconds=patience.call
            )
        except ModelFailed as error:
            if not error.retry:
                raise
            failure = error
        attempt += 1
        if attempt > patience.attempts:
            raise failure
        await asyncio.sleep(patience.before(attempt))


async def _whole(model: Model, parts: AsyncIterator[Text | Reply], told: Callable[[str], None]) -> Reply:
    async for part in parts:
        if isinstance(part, Reply):
            return part
        told(part.text)
    raise ModelFailed(model=model.name, problem="the stream ended before the reply did", retry=True)
