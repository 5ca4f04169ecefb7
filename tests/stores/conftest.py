"""The databases that several processes can share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.postgres import PostgresAddress
from tests.support.stores import shared_url

__all__ = ["empty_url", "shared_url"]


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
