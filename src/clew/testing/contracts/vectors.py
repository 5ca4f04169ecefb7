"""Search by vectors: all of them, those of nobody else, and none that was removed."""

# ruff: noqa: D102 - tests are named by sentences.

import random
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument
from clew.core.log.vectors import VECTOR_KIND, likeness, quantize_vector
from clew.core.ports import Store
from clew.core.values import HISTORY, Drop, Put, Record, Scope, VectorQuery
from clew.database.database import Database
from clew.testing.fixtures import StoreFixtures

SPACE = "model:16"
PER_COMMIT = 500


def random_vectors(count: int, *, size: int = 16, seed: int = 7) -> list[list[float]]:
    """Vectors that point anywhere, the same each time."""
    chance = random.Random(seed)
    return [[chance.gauss(0, 1) for _ in range(size)] for _ in range(count)]


def vector_record(
    id: str,
    vector: Sequence[float],
    *,
    owner: str | None = "alice",
    thread: str = "thread",
    log: str = HISTORY,
    space: str = SPACE,
) -> Record:
    """The record of a vector, as memory writes it."""
    body = as_json(quantize_vector(vector))
    return Record(kind=VECTOR_KIND, id=id, owner=owner, tags=(thread, log, space), body=body)


async def put_records(db: Database, records: Sequence[Record]) -> None:
    """Write many records, so many in a commit."""
    for start in range(0, len(records), PER_COMMIT):
        await db.commit([Put(record=record) for record in records[start : start + PER_COMMIT]])


async def nearest_ids(
    db: Database,
    vector: Sequence[float],
    *,
    owner: str | None = None,
    thread: str | None = None,
    logs: tuple[str, ...] = (HISTORY,),
    space: str = SPACE,
    limit: int = 3,
) -> list[str]:
    """The ids of the vectors that are most like one, the best first."""
    query = VectorQuery(
        vector=tuple(vector), space=space, logs=logs, owner=owner, thread=thread, limit=limit, least=0.5
    )
    return [match.record.id for match in await db.records.nearest(query)]


def exact_ids(vectors: Mapping[str, Sequence[float]], vector: Sequence[float], limit: int) -> list[str]:
    """The ids of the vectors that are most like one, each compared exactly."""
    scores = {id: likeness(vector, quantize_vector(other)) for id, other in vectors.items()}
    return sorted((id for id in scores if scores[id] >= 0.5), key=lambda id: (-scores[id], id))[:limit]


