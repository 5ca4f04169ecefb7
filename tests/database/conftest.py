"""A database on every store."""

from __future__ import annotations

from tests.support.stores import db, store_url

__all__ = ["db", "store_url"]
