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
from clew.runtime.model.redaction import SEE_LOG
from clew.runtime.runtime import Runtime
from clew.server.http.client_address import FORWARDED_FOR, Networks, client_address, site_of
from clew.server.http.cursors import Cursors
from clew.server.http.limits import ConcurrencyLimit, FailureLimit, RateLimit
from clew.server.http.views import DENIAL_EXTENSION, denial_messages
from clew.server.identity.dev import is_loopback
from clew.server.identity.entries import DEFAULT_WORKSPACE
from clew.server.identity.identity import Authenticate, Identity
from clew.server.metrics import Metrics
from clew.server.settings import ServerSettings
from clew.server.tenants.agent import ServedAgent
from clew.server.tenants.incognito import UserKey
from clew.server.tenants.realtime import RealtimeProvider
from clew.server.tenants.runtimes import TenantRuntimes
from clew.server.tenants.thread_feed import ThreadFeeds

T = TypeVar("T")
OPEN_TO_ALL = "open to all"
"""The mark of a route that anybody may ask, like health."""
NEEDS = "needs the scope"
"""The mark of a route that needs a scope of its own, in place of the one for reading or writing."""
ADMIN = "admin"
"""The role, and the scope, that decides for a tenant."""
AUDITOR = "auditor"
READ_METHODS = ("GET", "HEAD")


class ServerResources(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of a process share."""

    settings: ServerSettings
    db: Database
    agent: ServedAgent
    realtime: RealtimeProvider | None
    runtimes: TenantRuntimes
    thread_feeds: ThreadFeeds
    cursors: Cursors
    metrics: Metrics
    streams: ConcurrencyLimit
    user_streams: ConcurrencyLimit
    user_turns: ConcurrencyLimit
    user_requests: RateLimit
    failures: FailureLimit
    trusted_proxies: Networks
    local_only: bool
    closing: asyncio.Event


class ThreadAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Where a thread is at home for a caller: its runtime, and the user and mode that it is asked with."""

    runtime: Runtime[Any, Any]
    db: Database
    user: str | None
    mode: MemoryMode | None = None

    @property
    def is_incognito(self) -> bool:
        """Whether nothing of it may leave this process."""
        return self.mode is MemoryMode.INCOGNITO


RecheckAccess: TypeAlias = Callable[[], Awaitable[None]]
"""Looks at the credentials of a connection anew, and refuses who is not let in any more, or not as before."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One identity, and the database as it sees it. What lasts beyond one answer asks ``recheck_access``."""

    identity: Identity
    resources: ServerResources
    db: Database
    recheck_access: RecheckAccess

    @property
    def name(self) -> str:
        """What limits are counted by, and what cursors are made for."""
        return f"{self.identity.tenant}\0{self.identity.user or ''}"

    @property
    def scope(self) -> CallerScope:
        """On whose behalf the store is asked."""
        return CallerScope(tenant=self.identity.tenant, user=self.identity.user)

    def require_user(self, user: str | None) -> str:
        """The user that a turn is for. It is never made up.

        Raises:
            InvalidArgument: Neither the credentials nor the request name one.
            Forbidden: They name two.
        """
        effective = self.effective_user(user)
        if effective is None:
            raise InvalidArgument(
                problem="Say whose turn it is: neither the credentials nor the body name a user."
            )
        return effective

    def effective_user(self, user: str | None) -> str | None:
        """The user that the credentials or the request name, if either does.

        Raises:
            Forbidden: They name two.
        """
        own = self.identity.user
        if own is not None and user is not None and own != user:
            raise Forbidden(problem="These credentials speak for another user.")
        return own if own is not None else user

    def database_for(self, user: str) -> Database:
        """The database as a user sees it."""
        return self.resources.db.scope(tenant=self.identity.tenant, user=user)

    def require_role(self, role: str) -> None:
        """Refuse whoever does not have a role.

        Raises:
            Forbidden: They do not.
        """
        if role not in self.identity.roles:
            raise Forbidden(problem=f"This needs the role {role!r}.")

    def visible_problem(self, problem: str | None) -> str | None:
        """What went wrong inside, for who decides for the tenant; to anybody else only that the log says."""
        is_admin = ADMIN in self.identity.roles and self.identity.workspace == DEFAULT_WORKSPACE
        return problem if problem is None or is_admin else SEE_LOG

    def tenant_database(self, *roles: str) -> Database:
        """The database of the whole tenant, for one who has such a role in its first workspace.

        Threads belong to no workspace, so who decides in another one decides for nobody beyond it.

        Raises:
            Forbidden: They have not.
        """
        choices = roles or (ADMIN,)
        if self.identity.workspace != DEFAULT_WORKSPACE or not self.identity.roles & set(choices):
            names = " or ".join(repr(role) for role in choices)
            raise Forbidden(problem=f"This needs the role {names} in the workspace {DEFAULT_WORKSPACE!r}.")
        return self.resources.db.scope(tenant=self.identity.tenant)

    def cursor(self, position: JSON, list_name: str) -> str:
        """A cursor of one of this caller's lists."""
        return self.resources.cursors.cursor_at(position, list_name=f"{self.name}\0{list_name}")

    def position(self, cursor: str | None, kind: type[T], list_name: str) -> T | None:
        """Where a cursor of this caller stands; None without one."""
        if cursor is None:
            return None
        return self.resources.cursors.read(cursor, kind, list_name=f"{self.name}\0{list_name}")

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Runtime[Any, Any]]:
        """The runtime of the caller's tenant."""
        async with self.resources.runtimes.runtime_for(self.identity.tenant) as runtime:
            yield runtime

    @contextmanager
    def stream_slot(self) -> Iterator[None]:
        """Have a stream open. Credentials that speak for all users are bounded with the process alone.

        Raises:
            RateLimited: The user has as many as one user may.
            ServerFull: The process has as many as it may.
        """
        with ExitStack() as stack:
            if self.identity.user is not None:
                stack.enter_context(self.resources.user_streams.enter(self.name))
            stack.enter_context(self.resources.streams.enter())
            yield

    def user_key(self, user: str | None = None) -> UserKey:
        """Who this is while incognito."""
        return self.identity.tenant, self.effective_user(user)

    async def readable_thread(self, thread: str) -> Thread:
        """A thread to be read: the caller's own incognito one, if it is here, or the one that is kept."""
        incognito_thread = await self.resources.runtimes.incognito.readable_thread(self.user_key(), thread)
        return incognito_thread if incognito_thread is not None else self.db.thread(thread)

    @asynccontextmanager
    async def thread_access(
        self,
        thread: str,
        *,
        mode: MemoryMode | None = None,
        user: str | None = None,
        needs_user: bool = False,
    ) -> AsyncIterator[ThreadAccess]:
        """Where a thread is at home. An incognito one stays so until it is ended, whatever a request says.

        Raises:
            InvalidArgument: The request needs a user, and names none.
        """
        user_key = self.user_key(user)
        incognito = self.resources.runtimes.incognito
        if mode is MemoryMode.INCOGNITO or await incognito.has_thread(user_key, thread):
            async with incognito.runtime_for(user_key, thread) as (runtime, db):
                yield ThreadAccess(runtime=runtime, db=db, user=None, mode=mode or MemoryMode.INCOGNITO)
            return
        effective = self.require_user(user) if needs_user else user_key[1]
        async with self.runtime() as runtime:
            db = self.database_for(effective) if effective is not None else self.db
            yield ThreadAccess(runtime=runtime, db=db, user=effective, mode=mode)


