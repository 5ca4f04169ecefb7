"""A database on every store, and a checkpointer on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import clew
from clew.adapters.langgraph import Checkpointer
from tests.support.shared_postgres import PostgresDatabase


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is."""
    if request.param == "postgres":
        database: PostgresDatabase = request.getfixturevalue("postgres_database")
        return database.url
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/agent.db"


@pytest.fixture
async def db(url: str) -> AsyncIterator[clew.Database]:
    """An empty database."""
    async with clew.open(url) as db:
        yield db


@pytest.fixture
async def saver(db: clew.Database) -> Checkpointer:
    """A checkpointer on it."""
    return Checkpointer(db)
