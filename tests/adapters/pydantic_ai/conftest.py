"""A database on every store, and a conversation store on it."""

from __future__ import annotations

import pytest

import clew
from clew.adapters.pydantic_ai import Conversations
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "store", "tenant"]


@pytest.fixture
def store(db: clew.Database) -> Conversations:
    """A conversation store on it."""
    return Conversations(db)
