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

ROUGHLY = 10
"""For each that is wanted, so many are compared exactly: those that are most alike by their signs."""


class Kept(msgspec.Struct, frozen=True):
    """A vector as a record holds it: its numbers in a byte each, their signs in two bits, its length."""

    vector: str
    signs: str
    length: float


def kept(vector: Sequence[float]) -> Kept:
    """A vector, scaled so that its largest number is 127."""
    numbers = _scaled(vector)
    return Kept(
        vector=base64.b64encode(numbers.tobytes()).decode(),
        signs=base64.b64encode(b"".join(_planes(numbers))).decode(),
        length=length(numbers),
    )


def length(vector: Sequence[float]) -> float:
    """How long a vector is."""
    return math.sqrt(sum(map(operator.mul, vector, vector)))


def likeness(left: Sequence[float], right: Kept) -> float:
    """The cosine of two vectors; 0 if they cannot be compared."""
    numbers = array("b", base64.b64decode(right.vector))
    lengths = length(left) * right.length
    if len(left) != len(numbers) or not lengths:
        return 0.0
    return float(sum(map(operator.mul, left, numbers)) / lengths)


def nearest(
    vector: Sequence[float], among: Iterable[tuple[Name, Kept]], count: int, *, least: float = 0.0
) -> list[tuple[float, Name]]:
    """The names of the vectors that are most alike, with their likeness, the best first.

    All are compared by the signs of their numbers, which costs little; only the best of them exactly.
    """
    plus, minus = _integers(b"".join(_planes(_scaled(vector))))
    rough: list[tuple[float, int, Name, Kept]] = []
    for order, (name, other) in enumerate(among):
        theirs, against = _integers(base64.b64decode(other.signs))
        agree = (plus & theirs).bit_count() + (minus & against).bit_count()
        differ = (plus & against).bit_count() + (minus & theirs).bit_count()
        size = math.sqrt(theirs.bit_count() + against.bit_count()) or 1.0
        rough.append(((agree - differ) / size, -order, name, other))
    best = heapq.nlargest(count * ROUGHLY, rough, key=operator.itemgetter(0, 1))
    scored = [(likeness(vector, other), order, name) for _, order, name, other in best]
    scored.sort(key=operator.itemgetter(0, 1), reverse=True)
    return [(score, name) for score, _, name in scored[:count] if score >= least]


def _scaled(vector: Sequence[float]) -> "array[int]":
    largest = max((abs(value) for value in vector), default=0.0) or 1.0
    return array("b", (round(value / largest * 127) for value in vector))


def _planes(numbers: Sequence[int]) -> tuple[bytes, bytes]:
    """Which numbers are above zero, and which are below, a bit each."""
    size = (len(numbers) + 7) // 8
    above = int("".join("1" if number > 0 else "0" for number in numbers) or "0", 2)
    below = int("".join("1" if number < 0 else "0" for number in numbers) or "0", 2)
    return above.to_bytes(size), below.to_bytes(size)


def _integers(planes: bytes) -> tuple[int, int]:
    half = len(planes) // 2
    return int.from_bytes(planes[:half]), int.from_bytes(planes[half:])
