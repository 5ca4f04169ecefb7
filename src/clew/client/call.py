"""One request of the API as a value, and how it is put together."""

from collections.abc import Callable, Coroutine, Mapping
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

import msgspec

from clew.core.arguments import check_arguments

T = TypeVar("T")
API = "/api/v1"


class ApiCall(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request, and the type of its answer."""

    method: str
    path: str
    answer_type: Any
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None
    key: str | None = None


def api_call(
    method: str,
    path: str,
    answer_type: Any,
    /,
    *,
    body: msgspec.Struct | bytes | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    **query: object,
) -> ApiCall[Any]:
    """A request of the API; what is None is not said."""
    parameters = {name: _query_text(value) for name, value in query.items() if value is not None}
    content = msgspec.json.encode(body) if isinstance(body, msgspec.Struct) else body
    return ApiCall(
        method=method,
        path=API + path,
        answer_type=answer_type,
        query=parameters,
        headers=dict(headers or {}),
        body=content,
        key=key,
    )


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def path_part(id: str) -> str:
    """An id as a part of a path."""
    return quote(id, safe="")


def if_match_header(version: int | None) -> dict[str, str]:
    """The header that says at which version a thread must be."""
    return {} if version is None else {"If-Match": f'"{version}"'}


P = ParamSpec("P")


class AsyncSender:
    """Whose methods are awaited."""

    def __init__(self, send: Callable[[ApiCall[Any]], Coroutine[Any, Any, Any]]) -> None:
        self.send = send


class BlockingSender:
    """Whose methods block."""

    def __init__(self, send: Callable[[ApiCall[Any]], Any]) -> None:
        self.send = send


class CallMethod(Generic[P, T]):
    """A call as a method of whoever sends it."""

    def __init__(self, call: Callable[P, ApiCall[T]]) -> None:
        self._call = check_arguments(call)
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...

    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: BlockingSender, owner: type) -> Callable[P, T]: ...

    def __get__(self, client: AsyncSender | BlockingSender | None, owner: type) -> object:
        """The method of a client."""
        if client is None:
            return self

        def send(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self._call(*args, **kwargs))

        return update_wrapper(send, self._call)
