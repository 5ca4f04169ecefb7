"""What the tests of the companion share: a tenant for each test, on a PostgreSQL database for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import clew
from tests.support.stores import shared_url, store_url
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "in_memory", "postgres_url", "shared_url", "store_url", "tenant"]


@pytest.fixture
async def in_memory() -> AsyncIterator[clew.Database]:
    """An empty database in memory, for what does not depend on the store."""
    async with clew.open("memory://") as database:
        yield database
