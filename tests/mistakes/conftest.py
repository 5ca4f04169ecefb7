"""What the tests of mistakes share."""

from __future__ import annotations

from tests.support.stores import db, store_url

__all__ = ["db", "store_url"]
