"""What the tests of the memory share."""

from __future__ import annotations

from tests.support.stores import db, shared_url, store_url

__all__ = ["db", "shared_url", "store_url"]
