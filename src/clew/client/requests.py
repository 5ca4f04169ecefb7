"""One request of the API as a value, and how it is put together."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

T = TypeVar("T")
API = "/api/v1"


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request, and the type of its answer."""

    method: str
    path: str
    answer: Any
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: bytes | None = None
    key: str | None = None


def call(
    method: str,
    path: str,
    answer: Any,
    /,
    *,
    body: msgspec.Struct | bytes | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    **query: object,
) -> Call[Any]:
    """A request of the API; what is None is not said."""
    said = {name: _text(value) for name, value in query.items() if value is not None}
    sent = msgspec.json.encode(body) if isinstance(body, msgspec.Struct) else body
    return Call(
        method=method,
        path=API + path,
        answer=answer,
        query=said,
        headers=dict(headers or {}),
        body=sent,
        key=key,
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def named(id: str) -> str:
    """An id as a part of a path."""
    return quote(id, safe="")


def matching(version: int | None) -> dict[str, str]:
    """The header that says at which version a thread must be."""
    return {} if version is None else {"If-Match": f'"{version}"'}
