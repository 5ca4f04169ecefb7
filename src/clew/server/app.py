"""The application: every route over one store, for every tenant."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar, Router
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ControllerRouterHandler

from clew.agents.agent import Agent
from clew.agents.discovery import agent_from, usable_agents
from clew.api.route import API_PREFIX
from clew.core.errors import ClewError, ServerFull
from clew.core.values import DEFAULT_TENANT
from clew.database.database import Database
from clew.runtime.model.protocol import Model
from clew.runtime.runtime import Runtime
from clew.server.http import idempotency
from clew.server.http.authentication import AuthenticationMiddleware
from clew.server.http.callers import (
    provide_caller,
    provide_thread_id,
)
from clew.server.http.client_address import parse_networks
from clew.server.http.cursors import Cursors
from clew.server.http.endpoint import route_of
from clew.server.http.exchange import Exchange
from clew.server.http.idempotency import IdempotencyMiddleware
from clew.server.http.limits import ConcurrencyLimit, FailureLimit, RateLimit
from clew.server.http.openapi import OpenApiPlugin, openapi_config
from clew.server.http.paths import protect_slashes
from clew.server.http.problems import error_response, failure_response, http_exception_response
from clew.server.http.request import SafeBodyRequest
from clew.server.http.resources import ServerResources
from clew.server.identity.authentication import authentication_for
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Tenant
from clew.server.identity.identity import Authenticate, AuthSettings
from clew.server.metrics import DIRECTORY_VARIABLE, Metrics
from clew.server.routes.ag_ui import AG_UI_ROUTES
from clew.server.routes.ai_sdk import AI_SDK_ROUTES
from clew.server.routes.approvals import APPROVAL_ROUTES
from clew.server.routes.archives import ARCHIVE_ROUTES
from clew.server.routes.audit import AUDIT_ROUTES
from clew.server.routes.erasure import ERASURE_ROUTES
from clew.server.routes.events import EVENT_ROUTES
from clew.server.routes.experiments import EXPERIMENT_ROUTES
from clew.server.routes.feedback import FEEDBACK_ROUTES
from clew.server.routes.health import HEALTH_ROUTES
from clew.server.routes.jobs import JOB_ROUTES
from clew.server.routes.mcp import MCP_ROUTES, open_endpoint
from clew.server.routes.memory import MEMORY_ROUTES
from clew.server.routes.runs import RUN_ROUTES
from clew.server.routes.search import SEARCH_ROUTES
from clew.server.routes.sessions import SESSION_ROUTES
from clew.server.routes.studio import STUDIO_ROUTES, agent_files
from clew.server.routes.threads import THREAD_ROUTES
from clew.server.routes.turns import TURN_ROUTES
from clew.server.routes.usage import USAGE_ROUTES
from clew.server.routes.voice import VOICE_ROUTES
from clew.server.routes.websocket import WEBSOCKET_ROUTES
from clew.server.routes.workbench import WORKBENCH_ROUTES
from clew.server.settings import ServerSettings
from clew.server.startup_checks import check_startup, startup_settings
from clew.server.tenants.agent import find_agents, open_agent, settings_for_agent
from clew.server.tenants.agents import AgentEntry, ServedAgents
from clew.server.tenants.realtime import RealtimeProvider, realtime_provider
from clew.server.tenants.runtimes import MakeRuntime, TenantRuntimes, ignore_count
from clew.server.tenants.thread_feed import ThreadFeeds
from clew.server.tenants.thread_list import thread_texts
from clew.server.traces import continue_trace
from clew.urls import open_store
from clew.workbench.volume.operators import Volumes

ROUTES: list[HTTPRouteHandler] = [
    *HEALTH_ROUTES,
    *THREAD_ROUTES,
    *TURN_ROUTES,
    *AG_UI_ROUTES,
    *EVENT_ROUTES,
    *RUN_ROUTES,
    *APPROVAL_ROUTES,
    *USAGE_ROUTES,
    *EXPERIMENT_ROUTES,
    *SESSION_ROUTES,
    *FEEDBACK_ROUTES,
    *MEMORY_ROUTES,
    *SEARCH_ROUTES,
    *JOB_ROUTES,
    *VOICE_ROUTES,
    *ERASURE_ROUTES,
    *AUDIT_ROUTES,
    *WORKBENCH_ROUTES,
    *ARCHIVE_ROUTES,
    *AI_SDK_ROUTES,
]
EXPOSED_HEADERS = [
    "ETag",
    "Retry-After",
    "Idempotent-Replayed",
    "WWW-Authenticate",
    "Content-Disposition",
    "X-Request-Id",
]
"""Headers that pages of allowed origins may read, besides the body."""
HOUR_MS = 60 * 60 * 1000
STREAM_RETRY_MS = 5_000
"""How long a client is asked to wait when there is no room for a stream."""


class Application(Litestar):
    """The server as an application of the framework: responses are counted and logged, ids hold slashes."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        scope = protect_slashes(scope)
        with continue_trace(scope.get("headers", ())):
            if scope["type"] == "http":
                await self._serve_request(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)

    async def _serve_request(self, scope: Any, receive: Any, send: Any) -> None:
        exchange = Exchange(scope, self.state.resources.metrics)
        try:
            await super().__call__(scope, receive, exchange.wrap_send(send))
        finally:
            exchange.log()


