"""The store on PostgreSQL keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.core.ports import Store
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing import Clock, Damage, Opening, StoreContract
from tests.conformance.damage import PostgresDamage
from tests.support.shared_postgres import PostgresDatabase


@pytest.mark.postgres
class TestPostgresStore(StoreContract):
    store_name = "postgres"

    @pytest.fixture
    def opening(self, postgres_database: PostgresDatabase) -> Opening:
        @asynccontextmanager
        async def opened(clock: Clock) -> AsyncIterator[Store]:
            store = await PostgresStore.open(postgres_database.url)
            store._clock = clock
            try:
                yield store
            finally:
                await store.close()

        return opened

    @pytest.fixture
    def damage(self, postgres_database: PostgresDatabase) -> Damage:
        return PostgresDamage(postgres_database.url)
