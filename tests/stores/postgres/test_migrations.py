"""Migrating PostgreSQL: by several at once, by whoever may, and by nobody else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

import clew
from clew.core.errors import InvalidArgument, NewerFormat, NotMigrated, StoreUnavailable
from clew.stores.postgres.schema import NEWEST, migrate
from tests.support.postgres import PostgresAddress, PostgresServer

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).parents[3]
MIGRATES = """
import asyncio, sys
from clew.stores.postgres.schema import migrate
sys.stdin.readline()
print(len(asyncio.run(migrate(sys.argv[1]))))
"""


AS_BEFORE = """
UPDATE clew.texts SET words = $$'fox':1 '#default'$$;
DROP FUNCTION clew.within, clew.asked, clew.find_words, clew.words, clew.word_count, clew.claim,
    clew.term_counts, clew.count_terms, clew.text_count, clew.count_texts;
DROP INDEX clew.texts_owner;
DROP TABLE clew.vectors;
DROP FUNCTION clew.begin_provisional, clew.extend_provisional, clew.provisional, clew.provisional_headers,
    clew.drop_provisional;
DROP TABLE clew.provisional;
DROP FUNCTION clew.index_vector() CASCADE;
DROP FUNCTION clew.signs_of, clew.find_vectors, clew.nearest, clew.add_vector_indexes;
CREATE FUNCTION clew.claim(text, text, text[], bigint, bigint, bigint, bytea)
    RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION clew.find_words(tsquery, text, bigint) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION clew.words(text, text, tsquery, text, bigint) RETURNS void LANGUAGE sql AS '';
UPDATE clew.meta SET schema = 3;
"""
"""Makes the search, and what later migrations replace, what it was before the fourth."""


@pytest.fixture
def empty(postgres_server: PostgresAddress) -> Iterator[str]:
    """The name of a database that nobody has migrated."""
    name = f"empty_{uuid4().hex}"
    postgres_server.create_database(name)
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def role(postgres_server: PostgresAddress) -> Iterator[str]:
    """A role that may log in and create roles, and nothing else."""
    name = f"role_{uuid4().hex}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEROLE").format(sql.Identifier(name)))
    yield name
    with psycopg.connect(postgres_server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def migrate_at_once(urls: list[str]) -> list[int]:
    """How many migrations each of several processes ran."""
    command = [sys.executable, "-c", MIGRATES]
    running = [
        subprocess.Popen(
            [*command, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for url in urls
    ]
    outputs = [process.communicate("go\n", timeout=60) for process in running]
    assert [process.returncode for process in running] == [0] * len(urls), outputs
    return [int(out) for out, _ in outputs]


class TestMigration:
    store_name = "postgres"

    @pytest.mark.promise("S-04")
    def test_four_processes_migrate_one_database_once(
        self, postgres_server: PostgresAddress, empty: str
    ) -> None:
        counts = migrate_at_once([postgres_server.url(empty)] * 4)

        assert sum(counts) == NEWEST

    @pytest.mark.slow
    def test_several_databases_of_a_new_server_are_migrated_at_once(
        self, private_postgres: PostgresServer
    ) -> None:
        private_postgres.start()
        names = [f"database_{number}" for number in range(4)]
        for name in names:
            private_postgres.create_database(name)
        counts = migrate_at_once([private_postgres.url(name) for name in names])

        assert counts == [NEWEST] * 4

    async def test_opening_migrates_and_again_does_nothing(
        self, postgres_server: PostgresAddress, empty: str
    ) -> None:
        async with clew.open(postgres_server.url(empty)) as db:
            await db.create("thread")

        assert await migrate(postgres_server.url(empty)) == []

    async def test_opening_at_once_is_fine(self, postgres_server: PostgresAddress, empty: str) -> None:
        databases = await asyncio.gather(*(clew.open(postgres_server.url(empty)) for _ in range(4)))
        for db in databases:
            await db.close()

        assert await migrate(postgres_server.url(empty)) == []

    @pytest.mark.slow
    async def test_an_owner_who_is_no_superuser_migrates_and_works(
        self, private_postgres: PostgresServer
    ) -> None:
        private_postgres.start()
        private_postgres.create_database("mine")
        with psycopg.connect(private_postgres.url(), autocommit=True) as admin:
            admin.execute("CREATE ROLE keeper LOGIN CREATEROLE")
            admin.execute("GRANT CREATE ON DATABASE mine TO keeper")
        async with clew.open(private_postgres.url("mine", "keeper")) as db:
            thread = await db.create("thread")
            commit = await thread.append(items=[clew.user("Hi")])

        assert commit.version == 1

    async def test_a_role_that_may_not_migrate_is_told_so(
        self, postgres_server: PostgresAddress, empty: str, role: str
    ) -> None:
        with pytest.raises(NotMigrated) as error:
            await clew.open(postgres_server.url(empty, role))

        assert (error.value.found, error.value.known) == (0, NEWEST)

    async def test_texts_indexed_before_are_found_within_their_thread(
        self, postgres_server: PostgresAddress, empty: str
    ) -> None:
        url = postgres_server.url(empty)
        async with clew.open(url) as db:
            await (await db.create("thread")).append(items=[clew.user("a fox")])
            await db.index()
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(AS_BEFORE)
        async with clew.open(url) as db:
            hits = await db.search("fox", any=True, thread="thread", log="history")

        assert [hit.text for hit in hits] == ["a fox"]

    async def test_a_newer_schema_is_left_alone(self, postgres_server: PostgresAddress, empty: str) -> None:
        await migrate(postgres_server.url(empty))
        with psycopg.connect(postgres_server.url(empty), autocommit=True) as admin:
            admin.execute("UPDATE clew.meta SET schema = 999")
        with pytest.raises(NewerFormat):
            await clew.open(postgres_server.url(empty))
        with pytest.raises(NewerFormat):
            await migrate(postgres_server.url(empty))

    async def test_a_server_that_is_not_there_is_unavailable(self) -> None:
        with pytest.raises(StoreUnavailable):
            await clew.open("postgresql://nobody@127.0.0.1:1/nothing")

    async def test_a_database_that_is_not_there_is_unavailable(
        self, postgres_server: PostgresAddress
    ) -> None:
        with pytest.raises(StoreUnavailable, match="does not exist"):
            await clew.open(postgres_server.url("no_such_database"))

    async def test_a_parameter_that_makes_no_sense_is_refused(self, postgres_server: PostgresAddress) -> None:
        with pytest.raises(InvalidArgument, match="pool_max"):
            await clew.open(f"{postgres_server.url()}?pool_max=many")
