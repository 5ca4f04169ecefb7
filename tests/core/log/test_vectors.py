"""Vectors are kept small and still tell what is alike; looking at signs first loses nothing that matters."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.log import vectors
from clew.core.log.rows import AskNearest
from clew.core.log.vectors import likeness, quantize_vector, read_nearest, vector_length, vector_signs
from clew.core.values import VectorMatch, VectorQuery
from clew.stores.sqlite.vectors import VectorBlock, closest_places
from clew.testing.contracts.vectors import SPACE, random_vectors, vector_record

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=40)


@given(NUMBERS)
@example([2e-162])
@example([5e-324, 5e-324])
@example([1e308, 1e308])
def test_a_vector_is_most_like_itself(vector: list[float]) -> None:
    similarity = likeness(vector, quantize_vector(vector))

    assert similarity == pytest.approx(1.0, abs=0.05) or vector_length(vector) == 0 == similarity


@given(NUMBERS, NUMBERS)
def test_likeness_lies_between_minus_one_and_one(left: list[float], right: list[float]) -> None:
    assert -1.0001 <= likeness(left, quantize_vector(right)) <= 1.0001


def test_vectors_of_another_size_are_not_alike_at_all() -> None:
    assert likeness([1.0, 0.0], quantize_vector([1.0, 0.0, 0.0])) == 0.0
    assert likeness([1.0], quantize_vector([])) == 0.0


def test_what_is_turned_the_other_way_is_least_alike() -> None:
    assert likeness([1.0, 2.0], quantize_vector([-1.0, -2.0])) == pytest.approx(-1.0, abs=0.01)


@pytest.mark.parametrize("vector", [[1.0, -1.0, 0.5], [0.0] * 8, [1.0] * 9])
def test_signs_are_a_bit_for_each_number(vector: list[float]) -> None:
    bits = "".join(f"{byte:08b}" for byte in vector_signs(vector))

    assert bits[: len(vector)] == "".join("1" if number > 0 else "0" for number in vector)
    assert set(bits[len(vector) :]) <= {"0"}


@pytest.fixture
def no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make NumPy look as if it were not installed."""
    for module in ("clew.core.log.vectors", "clew.stores.sqlite.vectors"):
        monkeypatch.setattr(f"{module}.import_numpy", lambda: None)


def read_matches(query: VectorQuery, count: int) -> list[VectorMatch]:
    """The matches among so many vectors."""
    reading = read_nearest(query)
    assert isinstance(next(reading), AskNearest)
    records = [vector_record(f"v{n}", vector) for n, vector in enumerate(random_vectors(count))]
    with pytest.raises(StopIteration) as end:
        reading.send([*records, vector_record("empty", ()), vector_record("short", [1.0])])
    matches: list[VectorMatch] = end.value.value
    return matches


def test_without_numpy_the_same_are_the_most_alike(request: pytest.FixtureRequest) -> None:
    query = VectorQuery(vector=tuple(random_vectors(1, seed=3)[0]), space=SPACE, logs=("history",), least=0.1)
    with_numpy = read_matches(query, 50)
    request.getfixturevalue("no_numpy")
    without = read_matches(query, 50)

    assert [match.record.id for match in with_numpy] == [match.record.id for match in without]
    assert [match.likeness for match in with_numpy] == pytest.approx([match.likeness for match in without])


@pytest.mark.parametrize("size", [5e-324, 1e-60, 1e60, 1e308])
def test_neither_a_tiny_nor_a_huge_query_finds_anything_else(size: float) -> None:
    signs = [1.0 if number > 0 else -1.0 for number in random_vectors(1, seed=3)[0]]
    usual, extreme = (
        read_matches(VectorQuery(vector=tuple(vector), space=SPACE, logs=("history",), least=0.1), 50)
        for vector in (signs, [size * sign for sign in signs])
    )

    assert extreme == usual != []


@pytest.mark.parametrize("width", [3, 8, 48])
@pytest.mark.parametrize("mark", [None, b"thread 1"])
def test_without_numpy_the_same_are_the_closest(
    request: pytest.FixtureRequest, width: int, mark: bytes | None
) -> None:
    signs = [vector_signs(vector) for vector in random_vectors(200, size=width * 8)]
    marks = [(b"\0" * 8, b"thread 1", b"thread 2")[number % 3] for number in range(200)]
    blocks = [
        VectorBlock(key, b"".join(marks[start:stop]), b"".join(signs[start:stop]))
        for key, start, stop in [(3, 0, 16), (9, 16, 100), (4, 100, 200)]
    ]
    (query,) = random_vectors(1, size=width * 8, seed=5)
    few, all_places = [sorted(closest_places(vector_signs(query), blocks, mark, n)) for n in (1, 500)]
    request.getfixturevalue("no_numpy")

    assert sorted(closest_places(vector_signs(query), blocks, mark, 500)) == all_places
    assert sorted(closest_places(vector_signs(query), blocks, mark, 1)) == few
    assert len(all_places) == (67 if mark else 133)


def test_numpy_is_looked_for_only_once() -> None:
    assert vectors.import_numpy() is vectors.import_numpy()
