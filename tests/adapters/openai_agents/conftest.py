"""A database on every store, a session on it, and ways to hurt it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

import clew
from clew.adapters.openai_agents import Session
from clew.stores.memory import MemoryStore
from clew.testing import Damage
from tests.stores.damage import MemoryDamage, PostgresDamage, SqliteDamage
from tests.support.postgres import PostgresAddress
from tests.support.shared_postgres import TEMPLATE, PostgresDatabase

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'clew' AND tablename <> 'meta'"


@pytest.fixture(scope="module")
def shared_database(postgres_server: PostgresAddress) -> Iterator[PostgresDatabase]:
    """A database for all tests of a module, since a new one for each takes longer than the tests."""
    database = PostgresDatabase(server=postgres_server, name=f"agents_{uuid.uuid4().hex}")
    postgres_server.create_database(database.name, TEMPLATE)
    yield database
    postgres_server.drop_database(database.name)


def clear_database(database: PostgresDatabase) -> str:
    """The address of a database, once it is empty."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        for (name,) in connection.execute(TABLES).fetchall():
            connection.execute(f"DELETE FROM clew.{name}".encode())
    return database.url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is."""
    if request.param == "postgres":
        return clear_database(request.getfixturevalue("shared_database"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/agent.db"


@pytest.fixture
async def db(url: str) -> AsyncIterator[clew.Database]:
    """An empty database."""
    async with clew.open(url) as db:
        yield db


@pytest.fixture
def session(db: clew.Database) -> Session:
    """A session that nobody has used."""
    return Session("alice", db)


@pytest.fixture
def damage(db: clew.Database, url: str) -> Damage:
    """How rows are changed behind the store's back."""
    if isinstance(db.store, MemoryStore):
        return MemoryDamage([db.store])
    if url.startswith("sqlite"):
        return SqliteDamage(Path(url.removeprefix("sqlite:///")))
    return PostgresDamage(url)
