"""Our session service keeps the whole contract, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from google.adk.sessions import BaseSessionService

import clew
from clew.adapters.adk import SessionService
from tests.adapters.adk.contract import OpenService, SessionServiceContract


def opening(url: str, tenant: str = "default") -> OpenService:
    """Each service with a database of its own, as two processes would have."""

    @asynccontextmanager
    async def open_service() -> AsyncIterator[BaseSessionService]:
        async with clew.open(url) as db:
            yield SessionService(db.scope(tenant=tenant))

    return open_service


@pytest.mark.promise("B-10")
class TestOnMemory(SessionServiceContract):
    store_name = "memory"

    @pytest.fixture
    async def open_service(self) -> AsyncIterator[OpenService]:
        async with clew.open("memory://") as db:

            @asynccontextmanager
            async def open_service() -> AsyncIterator[BaseSessionService]:
                yield SessionService(db)

            yield open_service


@pytest.mark.promise("B-10")
class TestOnSqlite(SessionServiceContract):
    store_name = "sqlite"

    @pytest.fixture
    def open_service(self, tmp_path: Path) -> OpenService:
        return opening(f"sqlite:///{tmp_path}/agent.db")


@pytest.mark.postgres
@pytest.mark.promise("B-10")
class TestOnPostgres(SessionServiceContract):
    store_name = "postgres"

    @pytest.fixture
    def open_service(self, postgres_url: str, tenant: str) -> OpenService:
        return opening(postgres_url, tenant)