def create_app(
    settings: ServerSettings | None = None,
    *,
    db: Database | None = None,
    authenticate: Authenticate | None = None,
    agent: Agent | MakeRuntime | None = None,
    agents: Sequence[Agent | MakeRuntime] = (),
    model: Model | None = None,
    realtime: RealtimeProvider | None = None,
    lifespan: Sequence[Callable[[Litestar], AbstractAsyncContextManager[None]]] = (),
) -> "Application":
    """Return the server as an ASGI application, to be run or mounted.

    A database that is given stays open; otherwise the one of the settings is opened and closed with the
    application. ``agent`` answers, with the model: an ``Agent``, or a function that makes a runtime; without
    it, those that the settings name. ``agents`` are served besides, for turns that name them and for their
    own threads. Routes and pages of the Studio come from them and from every agent that is installed.
    ``realtime`` begins calls; without it, the provider that the settings name.
    """
    settings = settings or ServerSettings()
    provider = realtime or realtime_provider(settings, os.environ)
    served = find_agents(settings) if agent is None else [agent_from(agent, "The agent")]
    served += [agent_from(each, "The agent") for each in agents]
    names = {each.name for each in served}
    all_agents = [*served, *(each for each in usable_agents() if each.name not in names)]
    parts = _AppParts(settings=settings, db=db, agents=served, model=model, realtime=provider)
    authenticator = authenticate or _LateAuthentication()
    return Application(
        route_handlers=[
            *_api_routers(ROUTES, settings),
            Router(API_PREFIX, route_handlers=[*WEBSOCKET_ROUTES, *_agent_routes(all_agents)]),
            *STUDIO_ROUTES,
            *MCP_ROUTES,
        ],
        dependencies={"caller": Provide(provide_caller), "thread_id": Provide(provide_thread_id)},
        middleware=[AuthenticationMiddleware(authenticator), IdempotencyMiddleware()],
        exception_handlers={
            ClewError: error_response,
            HTTPException: http_exception_response,
            Exception: failure_response,
        },
        lifespan=[_lifespan(parts, authenticator), *lifespan],
        request_class=SafeBodyRequest,
        request_max_body_size=settings.body,
        cors_config=_cors(settings.cors),
        openapi_config=openapi_config(f"{API_PREFIX}/openapi"),
        plugins=[OpenApiPlugin()],
        state=State({"agents": all_agents, "agent_files": agent_files(all_agents)}),
        logging_config=None,
        debug=False,
    )


def _api_routers(handlers: Sequence[HTTPRouteHandler], settings: ServerSettings) -> list[Router]:
    """Return a router for ordinary bodies, and one for the paths that take whole files."""
    # The framework wants all methods of one path in one router, also those that take no file.
    file_paths = {route.path for each in handlers if (route := route_of(each)) and route.takes_files}
    file_handlers = [each for each in handlers if (route := route_of(each)) and route.path in file_paths]
    others = [each for each in handlers if each not in file_handlers]
    return [
        Router(API_PREFIX, route_handlers=others),
        Router(API_PREFIX, route_handlers=file_handlers, request_max_body_size=settings.archive),
    ]


def _agent_routes(agents: Sequence[Agent]) -> list[ControllerRouterHandler]:
    return [route for agent in agents if agent.routes is not None for route in agent.routes()]


def _cors(origins: Sequence[str]) -> CORSConfig | None:
    return CORSConfig(allow_origins=list(origins), expose_headers=EXPOSED_HEADERS) if origins else None


