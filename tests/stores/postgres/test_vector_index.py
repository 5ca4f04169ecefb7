"""Vectors on PostgreSQL: found through an index of pgvector where there is one, and else one by one."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import clew
from clew.core.values import HISTORY, VectorQuery
from clew.stores.postgres.schema import migrate
from clew.testing.contracts.vectors import (
    exact_ids,
    nearest_ids,
    put_records,
    random_vectors,
    vector_record,
)
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.postgres
SCANS = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'vectors_signs_256'"
SEARCH = "SELECT clew.find_vectors('model:16', '{history}', NULL, NULL, B'0101010101010101', 5)"


def run(database: PostgresDatabase, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a statement, in a transaction of its own, without a scope."""
    with psycopg.connect(database.url, autocommit=True) as admin:
        cursor = admin.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


class TestVectorIndex:
    store_name = "postgres"

    @pytest.mark.slow
    @pytest.mark.promise("B-15")
    async def test_an_owner_with_many_vectors_is_searched_through_the_index(
        self, postgres_database: PostgresDatabase
    ) -> None:
        vectors = random_vectors(10_500, size=256)
        records = [vector_record(f"v{n}", vector, space="m:256") for n, vector in enumerate(vectors)]
        async with clew.open(postgres_database.url) as db:
            await put_records(db, records)
            run(postgres_database, "VACUUM ANALYZE clew.vectors")
            ids = [await nearest_ids(db, vector, space="m:256", limit=1) for vector in vectors[:20]]

        assert ids == [[f"v{number}"] for number in range(20)]
        assert run(postgres_database, SCANS) == [(20,)]

    @pytest.mark.promise("B-15")
    async def test_without_pgvector_the_same_is_found(self, postgres_database: PostgresDatabase) -> None:
        run(postgres_database, "DROP EXTENSION IF EXISTS vector CASCADE")
        vectors = {f"v{number}": vector for number, vector in enumerate(random_vectors(50))}
        async with clew.open(postgres_database.url) as db:
            await put_records(db, [vector_record(id, vector) for id, vector in vectors.items()])
            report = await db.store.report()
            (query,) = random_vectors(1, seed=3)
            ids = await nearest_ids(db, query)

        assert ids == exact_ids(vectors, query, 3)
        assert report.facts["vector_index"] == "none"

    @pytest.mark.promise("B-15")
    async def test_once_pgvector_is_installed_a_migration_makes_the_index(
        self, postgres_database: PostgresDatabase
    ) -> None:
        run(postgres_database, "DROP EXTENSION IF EXISTS vector CASCADE")
        await migrate(postgres_database.url)
        async with clew.open(postgres_database.url) as db:
            report = await db.store.report()

        assert str(report.facts["vector_index"]).startswith("pgvector ")

    @pytest.mark.promise("B-07")
    async def test_no_sign_of_an_erased_vector_is_left(self, postgres_database: PostgresDatabase) -> None:
        (vector,) = random_vectors(1)
        async with clew.open(postgres_database.url) as db:
            await put_records(db, [vector_record("hers", vector)])
            await db.erase(owner="alice")

        assert run(postgres_database, "SELECT * FROM clew.vectors") == []

    @pytest.mark.security
    @pytest.mark.promise("B-15")
    async def test_the_search_itself_keeps_to_the_scope(self, postgres_database: PostgresDatabase) -> None:
        (vector,) = random_vectors(1)
        async with clew.open(postgres_database.url) as db:
            await put_records(db, [vector_record("hers", vector)])
            query = VectorQuery(vector=tuple(vector), space="model:16", logs=(HISTORY,))
            of_bob = await db.scope(tenant=db.tenant, user="bob").records.nearest(query)

        assert (list(of_bob), run(postgres_database, SEARCH)) == ([], [])
