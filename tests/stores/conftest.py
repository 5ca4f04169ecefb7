"""The databases that several processes can share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from clew.stores.sqlite import store
from tests.support.postgres import PostgresAddress
from tests.support.stores import POSTGRES


@pytest.fixture(params=["sqlite thread", "sqlite loop", POSTGRES])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty store that several processes can open; SQLite with either way of commits."""
    if request.param == "postgres":
        database = request.getfixturevalue("postgres_database")
        return str(database.url)
    monkeypatch.setattr(store, "COMMITS", request.param.removeprefix("sqlite "))
    return f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database that nobody has ever opened: no file, or no schema in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/agent.db"
        return
    server: PostgresAddress = request.getfixturevalue("postgres_server")
    name = f"empty_{uuid4().hex}"
    server.create_database(name)
    yield server.url(name)
    server.drop_database(name)
