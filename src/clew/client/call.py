"""One request of the API as a value, and the methods of the clients that send it."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

import msgspec

from clew.api.events import StreamEvent
from clew.api.route import IDEMPOTENCY_KEY, LAST_EVENT_ID, Route
from clew.core.arguments import check_arguments

T = TypeVar("T")
P = ParamSpec("P")


class ApiCall(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request: its route, its path with the ids in it, and what is sent with it."""

    route: Route[T]
    path: str
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None


def api_call(
    route: Route[T],
    /,
    *ids: str,
    body: msgspec.Struct | bytes | None = None,
    key: str | None = None,
    expect: int | None = None,
    last_event: str | None = None,
    **query: object,
) -> ApiCall[T]:
    """Return a request of a route; parameters that are None are left out.

    ``ids`` go into the path. ``key`` makes the request safe to repeat, ``expect`` is the version at which its
    thread must be, and ``last_event`` the id of the event behind which a stream goes on.
    """
    headers = {
        "Content-Type": None if body is None else route.body_type,
        IDEMPOTENCY_KEY: key,
        "If-Match": None if expect is None else f'"{expect}"',
        LAST_EVENT_ID: last_event,
    }
    return ApiCall(
        route=route,
        path=route.path_for(*ids),
        query={name: _query_text(value) for name, value in query.items() if value is not None},
        headers={name: value for name, value in headers.items() if value is not None},
        body=msgspec.json.encode(body) if isinstance(body, msgspec.Struct) else body,
    )


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class AsyncSender:
    """An object whose methods are awaited."""

    def __init__(self, send: Callable[[ApiCall[Any]], Coroutine[Any, Any, Any]]) -> None:
        self.send = send


class BlockingSender:
    """An object whose methods block."""

    def __init__(self, send: Callable[[ApiCall[Any]], Any]) -> None:
        self.send = send


class CallMethod(Generic[P, T]):
    """A decorator that makes a method send the call that it returns.

    The method is written once and serves both clients: an ``AsyncSender`` awaits its reply, a
    ``BlockingSender`` has it at once.
    """

    def __init__(self, call: Callable[Concatenate[Any, P], ApiCall[T]]) -> None:
        self.call = check_arguments(call)
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...

    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: BlockingSender, owner: type) -> Callable[P, T]: ...

    def __get__(self, client: AsyncSender | BlockingSender | None, owner: type) -> object:
        """Bind the method to a client."""
        return self if client is None else _bind(self.call, client, client.send)


class AsyncStreams(Protocol):
    """An object whose streams are iterated with ``async for``."""

    def stream(self, call: ApiCall[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Iterate over the events of a call."""
        ...


class BlockingStreams(Protocol):
    """An object whose streams are iterated with ``for``."""

    def stream(self, call: ApiCall[StreamEvent]) -> Iterator[StreamEvent]:
        """Iterate over the events of a call."""
        ...


class StreamMethod(Generic[P]):
    """A decorator that makes a method iterate over the events of the call that it returns."""

    def __init__(self, call: Callable[Concatenate[Any, P], ApiCall[StreamEvent]]) -> None:
        self.call = check_arguments(call)
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...

    @overload
    def __get__(self, client: AsyncStreams, owner: type) -> Callable[P, AsyncIterator[StreamEvent]]: ...

    @overload
    def __get__(self, client: BlockingStreams, owner: type) -> Callable[P, Iterator[StreamEvent]]: ...

    def __get__(self, client: AsyncStreams | BlockingStreams | None, owner: type) -> object:
        """Bind the method to a client."""
        return self if client is None else _bind(self.call, client, client.stream)


def _bind(call: Callable[..., Any], client: object, send: Callable[[Any], object]) -> Callable[..., object]:
    """Return the method of a client that makes a call and sends it."""
    bound_call = MethodType(call, client)

    def method(*args: object, **kwargs: object) -> object:
        return send(bound_call(*args, **kwargs))

    update_wrapper(method, call)
    method.__dict__["__wrapped__"] = bound_call  # so that its signature is shown without self
    return method
