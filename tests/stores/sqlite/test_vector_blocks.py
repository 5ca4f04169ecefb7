"""Vectors in an SQLite file: they lie in blocks, from which what is removed is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

import clew
from clew.core.log.vectors import VECTOR_KIND, indexed_vector
from clew.core.values import Drop
from clew.testing.contracts.vectors import nearest_ids, put_records, random_vectors, vector_record
from tests.database.people import raw

pytestmark = pytest.mark.parametrize("store_name", ["sqlite"])


def blocks_in(path: Path) -> list[tuple[int, int, bytes]]:
    """The free slots, the slots and the signs of every block of a file."""
    connection = apsw.Connection(str(path))
    rows: list[Any] = connection.execute(
        "SELECT free, slots, signs FROM vector_blocks ORDER BY key"
    ).fetchall()
    connection.close()
    return [(free, slots, signs) for free, slots, signs in rows]


def signs_of(vector: list[float]) -> bytes:
    """The signs of a vector as a block holds them."""
    indexed = indexed_vector(vector_record("v", vector))
    assert indexed is not None
    return indexed.signs


async def test_the_room_of_an_owner_grows_with_their_vectors(tmp_path: Path, store_name: str) -> None:
    records = [vector_record(f"v{n}", vector) for n, vector in enumerate(random_vectors(100))]
    async with clew.open(f"sqlite:///{tmp_path}/agent.db") as db:
        await put_records(db, records)

    assert [(free, slots) for free, slots, _ in blocks_in(tmp_path / "agent.db")] == [
        (0, 16),
        (0, 16),
        (0, 32),
        (28, 64),
    ]


async def test_a_free_slot_is_used_again(tmp_path: Path, store_name: str) -> None:
    records = [vector_record(f"v{n}", vector) for n, vector in enumerate(random_vectors(48))]
    async with clew.open(f"sqlite:///{tmp_path}/agent.db") as db:
        await put_records(db, records[:32])
        await db.commit([Drop(kind=VECTOR_KIND, id=f"v{number}") for number in range(16, 26)])
        await put_records(db, records[32:42])

    assert [free for free, _, _ in blocks_in(tmp_path / "agent.db")] == [0, 0]


@pytest.mark.promise("B-07")
async def test_no_sign_of_an_erased_vector_is_left(tmp_path: Path, store_name: str) -> None:
    hers, his = random_vectors(2, size=256)
    path = tmp_path / "agent.db"
    async with clew.open(f"sqlite:///{path}") as db:
        await put_records(db, [vector_record("hers", hers), vector_record("his", his, owner="bob")])
        before = [signs_of(vector) in raw(path) for vector in (hers, his)]
        await db.erase(owner="alice")
        after = [signs_of(vector) in raw(path) for vector in (hers, his)]

    assert (before, after) == ([True, True], [False, True])


@pytest.mark.promise("B-07")
async def test_no_sign_of_a_dropped_vector_is_left_in_its_block(tmp_path: Path, store_name: str) -> None:
    first, second = random_vectors(2, size=256)
    path = tmp_path / "agent.db"
    async with clew.open(f"sqlite:///{path}") as db:
        await put_records(db, [vector_record("first", first), vector_record("second", second)])
        await db.commit([Drop(kind=VECTOR_KIND, id="first")])
        ids = await nearest_ids(db, second)

    ((free, slots, signs),) = blocks_in(path)
    assert (slots - free, signs_of(first) in signs, signs_of(second) in signs) == (1, False, True)
    assert ids == ["second"]
