"""The caller of a request: an identity, and what of the database and the runtimes it reaches."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

import msgspec
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import FromPath, SkipValidation
from litestar.types import Scope as RequestScope

from clew.core.encoding import JSON, encode
from clew.core.errors import Forbidden, InvalidArgument, ThreadNotFound
from clew.core.log.owners import check_user_named
from clew.core.values import Scope
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.context import MemoryMode
from clew.runtime.model.redaction import SEE_LOG
from clew.runtime.runtime import Runtime
from clew.runtime.state.thread_agent import check_thread_agent
from clew.server.http.cursors import ListPages
from clew.server.http.paths import check_reachable, decode_path_part
from clew.server.http.resources import ServerResources
from clew.server.identity.entries import DEFAULT_WORKSPACE
from clew.server.identity.identity import Identity
from clew.server.identity.roles import ADMIN
from clew.server.tenants.agent import ServedAgent
from clew.server.tenants.agents import AgentEntry
from clew.server.tenants.incognito import IncognitoThreads

T = TypeVar("T")


class ThreadAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a thread for a caller: its agent, runtime and database, and the user and mode there."""

    agent: ServedAgent
    runtime: Runtime[Any, Any]
    db: Database
    user: str | None
    mode: MemoryMode | None = None

    @property
    def is_incognito(self) -> bool:
        """True if nothing of the thread may leave this process."""
        return self.mode is MemoryMode.INCOGNITO

    async def check_exists(self, thread: str) -> None:
        """Refuse a thread that does not exist, or belongs to another user.

        Raises:
            ThreadNotFound: It does.
        """
        if not self.is_incognito:
            await self.db.thread(thread).head()

    async def check_user(self, thread: str) -> None:
        """Refuse to act for nobody on a thread of a user; one that does not exist is free.

        Raises:
            UserMissing: The thread belongs to a user, and neither credentials nor request name one.
        """
        if self.user is None and not self.is_incognito:
            with suppress(ThreadNotFound):
                check_user_named(thread, (await self.db.thread(thread).head()).owner, None)


