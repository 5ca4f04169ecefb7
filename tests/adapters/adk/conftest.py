"""A database on every store, and a session service on it."""

from __future__ import annotations

import pytest

import clew
from clew.adapters.adk import SessionService
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "service", "tenant"]


@pytest.fixture
def service(db: clew.Database) -> SessionService:
    """A session service on it."""
    return SessionService(db)
