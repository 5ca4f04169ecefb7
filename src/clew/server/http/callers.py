"""Who is asking: every request is made on behalf of one identity, and reaches only what is its own."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeAlias, TypeVar

import msgspec
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.params import FromPath, SkipValidation
from litestar.types import ASGIApp, Receive, Scope, Send

from clew.core.encoding import JSON
from clew.core.errors import (
    ClewError,
    Forbidden,
    InvalidArgument,
    ThreadNotFound,
    Unauthenticated,
)
from clew.core.values import Scope as CallerScope
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.context import MemoryMode
from clew.runtime.model.redaction import LOGGED
from clew.runtime.runtime import Runtime
from clew.server.http.client_address import FORWARDED_FOR, Networks, client_address, site_of
from clew.server.http.cursors import Cursors
from clew.server.http.limits import Failures, Gate, Pace
from clew.server.http.views import DENIAL, denial
from clew.server.identity.dev import is_loopback
from clew.server.identity.entries import DEFAULT_WORKSPACE
from clew.server.identity.identity import Authenticate, Identity
from clew.server.metrics import Metrics
from clew.server.settings import ServerSettings
from clew.server.tenants.agent import Agent
from clew.server.tenants.incognito import Guest
from clew.server.tenants.realtime import RealtimeProvider
from clew.server.tenants.runtimes import Runtimes
from clew.server.tenants.thread_feed import Lists

T = TypeVar("T")
OPEN = "open to all"
"""The mark of a route that anybody may ask, like health."""
NEEDS = "needs the scope"
"""The mark of a route that needs a scope of its own, in place of the one for reading or writing."""
ADMIN = "admin"
"""The role, and the scope, that decides for a tenant."""
AUDITOR = "auditor"
READING = ("GET", "HEAD")


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of a process share."""

    settings: ServerSettings
    db: Database
    agent: Agent
    realtime: RealtimeProvider | None
    runtimes: Runtimes
    lists: Lists
    cursors: Cursors
    metrics: Metrics
    streams: Gate
    user_streams: Gate
    turns: Gate
    pace: Pace
    failures: Failures
    trusted_proxies: Networks
    local_only: bool
    closing: asyncio.Event


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """Where a thread is at home for a caller: its runtime, and the user and mode that it is asked with."""

    runtime: Runtime[Any, Any]
    db: Database
    user: str | None
    mode: MemoryMode | None = None

    @property
    def is_incognito(self) -> bool:
        """Whether nothing of it may leave this process."""
        return self.mode is MemoryMode.INCOGNITO


