"""The store in an SQLite file keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clew.core.ports import Store
from clew.stores.sqlite.store import SqliteStore
from clew.stores.sqlite.writer import CommitWay
from clew.testing import Clock, Damage, StoreContract, StoreOpener
from tests.stores.damage import SqliteDamage


class TestSqliteStore(StoreContract):
    """Commits are made in the writing thread."""

    store_name = "sqlite"
    commits: CommitWay = "thread"

    @pytest.fixture
    def opening(self, tmp_path: Path) -> Iterator[StoreOpener]:
        @asynccontextmanager
        async def open_store(clock: Clock) -> AsyncIterator[Store]:
            store = SqliteStore(str(tmp_path / "test.db"), clock=clock, commits=self.commits)
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


class TestSqliteStoreOnTheLoop(TestSqliteStore):
    """Commits are made on the loop, wherever that is possible at all."""

    commits = "loop"
