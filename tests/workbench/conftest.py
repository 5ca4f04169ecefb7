"""A database on each store for the tests of the workbench; every test is a tenant of its own."""

from __future__ import annotations

from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]
