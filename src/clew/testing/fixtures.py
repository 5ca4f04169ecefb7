"""Fixtures of the contract: a store, a database on it, a clock, and ways to damage it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Protocol

import pytest
import pytest_asyncio

from clew.core.ports import Store
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.damage import Damage


class StoreOpener(Protocol):
    """Opens the store of one test, always on the same data, with a clock; leaving the context closes it."""

    def __call__(self, clock: Clock) -> AbstractAsyncContextManager[Store]:
        """The store, open."""
        ...


class StoreFixtures:
    """The fixtures of the contract; a subclass overrides ``opening``, or ``store`` if it must."""

    store_name: ClassVar[str] = "-"
    """The name of the store in reports."""
    durable: ClassVar[bool] = True
    """True if what was committed is there when the store is opened again."""
    shared: ClassVar[bool] = True
    """True if the same data can be opened several times at once."""
    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def clock(self) -> Clock:
        """The clock of the store."""
        return Clock()

    @pytest.fixture
    def opening(self) -> StoreOpener | None:
        """Opens the store; without it, tests that open it several times are skipped."""
        return None

    @pytest.fixture
    def damage(self) -> Damage | None:
        """Changes rows behind the store's back; without it, tests that need it are skipped."""
        return None

    @pytest_asyncio.fixture
    async def store(self, opening: StoreOpener | None, clock: Clock) -> AsyncIterator[Store]:
        """The store, open and empty."""
        if opening is None:
            pytest.fail("A contract needs a fixture `opening` or `store`.", pytrace=False)
        async with opening(clock) as store:
            yield store
            assert (await store.report()).healthy

    @pytest.fixture
    def db(self, store: Store) -> Database:
        """The default tenant, as all of its users together."""
        return Database(store)

    @pytest_asyncio.fixture
    async def thread(self, db: Database) -> Thread:
        """A thread at version 0."""
        return await db.create("thread")

    def reopen(self, opening: StoreOpener | None, clock: Clock) -> AbstractAsyncContextManager[Database]:
        """The database, open; for tests that close it and open it again."""
        if opening is None or not self.durable:
            pytest.skip("this store keeps nothing, or cannot be opened again")
        return _open_database(opening, clock)

    def open_twice(
        self, opening: StoreOpener | None, clock: Clock
    ) -> AbstractAsyncContextManager[list[Database]]:
        """Two databases over the same data; for tests of what one does behind the other's back."""
        if opening is None or not self.shared:
            pytest.skip("this store cannot be opened twice")
        return _open_databases(opening, clock)

    def require_damage(self, damage: Damage | None) -> Damage:
        """The damage fixture, for tests that cannot do without it."""
        if damage is None:
            pytest.skip("there is no fixture that damages this store")
        return damage


@asynccontextmanager
async def _open_database(opening: StoreOpener, clock: Clock) -> AsyncIterator[Database]:
    async with opening(clock) as store:
        yield Database(store)


@asynccontextmanager
async def _open_databases(opening: StoreOpener, clock: Clock) -> AsyncIterator[list[Database]]:
    async with opening(clock) as one, opening(clock) as other:
        yield [Database(one), Database(other)]
