"""A database on each store, for tests that concern all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import clew
from clew.database.database import Database

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of each kind."""
    return _address(request, tmp_path)


@pytest.fixture(params=["sqlite", POSTGRES])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of each kind that several processes can open."""
    return _address(request, tmp_path)


def _address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        database = request.getfixturevalue("postgres_database")
        return str(database.url)
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture
async def db(store_url: str) -> AsyncIterator[Database]:
    """An empty database on each store."""
    async with clew.open(store_url) as database:
        yield database
