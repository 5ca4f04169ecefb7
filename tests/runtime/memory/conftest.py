"""What the tests of the memory share: a tenant for each test, on a PostgreSQL database for all of them."""

from __future__ import annotations

from tests.support.stores import shared_url, store_url
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "shared_url", "store_url", "tenant"]
