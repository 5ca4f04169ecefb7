"""Vectors as they are kept and compared: a byte for each number, and two bits of it to look through many."""

import base64
import heapq
import math
import operator
from array import array
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

Name = TypeVar("Name")

ROUGH_FACTOR = 10
"""For each that is wanted, so many are compared exactly: those that are most alike by their signs."""


class StoredVector(msgspec.Struct, frozen=True):
    """A vector as a record holds it: its numbers in a byte each, their signs in two bits, its length."""

    vector: str
    signs: str
    length: float


def quantize_vector(vector: Sequence[float]) -> StoredVector:
    """A vector, scaled so that its largest number is 127."""
    numbers = _quantize(vector)
    return StoredVector(
        vector=base64.b64encode(numbers.tobytes()).decode(),
        signs=base64.b64encode(b"".join(_sign_planes(numbers))).decode(),
        length=vector_length(numbers),
    )


def vector_length(vector: Sequence[float]) -> float:
    """The length of a vector, also of one whose squares would underflow."""
    return math.hypot(*vector)


def likeness(left: Sequence[float], right: StoredVector) -> float:
    """The cosine of two vectors; 0 if they cannot be compared."""
    numbers = array("b", base64.b64decode(right.vector))
    lengths = vector_length(left) * right.length
    if len(left) != len(numbers) or not lengths:
        return 0.0
    return float(sum(map(operator.mul, left, numbers)) / lengths)


def nearest(
    vector: Sequence[float], others: Iterable[tuple[Name, StoredVector]], count: int, *, least: float = 0.0
) -> list[tuple[float, Name]]:
    """The names of the vectors that are most alike, with their likeness, the best first.

    All are compared by the signs of their numbers, which costs little; only the best of them exactly.
    """
    plus, minus = _plane_integers(b"".join(_sign_planes(_quantize(vector))))
    rough_scores: list[tuple[float, int, Name, StoredVector]] = []
    for order, (name, other) in enumerate(others):
        other_plus, other_minus = _plane_integers(base64.b64decode(other.signs))
        agree = (plus & other_plus).bit_count() + (minus & other_minus).bit_count()
        differ = (plus & other_minus).bit_count() + (minus & other_plus).bit_count()
        size = math.sqrt(other_plus.bit_count() + other_minus.bit_count()) or 1.0
        rough_scores.append(((agree - differ) / size, -order, name, other))
    best = heapq.nlargest(count * ROUGH_FACTOR, rough_scores, key=operator.itemgetter(0, 1))
    scores = [(likeness(vector, other), order, name) for _, order, name, other in best]
    scores.sort(key=operator.itemgetter(0, 1), reverse=True)
    return [(score, name) for score, _, name in scores[:count] if score >= least]


def _quantize(vector: Sequence[float]) -> "array[int]":
    largest = max((abs(value) for value in vector), default=0.0) or 1.0
    return array("b", (round(value / largest * 127) for value in vector))


def _sign_planes(numbers: Sequence[int]) -> tuple[bytes, bytes]:
    """The signs of some numbers as two bit fields: those above zero, and those below."""
    size = (len(numbers) + 7) // 8
    above = int("".join("1" if number > 0 else "0" for number in numbers) or "0", 2)
    below = int("".join("1" if number < 0 else "0" for number in numbers) or "0", 2)
    return above.to_bytes(size), below.to_bytes(size)


def _plane_integers(planes: bytes) -> tuple[int, int]:
    half = len(planes) // 2
    return int.from_bytes(planes[:half]), int.from_bytes(planes[half:])