class _AppParts(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of an application that its lifespan needs."""

    settings: ServerSettings
    db: Database | None
    agents: Sequence[Agent]
    model: Model | None
    realtime: RealtimeProvider | None


class _LateAuthentication:
    """The authentication that the environment names; it is known once the database is open."""

    def __init__(self) -> None:
        self._authenticate: Authenticate | None = None

    def configure(self, db: Database, settings: AuthSettings, origins: Sequence[str]) -> None:
        """Use the authentication that the settings name."""
        self._authenticate = authentication_for(settings, Directory(db), origins)

    async def __call__(self, headers: Any) -> Any:
        """Return the identity of a request; see `Authenticate`."""
        assert self._authenticate is not None
        return await self._authenticate(headers)


def _lifespan(
    parts: _AppParts, authenticator: Authenticate
) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            db = parts.db or Database(await open_store(parts.settings.url), owns_store=True)
            if parts.db is None:
                stack.push_async_callback(db.close)
            if parts.settings.volume is not None and db.files is None:
                db.files = Volumes(Path(parts.settings.volume))
            auth = await _configure_authentication(parts.settings, db, authenticator)
            metrics = Metrics(os.environ.get(DIRECTORY_VARIABLE))
            agents = await _open_agents(stack, parts, db, metrics)
            resources = _build_resources(parts, db, agents, metrics, auth)
            app.state.resources = resources
            stack.push_async_callback(_close_agents, agents, parts.settings.drain_seconds)
            app.state.mcp = await stack.enter_async_context(open_endpoint(parts.settings))
            await stack.enter_async_context(_run_in_background(lambda: _tend_tenants(resources)))
            yield

    return lifespan


async def _open_agents(
    stack: AsyncExitStack, parts: _AppParts, db: Database, metrics: Metrics
) -> ServedAgents:
    """Open the agents with the model of the server, for as long as the stack lasts."""
    entries: list[AgentEntry] = []
    for agent in parts.agents:
        settings = settings_for_agent(parts.settings, agent, parts.agents)
        served = await stack.enter_async_context(open_agent(agent, settings, parts.model))
        runtimes = TenantRuntimes(
            db,
            _observed(served.make_runtime, metrics),
            limit=settings.tenants,
            incognito_limit=settings.guests,
            # Every agent has a runtime for every tenant that is looked after, so one of them counts.
            on_change=ignore_count if entries else metrics.tenants.set,
        )
        name = agent.runtime_name(db, served.settings)
        entries.append(AgentEntry(name=name, served=served, runtimes=runtimes))
    return ServedAgents(entries)


async def _close_agents(agents: ServedAgents, drain_seconds: float) -> None:
    """Wait for the turns at work of all agents at once; then close their runtimes."""
    closings = [entry.runtimes.close(drain_seconds=drain_seconds) for entry in agents]
    await asyncio.gather(*closings)


async def _configure_authentication(
    settings: ServerSettings, db: Database, authenticator: Authenticate
) -> AuthSettings | None:
    """Set up the authentication that the environment names, if that is safe; None if another was given.

    Raises:
        UnsafeSettings: The server must not start like this.
    """
    if not isinstance(authenticator, _LateAuthentication):
        return None
    start = startup_settings(
        os.environ, host=settings.host, url=db.store.name, cors=settings.cors, secret=settings.secret
    )
    await check_startup(start, await db.report())
    authenticator.configure(db, start.auth, settings.cors)
    return start.auth


def _build_resources(
    parts: _AppParts,
    db: Database,
    agents: ServedAgents,
    metrics: Metrics,
    auth: AuthSettings | None,
) -> ServerResources:
    settings = parts.settings
    return ServerResources(
        settings=settings,
        db=db,
        agents=agents,
        realtime=parts.realtime,
        thread_feeds=ThreadFeeds(db, thread_texts),
        cursors=Cursors(settings.secret),
        metrics=metrics,
        streams=ConcurrencyLimit(
            "open streams",
            settings.streams,
            retry_after_ms=STREAM_RETRY_MS,
            error=ServerFull,
            on_change=metrics.streams.set,
        ),
        user_streams=ConcurrencyLimit(
            "open streams of one user", settings.user_streams, retry_after_ms=STREAM_RETRY_MS
        ),
        user_turns=ConcurrencyLimit("turns of one user at once", settings.turns),
        user_requests=RateLimit(settings.requests),
        failures=FailureLimit(settings.failures),
        trusted_proxies=parse_networks(settings.trusted_proxies),
        local_only=auth is not None and auth.mode == "dev",
        closing=asyncio.Event(),
    )


def _observed(make_runtime: MakeRuntime, metrics: Metrics) -> MakeRuntime:
    """Return a function that makes runtimes whose turns are counted."""

    def make_observed_runtime(db: Database) -> Runtime[Any, Any]:
        runtime = make_runtime(db)
        runtime.add_observer(metrics)
        return runtime

    return make_observed_runtime


@asynccontextmanager
async def _run_in_background(work: Callable[[], Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _tend_tenants(resources: ServerResources) -> None:
    """Keep every known tenant swept, and drop old idempotency keys."""
    directory = Directory(resources.db)

    async def list_tenants() -> list[str]:
        directory_tenants = [tenant.id async for tenant in directory.entries(Tenant) if tenant.enabled]
        cutoff = resources.db.store.now() - int(resources.settings.key_hours * HOUR_MS)
        open_tenants = [tenant for entry in resources.agents for tenant in entry.runtimes.tenants]
        tenants = list(dict.fromkeys([DEFAULT_TENANT, *directory_tenants, *open_tenants]))
        for tenant in tenants:
            await idempotency.drop_old_answers(resources.db.scope(tenant=tenant), before=cutoff)
        return tenants

    async with asyncio.TaskGroup() as group:
        for entry in resources.agents:
            tending = entry.runtimes.tend_tenants(list_tenants, seconds=resources.settings.sweep_seconds)
            group.create_task(tending)