RecheckAccess: TypeAlias = Callable[[], Awaitable[None]]
"""Checks the credentials of a connection again, and raises if they are not as they were."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One identity, and the database as it sees it. What outlasts one reply calls ``recheck_access``."""

    identity: Identity
    resources: ServerResources
    db: Database
    recheck_access: RecheckAccess

    @property
    def name(self) -> str:
        """The name that limits are counted by, and that cursors are made for."""
        return f"{self.identity.tenant}\0{self.identity.user or ''}"

    @property
    def scope(self) -> Scope:
        """The scope of the identity in the store."""
        return self.scope_for(None)

    @property
    def incognito(self) -> IncognitoThreads:
        """The incognito threads of this process."""
        return self.resources.runtimes.incognito

    def require_user(self, user: str | None) -> str:
        """Return the user of the credentials, or the one that the request names. It is never made up.

        Raises:
            InvalidArgument: Neither the credentials nor the request name one.
            Forbidden: They name two.
        """
        effective = self.effective_user(user)
        if effective is None:
            raise InvalidArgument(
                problem="This is about a user, and neither credentials nor request name one. Add ?user=."
            )
        return effective

    def effective_user(self, user: str | None) -> str | None:
        """Return the user of the credentials, or the one that the request names, if either does.

        Raises:
            Forbidden: They name two.
        """
        own = self.identity.user
        if own is not None and user is not None and own != user:
            raise Forbidden(problem="These credentials speak for another user.")
        return own if own is not None else user

    def scope_for(self, user: str | None) -> Scope:
        """Return the scope of the effective user; see above."""
        return Scope(tenant=self.identity.tenant, user=self.effective_user(user))

    def database_for(self, user: str | None) -> Database:
        """Return the database as a user sees it, or as the caller does."""
        return self.db if user is None else self.resources.db.scope(tenant=self.identity.tenant, user=user)

    def require_role(self, role: str) -> None:
        """Refuse a caller without a role.

        Raises:
            Forbidden: The caller does not have it.
        """
        if role not in self.identity.roles:
            raise Forbidden(problem=f"This needs the role {role!r}.")

    def require_scope(self, scope: str) -> None:
        """Refuse a caller whose credentials do not have a scope.

        Raises:
            Forbidden: They do not.
        """
        if scope not in self.identity.scopes:
            raise Forbidden(problem=f"This needs the scope {scope!r}.")

    def tenant_database(self, *roles: str) -> Database:
        """Return the database of the whole tenant, for a caller who decides for it; see `Identity`.

        Raises:
            Forbidden: The caller has none of the roles, which are ``admin`` alone if none is named.
        """
        choices = roles or (ADMIN,)
        if not self.identity.decides_for_tenant(*choices):
            names = " or ".join(repr(role) for role in choices)
            raise Forbidden(problem=f"This needs the role {names} in the workspace {DEFAULT_WORKSPACE!r}.")
        return self.resources.db.scope(tenant=self.identity.tenant)

    def visible_problem(self, problem: str | None) -> str | None:
        """Return what went wrong inside, for an admin of the tenant; for others only that the log says it."""
        return problem if problem is None or self.identity.decides_for_tenant(ADMIN) else SEE_LOG

    def pages(self, cursor: str | None, kind: type[T], list_name: str, *filters: JSON) -> ListPages[T]:
        """Return the pages of a list, from a cursor on. ``kind`` is the type of a position in the list.

        A cursor holds for this caller, this list and these filters alone.
        """
        name = f"{self.name}\0{encode([list_name, *filters]).decode()}"
        return ListPages(self.resources.cursors, name, cursor, kind)

    @asynccontextmanager
    async def runtime(self, thread: str | None = None) -> AsyncIterator[Runtime[Any, Any]]:
        """Hold the runtime of the caller's tenant open: that of a thread's agent, or of the default one."""
        agents = self.resources.agents
        entry = agents.default if thread is None else await self._agent_of(thread, self.db, None)
        async with entry.runtimes.runtime_for(self.identity.tenant) as runtime:
            yield runtime

    async def _agent_of(self, thread: str, db: Database, name: str | None) -> AgentEntry:
        """Return the agent that a request names, or else that of the thread, or else the default one.

        Raises:
            InvalidArgument: The agent that it names is not served here.
        """
        agents = self.resources.agents
        if name is not None:
            return agents.named(name)
        if len(agents) == 1:
            return agents.default  # which refuses by itself to write the thread of another
        try:
            return agents.writer((await db.thread(thread).head()).agent)
        except ThreadNotFound:
            return agents.default

    @contextmanager
    def stream_slot(self) -> Iterator[None]:
        """Hold an open stream. Credentials that speak for all users are bounded with the process alone.

        Raises:
            RateLimited: The user has as many streams as one user may have.
            ServerFull: The process has as many as it may have.
        """
        with ExitStack() as stack:
            if self.identity.user is not None:
                stack.enter_context(self.resources.user_streams.enter(self.name))
            stack.enter_context(self.resources.streams.enter())
            yield

    async def readable_thread(self, thread: str) -> Thread:
        """Return a thread to read: the caller's incognito one of this id, or else the one in the database."""
        incognito_thread = await self.incognito.readable_thread(self.scope, thread)
        return incognito_thread if incognito_thread is not None else self.db.thread(thread)

    async def check_writable(self, thread: str) -> None:
        """Refuse to write a thread of an agent that is not served; one that is not there is free.

        Raises:
            ThreadOfAnotherAgent: Another agent, or a guest framework, writes the thread.
        """
        db_thread = await self.readable_thread(thread)
        try:
            head = await db_thread.head()
        except ThreadNotFound:
            return
        await check_thread_agent(db_thread, head, self.resources.agents.writer(head.agent).name)

    @asynccontextmanager
    async def thread_access(
        self,
        thread: str,
        *,
        mode: MemoryMode | None = None,
        user: str | None = None,
        agent: str | None = None,
    ) -> AsyncIterator[ThreadAccess]:
        """Hold the place of a thread open: the caller's incognito runtime, or the tenant's.

        ``agent`` is the one that the request names, if it names any.

        Raises:
            InvalidArgument: It is not served here, or not for an incognito thread.
        """
        scope, default = self.scope_for(user), self.resources.agents.default
        # A thread that began incognito stays so until its session ends, whatever a later request says: else
        # the rest of a conversation would be written down.
        if mode is MemoryMode.INCOGNITO or await self.incognito.has_thread(scope, thread):
            if agent is not None and self.resources.agents.named(agent) is not default:
                problem = f"Incognito only the agent {default.name!r} answers. Leave out agent or mode."
                raise InvalidArgument(problem=problem)
            async with self.incognito.runtime_for(scope, thread) as (runtime, db):
                # Inside it nobody has a name: the user is None, and the runtime is the caller's alone.
                access = ThreadAccess(agent=default.served, runtime=runtime, db=db, user=None, mode=mode)
                yield msgspec.structs.replace(access, mode=mode or MemoryMode.INCOGNITO)
            return
        db = self.database_for(scope.user)
        entry = await self._agent_of(thread, db, agent)
        async with entry.runtimes.runtime_for(self.identity.tenant) as runtime:
            yield ThreadAccess(agent=entry.served, runtime=runtime, db=db, user=scope.user, mode=mode)


CurrentCaller: TypeAlias = NamedDependency[SkipValidation[Caller]]
ThreadId: TypeAlias = NamedDependency[SkipValidation[str]]


async def provide_caller(scope: RequestScope, state: State) -> Caller:
    """Return the caller of a request."""
    identity: Identity = scope["user"]
    resources: ServerResources = state.resources
    return Caller(
        identity=identity,
        resources=resources,
        db=resources.db.scope(tenant=identity.tenant, user=identity.user),
        recheck_access=scope["auth"],
    )


async def provide_thread_id(id: FromPath[str], caller: CurrentCaller) -> str:
    """Return the thread that a path names."""
    # It needs no caller, but the framework makes two that stand alone in a group of tasks, at a tenth of the
    # cost of a request, and one after another without.
    return check_reachable(decode_path_part(id))
