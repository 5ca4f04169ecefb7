"""Vectors are kept small and still tell what is alike; looking at signs first loses nothing that matters."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.runtime.memory.vectors.vectors import (
    StoredVector,
    likeness,
    nearest,
    quantize_vector,
    vector_length,
)

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=40)


def random_vector(chance: random.Random, around: list[float], spread: float) -> list[float]:
    return [value + chance.gauss(0, spread) for value in around]


@given(NUMBERS)
@example([2e-162])
def test_a_vector_is_most_like_itself(vector: list[float]) -> None:
    similarity = likeness(vector, quantize_vector(vector))

    assert similarity == pytest.approx(1.0, abs=0.05) or vector_length(vector) == 0 == similarity


@given(NUMBERS, NUMBERS)
def test_likeness_lies_between_minus_one_and_one(left: list[float], right: list[float]) -> None:
    assert -1.0001 <= likeness(left, quantize_vector(right)) <= 1.0001


def test_vectors_of_another_size_are_not_alike_at_all() -> None:
    assert likeness([1.0, 0.0], quantize_vector([1.0, 0.0, 0.0])) == 0.0
    assert likeness([1.0], quantize_vector([])) == 0.0
    assert nearest([1.0], [("empty", quantize_vector(()))], 5, least=0.1) == []


def test_what_is_turned_the_other_way_is_least_alike() -> None:
    assert likeness([1.0, 2.0], quantize_vector([-1.0, -2.0])) == pytest.approx(-1.0, abs=0.01)


@pytest.mark.parametrize("size", [64, 384])
def test_the_nearest_by_signs_are_the_nearest(size: int) -> None:
    chance = random.Random(size)
    middles = [random_vector(chance, [0.0] * size, 1.0) for _ in range(20)]
    among: list[tuple[int, StoredVector]] = [
        (number, quantize_vector(random_vector(chance, middles[number % 20], 0.7))) for number in range(600)
    ]
    query = random_vector(chance, middles[3], 0.7)
    exact = sorted(((likeness(query, other), name) for name, other in among), reverse=True)[:5]

    assert nearest(query, among, 5) == exact


def test_few_numbers_that_are_not_zero_are_found_too() -> None:
    among = [(name, quantize_vector([float(name == place) for place in range(50)])) for name in range(50)]

    assert [name for _, name in nearest([0.0] * 7 + [1.0] + [0.0] * 42, among, 3, least=0.1)] == [7]
