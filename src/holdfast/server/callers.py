"""Who is asking: every request is made on behalf of one identity, and reaches only what is its own."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import msgspec
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.params import FromPath, SkipValidation
from litestar.types import ASGIApp, Receive, Scope, Send

from holdfast.core.encoding import JSON
from holdfast.core.errors import Forbidden, InvalidArgument
from holdfast.core.values import Scope as CallerScope
from holdfast.runtime.engine import Runtime
from holdfast.server.cursors import Cursors
from holdfast.server.identity.values import Authenticate, Identity
from holdfast.server.limits import Gate, Pace
from holdfast.server.metrics import Metrics
from holdfast.server.runtimes import Runtimes
from holdfast.server.settings import ServerSettings
from holdfast.threads.database import Database

T = TypeVar("T")
OPEN = "open to all"
"""The mark of a route that anybody may ask, like health."""
ADMIN = "admin"
"""The role, and the scope, that may look at the whole server."""
READING = ("GET", "HEAD")


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of a process share."""

    settings: ServerSettings
    db: Database
    runtimes: Runtimes
    cursors: Cursors
    metrics: Metrics
    streams: Gate
    turns: Gate
    pace: Pace
    closing: asyncio.Event


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One identity, and the database as it sees it."""

    identity: Identity
    serving: Serving
    db: Database

    @property
    def name(self) -> str:
        """What limits are counted by, and what cursors are made for."""
        return f"{self.identity.tenant}\0{self.identity.user or ''}"

    @property
    def scope(self) -> CallerScope:
        """On whose behalf the store is asked."""
        return CallerScope(tenant=self.identity.tenant, user=self.identity.user)

    def acting_for(self, user: str | None) -> str:
        """The user that a turn is for. It is never made up.

        Raises:
            InvalidArgument: Neither the credentials nor the request name one.
            Forbidden: They name two.
        """
        own = self.identity.user
        if own is None and user is None:
            raise InvalidArgument(
                problem="Say whose turn it is: neither the credentials nor the body name a user."
            )
        if own is not None and user is not None and own != user:
            raise Forbidden(problem="These credentials speak for another user.")
        return own if own is not None else str(user)

    def scoped(self, user: str) -> Database:
        """The database as a user sees it."""
        return self.serving.db.scope(tenant=self.identity.tenant, user=user)

    def need(self, role: str) -> None:
        """Refuse whoever does not have a role.

        Raises:
            Forbidden: They do not.
        """
        if role not in self.identity.roles:
            raise Forbidden(problem=f"This needs the role {role!r}.")

    def cursor(self, position: JSON, of: str) -> str:
        """A cursor of one of this caller's lists."""
        return self.serving.cursors.made(position, of=f"{self.name}\0{of}")

    def position(self, cursor: str | None, kind: type[T], of: str) -> T | None:
        """Where a cursor of this caller stands; None without one."""
        if cursor is None:
            return None
        return self.serving.cursors.read(cursor, kind, of=f"{self.name}\0{of}")

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Runtime[Any, Any]]:
        """The runtime of the caller's tenant."""
        async with self.serving.runtimes.of(self.identity.tenant) as runtime:
            yield runtime


Calling: TypeAlias = NamedDependency[SkipValidation[Caller]]
ThreadId: TypeAlias = NamedDependency[SkipValidation[str]]


class Authentication(ASGIMiddleware):
    """Finds out whose request it is before anything else looks at it."""

    scopes = (ScopeType.HTTP, ScopeType.WEBSOCKET)
    exclude_opt_key = OPEN

    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate = authenticate

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Go on as somebody, or not at all."""
        connection: ASGIConnection[Any, Any, Any, Any] = ASGIConnection(scope)
        identity = await self._authenticate(headers_of(connection))
        _check_scope(identity, "read" if scope.get("method") in READING else "write")
        serving: Serving = connection.app.state.serving
        serving.pace.take(f"{identity.tenant}\0{identity.user or ''}")
        scope["user"] = identity
        await next_app(scope, receive, send)


def _check_scope(identity: Identity, needed: str) -> None:
    if needed not in identity.scopes:
        raise Forbidden(problem=f"This needs the scope {needed!r}.")


def headers_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Mapping[str, str]:
    """The headers by their names in lower case."""
    return {name.lower(): value for name, value in connection.headers.items()}


async def the_caller(scope: Scope, state: State) -> Caller:
    """The caller of a request."""
    identity: Identity = scope["user"]
    serving: Serving = state.serving
    return Caller(
        identity=identity,
        serving=serving,
        db=serving.db.scope(tenant=identity.tenant, user=identity.user),
    )


SLASH = "\x1f"
"""Stands for a slash inside an id while a path is taken apart; no id can hold it."""


def named(part: str) -> str:
    """What a part of a path names."""
    return part.replace(SLASH, "/")


async def the_thread(id: FromPath[str]) -> str:
    """The thread that a path names."""
    return named(id)
