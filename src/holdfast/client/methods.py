"""Methods of the clients, each made from a call of the API."""

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from holdfast.client.requests import Call

T = TypeVar("T")
P = ParamSpec("P")


def awaited(call: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A call as an async method."""

    async def send(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        return cast("T", await self._send(call(*args, **kwargs)))

    return cast("Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]", update_wrapper(send, call))


def blocking(call: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    """A call as a method that blocks."""

    def send(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        return cast("T", self._send(call(*args, **kwargs)))

    return cast("Callable[Concatenate[Any, P], T]", update_wrapper(send, call))