class VectorContract(StoreFixtures):
    """Tests of searching vectors."""

    @pytest.mark.promise("B-15")
    async def test_the_oldest_of_thousands_of_vectors_is_found(self, db: Database) -> None:
        oldest, *others = random_vectors(2_600, size=64)
        records = [vector_record(f"v{number:04}", vector) for number, vector in enumerate(others)]
        await put_records(db, [vector_record("oldest", oldest), *records])

        assert (await nearest_ids(db, oldest))[0] == "oldest"

    @pytest.mark.promise("B-15")
    async def test_vectors_are_found_as_by_comparing_each(self, db: Database) -> None:
        vectors = {f"v{number:03}": vector for number, vector in enumerate(random_vectors(150))}
        await put_records(db, [vector_record(id, vector) for id, vector in vectors.items()])
        queries = random_vectors(10, seed=8)

        assert [await nearest_ids(db, query) for query in queries] == [
            exact_ids(vectors, query, 3) for query in queries
        ]

    @pytest.mark.promise("B-15")
    async def test_a_match_says_how_much_alike_it_is(self, db: Database) -> None:
        await put_records(db, [vector_record("same", [3.0, 4.0]), vector_record("other", [4.0, -3.0])])
        query = VectorQuery(vector=(6.0, 8.0), space=SPACE, logs=(HISTORY,))

        matches = {match.record.id: match.likeness for match in await db.records.nearest(query)}
        assert matches == {
            "same": pytest.approx(1.0, abs=0.01),
            "other": pytest.approx(0.0, abs=0.01),
        }

    @pytest.mark.promise("B-15", "T-15")
    async def test_the_vectors_of_another_owner_or_tenant_are_never_found(
        self, store: Store, db: Database
    ) -> None:
        (vector,) = random_vectors(1)
        await put_records(db, [vector_record("hers", vector), vector_record("his", vector, owner="bob")])
        await put_records(Database(store, Scope(tenant="other")), [vector_record("theirs", vector)])
        as_bob = db.scope(tenant=db.tenant, user="bob")

        assert await nearest_ids(db, vector, owner="alice") == ["hers"]
        assert await nearest_ids(as_bob, vector) == ["his"]
        assert await nearest_ids(as_bob, vector, owner="alice") == []
        assert sorted(await nearest_ids(db, vector)) == ["hers", "his"]

    @pytest.mark.promise("B-15")
    async def test_an_owner_with_few_vectors_loses_none_to_one_with_many(self, db: Database) -> None:
        mine, *others = random_vectors(1_500)
        records = [vector_record(f"v{number}", vector) for number, vector in enumerate(others)]
        await put_records(db, [*records, vector_record("mine", mine, owner="bob")])

        assert await nearest_ids(db, mine, owner="bob") == ["mine"]

    @pytest.mark.promise("B-15")
    async def test_a_search_within_a_thread_or_a_log_finds_nothing_else(self, db: Database) -> None:
        (vector,) = random_vectors(1)
        await put_records(
            db,
            [
                vector_record("one", vector, thread="one"),
                vector_record("two", vector, thread="two"),
                vector_record("fact", vector, thread="one", log="facts"),
            ],
        )

        assert await nearest_ids(db, vector, thread="one") == ["one"]
        assert await nearest_ids(db, vector, logs=("facts",)) == ["fact"]
        assert sorted(await nearest_ids(db, vector, logs=("facts", HISTORY))) == ["fact", "one", "two"]

    @pytest.mark.promise("B-15")
    async def test_vectors_of_another_model_or_size_are_not_compared(self, db: Database) -> None:
        (vector,) = random_vectors(1)
        await put_records(
            db,
            [
                vector_record("other model", vector, space="other:16"),
                vector_record("other size", vector[:8]),
                vector_record("empty", ()),
                Record(
                    kind=VECTOR_KIND, id="no vector", tags=("thread", HISTORY, SPACE), body={"vector": "?"}
                ),
            ],
        )

        assert await nearest_ids(db, vector) == []

    @pytest.mark.promise("B-15")
    async def test_a_vector_that_is_made_anew_takes_the_place_of_the_old_one(self, db: Database) -> None:
        old, new = random_vectors(2)
        await put_records(db, [vector_record("v", old)])
        await put_records(db, [vector_record("v", new, space="new:16")])

        assert await nearest_ids(db, old) == []
        assert await nearest_ids(db, new, space="new:16") == ["v"]

    @pytest.mark.promise("B-07", "B-15")
    async def test_a_vector_that_is_dropped_is_not_found_any_more(self, db: Database) -> None:
        vectors = {f"v{number:03}": vector for number, vector in enumerate(random_vectors(100))}
        await put_records(db, [vector_record(id, vector) for id, vector in vectors.items()])
        await db.commit([Drop(kind=VECTOR_KIND, id=id) for id in list(vectors)[::2]])
        rest = dict(list(vectors.items())[1::2])
        more = {f"w{number:03}": vector for number, vector in enumerate(random_vectors(70, seed=9))}
        await put_records(db, [vector_record(id, vector) for id, vector in more.items()])

        queries = list(vectors.values())[:10]
        assert [await nearest_ids(db, query) for query in queries] == [
            exact_ids(rest | more, query, 3) for query in queries
        ]

    @pytest.mark.promise("B-07", "B-15")
    async def test_the_vectors_of_an_erased_owner_are_not_found_any_more(self, db: Database) -> None:
        (vector,) = random_vectors(1)
        await put_records(db, [vector_record("hers", vector), vector_record("his", vector, owner="bob")])
        receipt = await db.erase(owner="alice")

        assert receipt.counts["vectors"] == 1
        assert await nearest_ids(db, vector) == ["his"]

    @pytest.mark.promise("B-15")
    @pytest.mark.parametrize("vector", [(), (float("nan"), 1.0), (float("inf"),)])
    async def test_a_query_that_is_no_vector_is_refused(
        self, db: Database, vector: tuple[float, ...]
    ) -> None:
        with pytest.raises(InvalidArgument):
            await db.records.nearest(VectorQuery(vector=vector, space=SPACE, logs=(HISTORY,)))

    @pytest.mark.promise("B-15")
    async def test_a_limit_that_is_out_of_range_is_refused(self, db: Database) -> None:
        query = VectorQuery(vector=(1.0,), space=SPACE, logs=(HISTORY,))

        with pytest.raises(InvalidArgument):
            await db.records.nearest(msgspec.structs.replace(query, limit=-1))
