"""A server on each store, asked by our own client; every test is a tenant of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from litestar import Litestar

import clew
from clew.client import AsyncClient
from clew.runtime.model.protocol import Model
from clew.server.app import Application, create_app
from clew.server.identity.identity import Authenticate
from clew.server.settings import ServerSettings
from clew.server.tenants.runtimes import MakeRuntime
from tests.support.echo import chatting
from tests.support.realtime_server import RealtimeServer, realtime_server
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]


class Users:
    """Clients of one server, one for each user."""

    def __init__(self, app: Application, http: httpx.AsyncClient, tenant: str) -> None:
        self.app = app
        self.http = http
        self.tenant = tenant

    def __call__(self, user: str | None = "alice", *, tenant: str | None = None) -> AsyncClient:
        """The client of a user, or one that names nobody."""
        return AsyncClient("http://127.0.0.1", headers=self.headers(user, tenant), http=self.http)

    def headers(self, user: str | None = "alice", tenant: str | None = None) -> dict[str, str]:
        """What a request of a user says."""
        headers = {"X-Clew-Tenant": tenant or self.tenant}
        return headers if user is None else {**headers, "X-Clew-User": user}


@asynccontextmanager
async def clients_of(
    db: clew.Database,
    *,
    model: Model | None = None,
    make_runtime: MakeRuntime | None = None,
    settings: ServerSettings | None = None,
    authenticate: Authenticate | None = None,
) -> AsyncIterator[Users]:
    """A server over a database, and its users."""
    make = make_runtime or chatting(model, settings)
    app = create_app(settings, db=db, agent=make, authenticate=authenticate)
    async with over_http(app, db) as clients:
        yield clients


@asynccontextmanager
async def over_http(app: Application, db: clew.Database) -> AsyncIterator[Users]:
    """The users of an application, as long as it lives."""
    transport = httpx.ASGITransport(app)
    async with run_app(app), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        yield Users(app, http, db.tenant)


@asynccontextmanager
async def in_memory(
    *,
    model: Model | None = None,
    make_runtime: MakeRuntime | None = None,
    settings: ServerSettings | None = None,
) -> AsyncIterator[Users]:
    """A server for what does not depend on the store."""
    async with (
        clew.open("memory://") as db,
        clients_of(db, model=model, make_runtime=make_runtime, settings=settings) as users,
    ):
        yield users


@asynccontextmanager
async def run_app(app: Litestar) -> AsyncIterator[None]:
    """Let an application live in a task of its own, since a fixture begins and ends in two."""
    start, over = asyncio.Event(), asyncio.Event()

    async def life() -> None:
        async with app.lifespan():
            start.set()
            await over.wait()

    task = asyncio.create_task(life())
    waiting = asyncio.create_task(start.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield
    finally:
        waiting.cancel()
        over.set()
        await task


@pytest.fixture
async def users(db: clew.Database) -> AsyncIterator[Users]:
    """The users of a server with a plain chat."""
    async with clients_of(db) as clients:
        yield clients


@pytest.fixture
async def alice(users: Users) -> AsyncClient:
    """One of them."""
    return users("alice")


@pytest.fixture
async def provider() -> AsyncIterator[RealtimeServer]:
    """A stand-in for the provider of realtime models."""
    async with realtime_server() as server:
        yield server
