"""The store in memory keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from clew.core.ports import Store
from clew.stores.memory import MemoryStore
from clew.testing import Clock, Damage, StoreContract, StoreOpener
from tests.stores.damage import MemoryDamage


class TestMemoryStore(StoreContract):
    store_name = "memory"
    durable = False
    shared = False

    @pytest.fixture
    def stores(self) -> list[MemoryStore]:
        return []

    @pytest.fixture
    def opening(self, stores: list[MemoryStore]) -> StoreOpener:
        @asynccontextmanager
        async def open_store(clock: Clock) -> AsyncIterator[Store]:
            stores.append(MemoryStore(clock=clock))
            yield stores[-1]
            await stores[-1].close()

        return open_store

    @pytest.fixture
    def damage(self, stores: list[MemoryStore]) -> Damage:
        return MemoryDamage(stores)
