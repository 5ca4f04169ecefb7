"""The store on PostgreSQL keeps the contract."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from clew.core.ports import Store
from clew.stores.postgres.store import PostgresStore
from clew.testing import Clock, Damage, StoreContract, StoreOpener
from tests.stores.damage import PostgresDamage
from tests.support.postgres import PostgresAddress
from tests.support.shared_postgres import TEMPLATE, PostgresDatabase

Admin = psycopg.Connection[Any]
EMPTY = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'clew' AND tablename <> 'meta' LOOP
        EXECUTE format('DELETE FROM clew.%I', name);
    END LOOP;
END $$
"""
OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture(scope="class")
def shared_database(postgres_server: PostgresAddress) -> Iterator[PostgresDatabase]:
    """A database for all tests of the class, since a new one for each takes longer than the tests."""
    database = PostgresDatabase(server=postgres_server, name=f"contract_{uuid.uuid4().hex}")
    postgres_server.create_database(database.name, TEMPLATE)
    yield database
    postgres_server.drop_database(database.name)


@pytest.fixture(scope="class")
def admin(shared_database: PostgresDatabase) -> Iterator[Admin]:
    """The superuser's own connection."""
    with psycopg.connect(shared_database.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def empty_database(shared_database: PostgresDatabase, admin: Admin) -> Iterator[PostgresDatabase]:
    """The database, empty; the test must leave no connection and no transaction open."""
    admin.execute(EMPTY)
    yield shared_database
    deadline = time.monotonic() + 3
    while (count := admin.execute(OTHERS).fetchall()[0][0]) and time.monotonic() < deadline:
        time.sleep(0.002)
    assert count == 0, "a connection was left open"


@pytest.mark.postgres
class TestPostgresStore(StoreContract):
    store_name = "postgres"

    @pytest.fixture
    def opening(self, empty_database: PostgresDatabase) -> StoreOpener:
        @asynccontextmanager
        async def open_store(clock: Clock) -> AsyncIterator[Store]:
            store = await PostgresStore.open(empty_database.url)
            store._clock = clock
            try:
                yield store
            finally:
                await store.close()

        return open_store

    @pytest.fixture
    def damage(self, empty_database: PostgresDatabase) -> Damage:
        return PostgresDamage(empty_database.url)
