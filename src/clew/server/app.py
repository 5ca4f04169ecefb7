"""The application: every route over one store, for every tenant."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from litestar import Litestar, Router
from litestar.config.cors import CORSConfig
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import ControllerRouterHandler, Send

from clew.core.errors import ClewError, ServerFull
from clew.core.values import DEFAULT_TENANT
from clew.database.database import Database
from clew.runtime.model.protocol import Model
from clew.server.http import idempotency
from clew.server.http.callers import SLASH, Authentication, Serving, the_caller, the_thread
from clew.server.http.client_address import parse_networks
from clew.server.http.cursors import Cursors
from clew.server.http.idempotency import Repeating
from clew.server.http.limits import Failures, Gate, Pace
from clew.server.http.openapi import Describing, description
from clew.server.http.request import Asked
from clew.server.http.views import misused, refused, unexpected
from clew.server.identity.authentication import authentication
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Tenant
from clew.server.identity.identity import Authenticate, AuthSettings
from clew.server.metrics import Metrics
from clew.server.routes import threads
from clew.server.routes.crises import CRISES
from clew.server.routes.erasure import ERASING
from clew.server.routes.experiments import EXPERIMENTS
from clew.server.routes.health import HEALTH
from clew.server.routes.manifests import MANIFESTS
from clew.server.routes.memory import REMEMBERED
from clew.server.routes.runs import RUNS
from clew.server.routes.search import LOOKING
from clew.server.routes.sessions import IMPORTS, SESSIONS
from clew.server.routes.studio import STUDIO
from clew.server.routes.thread_feed import CHANGES
from clew.server.routes.threads import THREADS
from clew.server.routes.turns import TURNS
from clew.server.routes.voice import VOICE
from clew.server.routes.websocket import SOCKETS
from clew.server.routes.workbench import UPLOADS, WORKBENCH
from clew.server.settings import ServerSettings
from clew.server.startup_checks import dangers, dangers_of_role, refuse, start_of
from clew.server.tenants.agent import Agent, the_companion
from clew.server.tenants.realtime import RealtimeProvider, provider_of
from clew.server.tenants.runtimes import MakeRuntime, Runtimes
from clew.server.tenants.thread_feed import Lists
from clew.urls import open_store
from clew.workbench.volume.operators import Volumes

API = "/api/v1"
ROUTES: list[ControllerRouterHandler] = [
    *HEALTH,
    *THREADS,
    *TURNS,
    *CHANGES,
    *RUNS,
    *EXPERIMENTS,
    *SESSIONS,
    *REMEMBERED,
    *LOOKING,
    *VOICE,
    *ERASING,
    *CRISES,
    *WORKBENCH,
    *SOCKETS,
]
GUARDED = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""What goes with every answer that says nothing else: what people said is kept in no cache of a browser."""
SEEN_BY_PAGES = ["ETag", "Retry-After", "Idempotent-Replayed", "WWW-Authenticate", "Content-Disposition"]
"""What the pages of other sites that may ask can read of an answer, besides its body."""
HOUR_MS = 60 * 60 * 1000
STREAMS_MS = 5_000
"""How long one is told to wait who found no room for a stream."""


