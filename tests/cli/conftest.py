"""A tenant for each test of a command, on a PostgreSQL database for all of them."""

from __future__ import annotations

from tests.support.tenants import postgres_url, tenant

__all__ = ["postgres_url", "tenant"]
