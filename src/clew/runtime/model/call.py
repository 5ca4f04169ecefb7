"""Asking a model: deadlines, retries with growing pauses, text handed on as it comes."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from clew.core.arguments import Count, Seconds, check_methods
from clew.core.errors import DeadlineExceeded, ModelFailed
from clew.runtime.model.boundary import CUT_OFF, fill_answer, is_unforeseen, log_failure, stream_parts
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model, ModelRequest, Reply, Usage

T = TypeVar("T")


class NamedService(Protocol):
    """A service with a name, which its errors carry."""

    @property
    def name(self) -> str:
        """The name of the service."""
        ...


@check_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The attempts at a call to a model or another service, and the pauses between them, in seconds.

    ``call_seconds`` is the deadline of one attempt. A pause grows from ``pause`` to ``longest_pause``. A
    provider that asks for a longer one gets it, up to ``longest_wait``; beyond that it is not worth waiting,
    and the call fails.
    """

    call_seconds: Seconds = 60.0
    attempts: Count = 3
    pause: Seconds = 0.5
    longest_pause: Seconds = 10.0
    longest_wait: Seconds = 60.0

    def pause_before(self, attempt: int, chance: float = 1.0) -> float:
        """The pause before an attempt: by chance, at least half of the full one."""
        full = min(self.pause * float(2 ** (attempt - 2)), self.longest_pause)
        return full * (1 + chance) / 2


@check_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The longest that a tool call and a whole turn may take, in seconds."""

    tool_seconds: Seconds = 60.0
    turn_seconds: Seconds = 600.0


async def ask(
    model: Model,
    request: ModelRequest,
    retry_policy: RetryPolicy,
    on_text: Callable[[str, int], None] = lambda text, attempt: None,
    on_wasted_usage: Callable[[Usage], None] = lambda usage: None,
) -> Reply:
    """Return a model's whole reply; ``on_text`` gets its text as it comes, with the number of the attempt.

    ``on_wasted_usage`` gets the usage of an attempt whose reply could not be used.

    Raises:
        ModelFailed: It gave no usable reply, however often it was asked.
        DeadlineExceeded: It took too long, every time.
    """

    async def call_once(attempt: int) -> Reply:
        return await _read_reply(model, request, lambda text: on_text(text, attempt))

    with _log_failure(model):
        return await call_with_retries(model, call_once, retry_policy, on_wasted_usage)


async def fill(
    model: Model,
    request: ModelRequest,
    kind: type[T],
    retry_policy: RetryPolicy,
    on_wasted_usage: Callable[[Usage], None] = lambda usage: None,
) -> tuple[T, Usage]:
    """Return a model's answer of a type, and its usage; ``on_wasted_usage`` gets that of unusable answers.

    A model whose answer could not be used is told why when it is asked again.

    Raises:
        ModelFailed: It gave none.
        DeadlineExceeded: It took too long.
    """
    current_request = request

    async def call_once(attempt: int) -> tuple[T, Usage]:
        nonlocal current_request
        try:
            return await fill_answer(model, current_request, kind)
        except ModelFailed as failure:
            # Only an answer that was paid for was read; other failures are about no answer.
            if failure.spent:
                current_request = _correction_request(request, failure.problem)
            raise

    with _log_failure(model):
        return await call_with_retries(model, call_once, retry_policy, on_wasted_usage)


@contextmanager
def _log_failure(model: NamedService) -> Iterator[None]:
    """Log an unforeseen failure of a model once, when it is not asked again.

    A caller that survives it need not log again. A failure that the protocol foresees is not logged.
    """
    try:
        yield
    except ModelFailed as failure:
        if is_unforeseen(failure):
            log_failure(model.name, failure)
        raise


def _correction_request(request: ModelRequest, problem: str) -> ModelRequest:
    correction = Message(role="user", content=f"Your last answer could not be used: {problem}. Answer again.")
    return msgspec.structs.replace(request, messages=[*request.messages, correction])


async def call_with_retries(
    model: NamedService,
    call_once: Callable[[int], Awaitable[T]],
    retry_policy: RetryPolicy,
    on_wasted_usage: Callable[[Usage], None] = lambda usage: None,
) -> T:
    """Return the result of the first attempt that succeeds, each called with its number, counted from 1.

    Raises:
        ModelFailed: None gave anything, or another would not help.
        DeadlineExceeded: The last took too long.
    """
    attempt = 1
    while True:
        try:
            return await _with_deadline(model, call_once(attempt), retry_policy)
        except DeadlineExceeded:
            if attempt >= retry_policy.attempts:
                raise
            retry_after = 0.0
        except ModelFailed as failure:
            if failure.spent:
                on_wasted_usage(Usage(**failure.spent))
            retry_after = (failure.retry_after_ms or 0) / 1000
            if (
                not failure.retry
                or attempt >= retry_policy.attempts
                or retry_after > retry_policy.longest_wait
            ):
                raise
        attempt += 1
        await asyncio.sleep(max(retry_policy.pause_before(attempt, random.random()), retry_after))


async def _with_deadline(model: NamedService, answer: Awaitable[T], retry_policy: RetryPolicy) -> T:
    """Return an answer before its deadline. An outer deadline cancels it, and counts as no timeout of it."""
    deadline = asyncio.timeout(retry_policy.call_seconds)
    try:
        async with deadline:
            return await answer
    except TimeoutError as error:
        if deadline.expired():
            raise DeadlineExceeded(what=f"Model {model.name!r}", seconds=retry_policy.call_seconds) from error
        raise ModelFailed(model=model.name, problem="its connection timed out", retry=True) from error


async def _read_reply(model: Model, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
    async with aclosing(stream_parts(model, request)) as parts:
        async for part in parts:
            if isinstance(part, Reply):
                return part
            on_text(part.text)
    raise ModelFailed(model=model.name, problem=CUT_OFF, retry=True)