class Application(Litestar):
    """The server. An id may hold a slash: ``%2F`` in a path is part of a name, not a part of the way."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] in ("http", "websocket") and b"%2f" in raw.lower():
            parts = raw.partition(b"?")[0].decode("latin-1").split("/")
            scope = {**scope, "path": "/".join(unquote(part).replace("/", SLASH) for part in parts)}
        if scope["type"] == "http":
            send = _answering_with(self.state.serving.metrics, scope["method"], send)
        await super().__call__(scope, receive, send)


def _answering_with(metrics: Metrics, method: str, send: Send) -> Send:
    """Count every answer, also of those who were not let in, and say what no browser may do with it."""
    began = time.perf_counter()

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            metrics.answered(method, message["status"], time.perf_counter() - began)
            said = message.get("headers", ())
            names = {name.lower() for name, _ in said}
            missing = [each for each in GUARDED if each[0] not in names]
            message = {**message, "headers": [*said, *missing]}
        await send(message)

    return sending


def create_app(
    settings: ServerSettings | None = None,
    *,
    db: Database | None = None,
    authenticate: Authenticate | None = None,
    make_runtime: MakeRuntime | None = None,
    model: Model | None = None,
    realtime: RealtimeProvider | None = None,
    lifespan: Sequence[Callable[[Litestar], AbstractAsyncContextManager[None]]] = (),
) -> "Application":
    """The server as an ASGI application, to be run or mounted.

    A database that is given stays open; otherwise the one of the settings is opened and closed with the
    application. ``make_runtime`` says what a turn does; without it, the companion answers, with the model.
    ``realtime`` begins calls; without it, the provider that the settings name.
    """
    told = settings or ServerSettings()
    calls = realtime or provider_of(told, os.environ)
    made = _Making(settings=told, db=db, make_runtime=make_runtime, model=model, realtime=calls)
    door = authenticate or _Door()
    return Application(
        route_handlers=[
            Router(API, route_handlers=ROUTES),
            Router(API, route_handlers=[*IMPORTS, *MANIFESTS, *UPLOADS], request_max_body_size=told.archive),
            *STUDIO,
        ],
        dependencies={"caller": Provide(the_caller), "thread_id": Provide(the_thread)},
        middleware=[Authentication(door), Repeating()],
        exception_handlers={ClewError: refused, HTTPException: misused, Exception: unexpected},
        lifespan=[_lifespan(made, door), *lifespan],
        request_class=Asked,
        request_max_body_size=told.body,
        cors_config=_cors(told.cors),
        openapi_config=description(f"{API}/openapi"),
        plugins=[Describing()],
        logging_config=None,
        debug=False,
    )


def _cors(origins: Sequence[str]) -> CORSConfig | None:
    return CORSConfig(allow_origins=list(origins), expose_headers=SEEN_BY_PAGES) if origins else None


class _Making(msgspec.Struct, frozen=True, kw_only=True):
    """What an application is made of."""

    settings: ServerSettings
    db: Database | None
    make_runtime: MakeRuntime | None
    model: Model | None
    realtime: RealtimeProvider | None


class _Door:
    """The way in that the environment asks for; it is known once the database is open."""

    def __init__(self) -> None:
        self._way: Authenticate | None = None

    def open(self, db: Database, settings: AuthSettings, origins: Sequence[str]) -> None:
        """Take the way that the settings ask for."""
        self._way = authentication(settings, Directory(db), origins)

    async def __call__(self, headers: Any) -> Any:
        """Whose request it is."""
        assert self._way is not None
        return await self._way(headers)


def _lifespan(made: _Making, door: Authenticate) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def living(app: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            db = made.db or Database(await open_store(made.settings.url), owned=True)
            if made.db is None:
                stack.push_async_callback(db.close)
            if made.settings.volume is not None and db.files is None:
                db.files = Volumes(Path(made.settings.volume))
            auth = await _opened(made.settings, db, door)
            agent = await stack.enter_async_context(_answering(made))
            realtime = made.realtime
            serving = _serving(made.settings, db, agent, realtime, auth)
            app.state.serving = serving
            stack.push_async_callback(serving.runtimes.close, drain_seconds=made.settings.drain_seconds)
            await stack.enter_async_context(_in_background(lambda: _tended(serving)))
            yield

    return living


async def _opened(settings: ServerSettings, db: Database, door: Authenticate) -> AuthSettings | None:
    """Open the door that the environment asks for, if that is safe; None if another was given.

    Raises:
        UnsafeSettings: The server must not start like this, whoever runs it.
    """
    if not isinstance(door, _Door):
        return None
    start = start_of(
        os.environ, host=settings.host, url=db.store.name, cors=settings.cors, secret=settings.secret
    )
    refuse([*dangers(start), *dangers_of_role(start, await db.report())])
    door.open(db, start.auth, settings.cors)
    return start.auth


def _serving(
    settings: ServerSettings,
    db: Database,
    agent: Agent,
    realtime: RealtimeProvider | None,
    auth: AuthSettings | None,
) -> Serving:
    return Serving(
        settings=settings,
        db=db,
        agent=agent,
        realtime=realtime,
        runtimes=Runtimes(db, agent.make, limit=settings.tenants, guests=settings.guests),
        lists=Lists(db, threads.last_said),
        cursors=Cursors(settings.secret),
        metrics=Metrics(),
        streams=Gate("open streams", settings.streams, retry_after_ms=STREAMS_MS, error=ServerFull),
        user_streams=Gate("open streams of one user", settings.user_streams, retry_after_ms=STREAMS_MS),
        turns=Gate("turns of one user at once", settings.turns),
        pace=Pace(settings.requests),
        failures=Failures(settings.failures),
        trusted_proxies=parse_networks(settings.trusted_proxies),
        local_only=auth is not None and auth.mode == "dev",
        closing=asyncio.Event(),
    )


@asynccontextmanager
async def _answering(made: _Making) -> AsyncIterator[Agent]:
    """What answers: the runtime that the application brings, or the companion."""
    if made.make_runtime is not None:
        yield Agent(make=made.make_runtime)
        return
    async with the_companion(made.settings, made.model) as agent:
        yield agent


@asynccontextmanager
async def _in_background(work: Callable[[], Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _tended(serving: Serving) -> None:
    """Look after every known tenant, and forget old keys of requests."""
    directory = Directory(serving.db)

    async def known() -> list[str]:
        registered = [tenant.id async for tenant in directory.every(Tenant) if tenant.enabled]
        before = serving.db.store.now() - int(serving.settings.key_hours * HOUR_MS)
        tenants = list(dict.fromkeys([DEFAULT_TENANT, *registered, *serving.runtimes.tenants]))
        for tenant in tenants:
            await idempotency.forget(serving.db.scope(tenant=tenant), before=before)
        return tenants

    await serving.runtimes.tend(known, seconds=serving.settings.sweep_seconds)
