"""Guardrails: checks on an input before it is answered, and on an answer before it is stored."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar, overload

import msgspec

from clew.core.arguments import check_arguments, check_async, check_fields
from clew.core.errors import DeadlineExceeded, GuardrailTripped
from clew.runtime.context import Context

T = TypeVar("T")


class _CheckFunction(Protocol):
    __name__: str

    def __call__(self, text: str, context: Context, /) -> Awaitable[str | None]:
        """Look at a text."""
        ...


class Guardrail(msgspec.Struct, frozen=True, kw_only=True):
    """A check with a name. A parallel one runs beside the model, a sequential one before it.

    ``check`` gets a text. None lets it pass; a text says what is wrong with it.
    On an answer, the sequential ones run one after another, then the parallel ones side by side.
    """

    name: str
    check: Callable[[str, Context], Awaitable[str | None]]
    parallel: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    async def enforce(self, text: str, context: Context) -> None:
        """Refuse a text that the check finds something wrong with. A check that fails lets nothing pass.

        Raises:
            GuardrailTripped: Something is wrong with it.
            DeadlineExceeded: The check took longer than a model may.
        """
        seconds = context.turn.retry_policy.call_seconds
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                problem = await self.check(text, context)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise DeadlineExceeded(what=f"Guardrail {self.name!r}", seconds=seconds) from error
        if problem is not None:
            raise GuardrailTripped(guardrail=self.name, problem=problem)


@overload
def guardrail(check: _CheckFunction, /) -> Guardrail: ...
@overload
def guardrail(
    *, parallel: bool = False, name: str | None = None
) -> Callable[[_CheckFunction], Guardrail]: ...


@check_arguments
def guardrail(
    check: _CheckFunction | None = None, /, *, parallel: bool = False, name: str | None = None
) -> Guardrail | Callable[[_CheckFunction], Guardrail]:
    """Make a guardrail of an async function: ``@guardrail`` or ``@guardrail(parallel=True)``."""

    def decorate(check: _CheckFunction) -> Guardrail:
        check_async(check, f"Guardrail {check.__name__!r}")
        return Guardrail(name=name or check.__name__, check=check, parallel=parallel)

    return decorate if check is None else decorate(check)


async def check_answer(guardrails: Sequence[Guardrail], text: str, context: Context) -> None:
    """Check an answer with the sequential guardrails, one after another, then with the parallel ones.

    Raises:
        GuardrailTripped: One of them refuses it.
    """
    await check_sequentially(guardrails, text, context)
    checks = [each.enforce(text, context) for each in guardrails if each.parallel]
    if checks:
        await run_with_checks(checks[0], checks[1:])


async def check_sequentially(guardrails: Sequence[Guardrail], text: str, context: Context) -> None:
    """Check a text with the sequential guardrails, one after another.

    Raises:
        GuardrailTripped: One of them refuses it.
    """
    for each in guardrails:
        if not each.parallel:
            await each.enforce(text, context)


async def run_with_guardrails(
    work: Coroutine[Any, Any, T], guardrails: Sequence[Guardrail], text: str, context: Context
) -> T:
    """Return the result of the work once every parallel guardrail has let the text pass. A refusal ends it.

    Raises:
        GuardrailTripped: One of them refuses it; whatever the work gave or would have given is dropped.
    """
    return await run_with_checks(work, [each.enforce(text, context) for each in guardrails if each.parallel])


async def run_with_checks(work: Coroutine[Any, Any, T], checks: Sequence[Coroutine[Any, Any, None]]) -> T:
    """Return the result of some work if all checks pass; the first that fails ends the rest."""
    if not checks:
        return await work
    work_task = asyncio.ensure_future(work)
    check_tasks = [asyncio.ensure_future(check) for check in checks]
    tasks: list[asyncio.Task[Any]] = [work_task, *check_tasks]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for check_task in check_tasks:
            if check_task.done():
                await check_task  # a refusal counts more than what became of the work
        return await work_task
    finally:
        await _cancel_tasks(tasks)


async def _cancel_tasks(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    """Cancel what still runs, and retrieve its errors, so that asyncio does not report them as lost."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