Again: TypeAlias = Callable[[], Awaitable[None]]
"""Looks at the credentials of a connection anew, and refuses who is not let in any more, or not as before."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One identity, and the database as it sees it. What lasts beyond one answer asks ``again``."""

    identity: Identity
    serving: Serving
    db: Database
    again: Again

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
        speaking = self.speaking_for(user)
        if speaking is None:
            raise InvalidArgument(
                problem="Say whose turn it is: neither the credentials nor the body name a user."
            )
        return speaking

    def speaking_for(self, user: str | None) -> str | None:
        """The user that the credentials or the request name, if either does.

        Raises:
            Forbidden: They name two.
        """
        own = self.identity.user
        if own is not None and user is not None and own != user:
            raise Forbidden(problem="These credentials speak for another user.")
        return own if own is not None else user

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

    def inside(self, problem: str | None) -> str | None:
        """What went wrong inside, for who decides for the tenant; to anybody else only that the log says."""
        decides = ADMIN in self.identity.roles and self.identity.workspace == DEFAULT_WORKSPACE
        return problem if problem is None or decides else LOGGED

    def operating(self, *roles: str) -> Database:
        """The database of the whole tenant, for one who has such a role in its first workspace.

        Threads belong to no workspace, so who decides in another one decides for nobody beyond it.

        Raises:
            Forbidden: They have not.
        """
        allowed = roles or (ADMIN,)
        if self.identity.workspace != DEFAULT_WORKSPACE or not self.identity.roles & set(allowed):
            said = " or ".join(repr(role) for role in allowed)
            raise Forbidden(problem=f"This needs the role {said} in the workspace {DEFAULT_WORKSPACE!r}.")
        return self.serving.db.scope(tenant=self.identity.tenant)

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

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Have a stream open. Credentials that speak for all users are bounded with the process alone.

        Raises:
            RateLimited: The user has as many as one user may.
            ServerFull: The process has as many as it may.
        """
        with ExitStack() as held:
            if self.identity.user is not None:
                held.enter_context(self.serving.user_streams.enter(self.name))
            held.enter_context(self.serving.streams.enter())
            yield

    def guest(self, user: str | None = None) -> Guest:
        """Who this is while incognito."""
        return self.identity.tenant, self.speaking_for(user)

    async def reading(self, thread: str) -> Thread:
        """A thread to be read: the caller's own incognito one, if it is here, or the one that is kept."""
        found = await self.serving.runtimes.guests.reading(self.guest(), thread)
        return found if found is not None else self.db.thread(thread)

    @asynccontextmanager
    async def home(
        self,
        thread: str,
        *,
        mode: MemoryMode | None = None,
        user: str | None = None,
        someone: bool = False,
    ) -> AsyncIterator[Home]:
        """Where a thread is at home. An incognito one stays so until it is ended, whatever a request says.

        Raises:
            InvalidArgument: The request is for ``someone``, and nobody says for whom.
        """
        guest = self.guest(user)
        guests = self.serving.runtimes.guests
        if mode is MemoryMode.INCOGNITO or await guests.holds(guest, thread):
            async with guests.of(guest, thread) as (runtime, db):
                yield Home(runtime=runtime, db=db, user=None, mode=mode or MemoryMode.INCOGNITO)
            return
        who = self.acting_for(user) if someone else guest[1]
        async with self.runtime() as runtime:
            db = self.scoped(who) if who is not None else self.db
            yield Home(runtime=runtime, db=db, user=who, mode=mode)


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
        serving: Serving = connection.app.state.serving
        try:
            identity = await self._admitted(connection, serving)
            _check_scope(identity, _needed_scope(scope))
            serving.pace.take(f"{identity.tenant}\0{identity.user or ''}")
        except ClewError as error:
            if DENIAL not in (scope.get("extensions") or {}):
                raise
            for message in denial(error):  # a line that is not opened; else it would be told nothing
                await send(message)
            await asyncio.sleep(0)  # uvicorn logs an error if one returns before the connection is closed
            return
        scope["user"] = identity

        async def again() -> None:
            if await self._admitted(connection, serving) != identity:
                raise Forbidden(problem="What these credentials may do has changed. Connect again.")

        scope["auth"] = again
        await next_app(scope, receive, send)

    async def _admitted(self, connection: ASGIConnection[Any, Any, Any, Any], serving: Serving) -> Identity:
        """Whose request it is.

        Raises:
            RateLimited: The credentials do not hold, like too many from this client of late.
        """
        headers, peer = headers_of(connection), connection.client.host if connection.client else ""
        try:
            # The peer itself must be here, whatever it says of whom it passes on.
            if serving.local_only and not is_loopback(peer):
                raise Unauthenticated(problem="In dev mode the server serves this machine alone.")
            return await self._authenticate(headers)
        except Unauthenticated:
            hops = connection.headers.getall(FORWARDED_FOR, [])
            address = client_address(peer, hops, serving.trusted_proxies)
            serving.failures.count(site_of(address), credentials_digest(headers))
            raise


def credentials_digest(headers: Mapping[str, str]) -> str | None:
    """A hash that stands for the credentials of a request; None if it carries none."""
    values = [headers.get(name, "") for name in ("authorization", "x-api-key")]
    if not any(values):
        return None
    return hashlib.sha256("\0".join(values).encode("utf-8", "surrogateescape")).hexdigest()


def _needed_scope(scope: Scope) -> str:
    """The scope that credentials need for a request: the one of its route, or else by what it may change."""
    own: str | None = scope["route_handler"].opt.get(NEEDS)
    return own or ("read" if scope.get("method") in READING else "write")


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
        again=scope["auth"],
    )


SLASH = "\x1f"
"""Stands for a slash inside an id while a path is taken apart; no id can hold it."""


def named(part: str) -> str:
    """What a part of a path names."""
    return part.replace(SLASH, "/")


OWN = "clew/"
"""How the threads begin that have routes of their own: receipts, and the audit."""


async def the_thread(id: FromPath[str], caller: Calling) -> str:
    """The thread that a path names."""
    # It needs no caller, but the framework makes two that stand alone in a group of tasks, at a tenth of the
    # cost of a request, and one after another without.
    return reachable(named(id))


def reachable(thread: str) -> str:
    """A thread that is not one of those with routes of their own.

    Raises:
        ThreadNotFound: It is one of them.
    """
    if thread.startswith(OWN):
        raise ThreadNotFound(thread=thread)
    return thread
