"""The line between our code and that of a model, an embedder or a search: its answers are checked here.

A model is foreign code and may raise or return anything. Every call of one goes through here and
gives what the protocol says or raises ``ModelFailed``, so that a caller has one kind of failure to
survive. What is no fault of the model passes as it is: a cancellation, an error of ours, a mistake around
the call.
"""

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar, cast

import msgspec

from clew.core.errors import ClewError, ModelFailed
from clew.runtime.model.protocol import Model, ModelRequest, Reply, ReplyPart, TextChunk, Usage

T = TypeVar("T")
log = logging.getLogger("clew")
CUT_OFF = "the stream ended before the reply did"
END = object()


def model_boundary(model: str) -> "ModelBoundary":
    """Turn whatever a model's own code raises into ``ModelFailed``. Enclose that code alone, and no other.

    The words of the error are not taken over: they may hold a path, a key or what a user said.

    Raises:
        ModelFailed: (by the block) The model raised something. If it was about a connection, asking again may
            help.
    """
    return ModelBoundary(model)


class ModelBoundary:
    """A block of a model's own code. It is a class because every piece of a reply enters one."""

    __slots__ = ("_model",)

    def __init__(self, model: str) -> None:
        self._model = model

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, ClewError):
            return
        if isinstance(error, asyncio.CancelledError):
            if not _is_cancelled():
                raise ModelFailed(model=self._model, problem="it cancelled itself") from error
        elif isinstance(error, Exception):
            if _is_cancelled():  # the model has made something else of it
                raise asyncio.CancelledError from error
            problem = f"it raised {type(error).__name__}"
            raise ModelFailed(model=self._model, problem=problem, retry=isinstance(error, OSError)) from error


def _is_cancelled() -> bool:
    """Return whether the current task is to end: its deadline is over, or it was cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def log_failure(model: str, failure: ClewError) -> None:
    """Log that a model failed by the name of its error; its words, which may be a person's, only at debug."""
    log.warning("Model %r failed: %s", model, reason_of(failure))
    log.debug("Why, in words that may be a person's:", exc_info=failure)


def reason_of(failure: ClewError) -> str:
    """The error behind a failure by its name alone: what the model raised, or the code of ours."""
    return type(failure.__cause__).__name__ if is_unforeseen(failure) else failure.code


def is_unforeseen(failure: BaseException) -> bool:
    """Return whether a model failed in a way of its own, and not as the protocol says."""
    return isinstance(failure, ModelFailed) and failure.__cause__ is not None


class ModelWrapper(ABC):
    """A model of ours around another, which does its own calls through the boundary."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        """The reply as it comes, made of what ``stream_parts`` gives of the inner one."""

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """A typed answer, as the inner one gives it."""
        return await fill_answer(self._model, request, kind)


def stream_parts(model: Model, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
    """The parts of a reply as they come, the whole reply last. Close it, if it is left before its end.

    Raises:
        ModelFailed: The model raised something, gave what is no part of a reply, or stopped before its end.
    """
    return model.stream(request) if isinstance(model, ModelWrapper) else _checked_parts(model, request)


async def _checked_parts(model: Model, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
    with model_boundary(model.name):
        parts = aiter(model.stream(request))
    try:
        while True:
            with model_boundary(model.name):
                part = await anext(parts, END)
            if part is END:
                raise ModelFailed(model=model.name, problem=CUT_OFF, retry=True)
            yield _checked_part(model.name, part)  # outside of the boundary: what is made of it is our affair
            if isinstance(part, Reply):
                return
    finally:
        if isinstance(parts, AsyncGenerator):
            with model_boundary(model.name):
                await parts.aclose()


def _checked_part(model: str, part: Any) -> ReplyPart:
    if isinstance(part, TextChunk) and isinstance(part.text, str):
        return part
    if isinstance(part, Reply):
        with answer_check(model):
            msgspec.convert(msgspec.to_builtins(part), Reply)
        return part
    problem = f"its stream gave a {type(part).__name__}, which is no part of a reply"
    raise ModelFailed(model=model, problem=problem) from TypeError(problem)


async def fill_answer(model: Model, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
    """A model's answer of a given type, and what it cost, both of them sound.

    Raises:
        ModelFailed: The model raised something, or its answer is not of that type.
    """
    if isinstance(model, ModelWrapper):
        return await model.fill(request, kind)
    with model_boundary(model.name):
        pair: Any = await model.fill(request, kind)
    with answer_check(model.name):
        answer, usage = pair
        return _validate(answer, kind), _validate(usage, Usage)


def checked_value(model: str, value: Any, kind: type[T]) -> T:
    """A model's answer, if it is of a type throughout: a struct does not check its own fields.

    Raises:
        ModelFailed: It is not.
    """
    with answer_check(model):
        value = _validate(value, kind)
    return cast("T", value)


def _validate(value: Any, kind: Any) -> Any:
    try:
        text = msgspec.json.encode(value)
    except TypeError:  # a type of the caller's own, which only the caller can look into
        if inspect.isclass(kind) and isinstance(value, kind):  # a union and the like is no class
            return value
        raise
    return msgspec.json.decode(text, type=kind)


@contextmanager
def answer_check(model: str) -> Iterator[None]:
    """Turn what a check finds wrong with something that a model gave into ``ModelFailed``.

    Raises:
        ModelFailed: The check found something.
    """
    try:
        yield
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        why = error if isinstance(error, msgspec.MsgspecError) else type(error).__name__
        problem = f"its answer is not what was asked for: {why}"
        raise ModelFailed(model=model, problem=problem) from error
