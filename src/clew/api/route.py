"""The description of one route, from which the server, the client and the OpenAPI document are made."""

import re
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

API_PREFIX = "/api/v1"
IDEMPOTENCY_KEY = "Idempotency-Key"
LAST_EVENT_ID = "Last-Event-ID"
JSON_TYPE = "application/json"
LINES_TYPE = "application/x-ndjson"
FILE_TYPE = "application/octet-stream"

T = TypeVar("T")
Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
PARAMETER = re.compile(r"{\w+}")


class Route(msgspec.Struct, Generic[T], frozen=True):
    """One route of the API: what it is called, where it is, and what goes in and out.

    ``reply`` is the type of the reply: a struct, ``bytes`` for a file, ``None`` for nothing. ``body`` is the
    type of a JSON body; a route that takes something else names its ``body_type``, and one that
    ``takes_files`` may be sent as much as an archive. ``has_etag`` says that the reply carries the version of
    a thread.

    A POST can be repeated safely with an idempotency key: the server stores its reply, unless the route
    ``commits_key`` with its change. ``runs_model`` says that a model or a tool works for it. ``scope`` is
    what its credentials need, in place of ``read`` or ``write``; a route that is ``open_to_all`` needs none.
    ``audit`` is the action that it leaves in the audit.
    """

    name: str
    method: Method
    path: str
    reply: type[T]
    body: Any = None
    status: int = 200
    media_type: str = JSON_TYPE
    other_media_types: tuple[str, ...] = ()
    body_type: str = JSON_TYPE
    takes_files: bool = False
    has_etag: bool = False
    commits_key: bool = False
    runs_model: bool = False
    scope: str | None = None
    open_to_all: bool = False
    audit: str = ""

    def path_for(self, *ids: str) -> str:
        """Return the path with ids in the places of its parameters; a slash inside an id is escaped."""
        remaining = iter(ids)
        return API_PREFIX + PARAMETER.sub(lambda _: quote(next(remaining), safe=""), self.path)
