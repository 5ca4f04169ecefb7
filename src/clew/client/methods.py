"""Methods of the clients, each made from a call of the API: awaited by one client, blocking in the other."""

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from clew.client.requests import Call
from clew.core.arguments import check_arguments

T = TypeVar("T")
P = ParamSpec("P")


class Awaited:
    """Whose methods are awaited."""

    def __init__(self, send: Callable[[Call[Any]], Coroutine[Any, Any, Any]]) -> None:
        self.send = send


class Blocking:
    """Whose methods block."""

    def __init__(self, send: Callable[[Call[Any]], Any]) -> None:
        self.send = send


class Method(Generic[P, T]):
    """A call as a method of whoever sends it."""

    def __init__(self, call: Callable[P, Call[T]]) -> None:
        self._call = check_arguments(call)
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...

    @overload
    def __get__(self, client: Awaited, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...

    def __get__(self, client: Awaited | Blocking | None, owner: type) -> object:
        """The method of a client."""
        if client is None:
            return self

        def send(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self._call(*args, **kwargs))

        return update_wrapper(send, self._call)
