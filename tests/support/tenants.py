"""A database on each store that other tests share: every test is a tenant of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import clew
from tests.support.postgres import PostgresAddress
from tests.support.shared_postgres import TEMPLATE


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresAddress) -> Iterator[str]:
    """A database for all of these tests, each of which is a tenant of its own."""
    name = f"tenants_{uuid4().hex}"
    postgres_server.create_database(name, TEMPLATE)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def tenant() -> str:
    """A tenant that nobody has used before."""
    return uuid4().hex


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def db(request: pytest.FixtureRequest, tmp_path: Path, tenant: str) -> AsyncIterator[clew.Database]:
    """An empty database."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/agent.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    async with clew.open(url) as db:
        yield db.scope(tenant=tenant)
