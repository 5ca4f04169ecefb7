"""The store in an SQLite file keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clew.core.ports import Store
from clew.stores.sqlite.store import SqliteStore
from clew.testing import Clock, Damage, StoreContract, StoreOpener
from tests.stores.damage import SqliteDamage


class TestSqliteStore(StoreContract):
    store_name = "sqlite"

    @pytest.fixture
    def opening(self, tmp_path: Path) -> Iterator[StoreOpener]:
        @asynccontextmanager
        async def open_store(clock: Clock) -> AsyncIterator[Store]:
            store = SqliteStore(str(tmp_path / "test.db"), clock=clock)
            await store.start()
            try:
                yield store
            finally:
                await store.close()

        yield open_store
        assert not (tmp_path / "test.db-wal").exists(), "a connection was left open"

    @pytest.fixture
    def damage(self, tmp_path: Path) -> Damage:
        return SqliteDamage(tmp_path / "test.db")