CurrentCaller: TypeAlias = NamedDependency[SkipValidation[Caller]]
ThreadId: TypeAlias = NamedDependency[SkipValidation[str]]


class AuthenticationMiddleware(ASGIMiddleware):
    """Finds out whose request it is before anything else looks at it."""

    scopes = (ScopeType.HTTP, ScopeType.WEBSOCKET)
    exclude_opt_key = OPEN_TO_ALL

    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate = authenticate

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Go on as somebody, or not at all."""
        connection: ASGIConnection[Any, Any, Any, Any] = ASGIConnection(scope)
        resources: ServerResources = connection.app.state.resources
        try:
            identity = await self._identify(connection, resources)
            _check_scope(identity, _needed_scope(scope))
            resources.user_requests.take(f"{identity.tenant}\0{identity.user or ''}")
        except ClewError as error:
            if DENIAL_EXTENSION not in (scope.get("extensions") or {}):
                raise
            for message in denial_messages(error):  # a line that is not opened; else it would be told nothing
                await send(message)
            await asyncio.sleep(0)  # uvicorn logs an error if one returns before the connection is closed
            return
        scope["user"] = identity

        async def recheck_access() -> None:
            if await self._identify(connection, resources) != identity:
                raise Forbidden(problem="What these credentials may do has changed. Connect again.")

        scope["auth"] = recheck_access
        await next_app(scope, receive, send)

    async def _identify(
        self, connection: ASGIConnection[Any, Any, Any, Any], resources: ServerResources
    ) -> Identity:
        """Whose request it is.

        Raises:
            RateLimited: The credentials do not hold, like too many from this client of late.
        """
        headers, peer = lowercase_headers(connection), connection.client.host if connection.client else ""
        try:
            # The peer itself must be here, whatever it says of whom it passes on.
            if resources.local_only and not is_loopback(peer):
                raise Unauthenticated(problem="In dev mode the server serves this machine alone.")
            return await self._authenticate(headers)
        except Unauthenticated:
            hops = connection.headers.getall(FORWARDED_FOR, [])
            address = client_address(peer, hops, resources.trusted_proxies)
            resources.failures.count(site_of(address), credentials_digest(headers))
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
    return own or ("read" if scope.get("method") in READ_METHODS else "write")


def _check_scope(identity: Identity, scope: str) -> None:
    if scope not in identity.scopes:
        raise Forbidden(problem=f"This needs the scope {scope!r}.")


def lowercase_headers(connection: ASGIConnection[Any, Any, Any, Any]) -> Mapping[str, str]:
    """The headers by their names in lower case."""
    return {name.lower(): value for name, value in connection.headers.items()}


async def provide_caller(scope: Scope, state: State) -> Caller:
    """The caller of a request."""
    identity: Identity = scope["user"]
    resources: ServerResources = state.resources
    return Caller(
        identity=identity,
        resources=resources,
        db=resources.db.scope(tenant=identity.tenant, user=identity.user),
        recheck_access=scope["auth"],
    )


SLASH_STAND_IN = "\x1f"
"""Stands for a slash inside an id while a path is taken apart; no id can hold it."""


def decode_path_part(part: str) -> str:
    """What a part of a path names."""
    return part.replace(SLASH_STAND_IN, "/")


OWN_THREADS_PREFIX = "clew/"
"""How the threads begin that have routes of their own: receipts, and the audit."""


async def provide_thread_id(id: FromPath[str], caller: CurrentCaller) -> str:
    """The thread that a path names."""
    # It needs no caller, but the framework makes two that stand alone in a group of tasks, at a tenth of the
    # cost of a request, and one after another without.
    return check_reachable(decode_path_part(id))


def check_reachable(thread: str) -> str:
    """A thread that is not one of those with routes of their own.

    Raises:
        ThreadNotFound: It is one of them.
    """
    if thread.startswith(OWN_THREADS_PREFIX):
        raise ThreadNotFound(thread=thread)
    return thread
