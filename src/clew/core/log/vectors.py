"""Vectors as records hold them and as they are compared: by the signs of their numbers first, then exactly.

A vector is a record of the kind ``VECTOR_KIND``. Its first tags are the thread and the log of the entry that
it belongs to, and the space that it is in: only vectors of one space can be compared. Stores index the signs.
"""

import base64
import binascii
import math
import operator
from array import array
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from types import ModuleType
from typing import Final

import msgspec

from clew.core.log.rows import AskNearest, StoreRead, ask
from clew.core.values import Record, VectorMatch, VectorQuery

VECTOR_KIND: Final = "memory.vector"
CANDIDATES_PER_MATCH: Final = 10
"""For each match that is wanted, so many are compared exactly: those whose signs differ least."""
FEWEST_CANDIDATES: Final = 200
MOST_CANDIDATES: Final = 1_000
"""No index of pgvector looks for more."""


class StoredVector(msgspec.Struct, frozen=True):
    """A vector as a record holds it: its numbers in a byte each, their signs in a bit, its length."""

    vector: str
    signs: str
    length: float


class IndexedVector(msgspec.Struct, frozen=True, kw_only=True):
    """A vector as a store indexes it: the signs of its numbers, and what it can be filtered by."""

    thread: str
    log: str
    space: str
    signs: bytes


def quantize_vector(vector: Sequence[float]) -> StoredVector:
    """A vector, scaled so that its largest number is 127."""
    numbers = _quantize(vector)
    return StoredVector(
        vector=base64.b64encode(numbers.tobytes()).decode(),
        signs=base64.b64encode(vector_signs(numbers)).decode(),
        length=vector_length(numbers),
    )


def vector_length(vector: Sequence[float]) -> float:
    """The length of a vector, also of one whose squares would underflow."""
    return math.hypot(*vector)


def vector_signs(vector: Sequence[float]) -> bytes:
    """The signs of some numbers, a bit for each: one for those above zero. The last byte is filled up."""
    bits = "".join("1" if number > 0 else "0" for number in vector)
    size = (len(bits) + 7) // 8
    return int(bits.ljust(size * 8, "0") or "0", 2).to_bytes(size)


def indexed_vector(record: Record) -> IndexedVector | None:
    """The vector of a record as a store indexes it; None if it has none that can be compared."""
    stored = _stored_vector(record)
    if stored is None or len(record.tags) < 3:
        return None
    try:
        size, signs = len(base64.b64decode(stored.vector)), base64.b64decode(stored.signs)
    except binascii.Error:
        return None
    thread, log, space = record.tags[:3]
    width = (size + 7) // 8
    if not width or len(signs) < width:
        return None
    return IndexedVector(thread=thread, log=log, space=space, signs=signs[:width])


def thread_mark(thread: str) -> bytes:
    """Eight bytes for a thread, never all zero, by which an index tells its vectors from those of others."""
    return sha256(thread.encode()).digest()[:7] + b"\x01"


def read_nearest(query: VectorQuery) -> StoreRead[list[VectorMatch]]:
    """Read the vectors that are most like one, the best first."""
    limit = max(FEWEST_CANDIDATES, min(query.limit * CANDIDATES_PER_MATCH, MOST_CANDIDATES))
    records = yield from ask(
        AskNearest(
            space=query.space,
            logs=query.logs,
            owner=query.owner,
            thread=query.thread,
            signs=vector_signs(query.vector),
            limit=max(limit, query.limit),
        )
    )
    scores = zip(_likenesses(query.vector, records), records, strict=True)
    matches = [VectorMatch(likeness=score, record=record) for score, record in scores if score >= query.least]
    matches.sort(key=lambda match: (-match.likeness, -match.record.sort, match.record.id))
    return matches[: query.limit]


def likeness(left: Sequence[float], right: StoredVector) -> float:
    """The cosine of two vectors; 0 if they cannot be compared."""
    numbers = array("b", base64.b64decode(right.vector))
    scaled = _scale(left)
    lengths = vector_length(scaled) * right.length
    if len(scaled) != len(numbers) or not lengths:
        return 0.0
    return float(sum(map(operator.mul, scaled, numbers)) / lengths)


def _likenesses(vector: Sequence[float], records: Sequence[Record]) -> list[float]:
    """The cosines of a vector and those of some records."""
    stored = [_stored_vector(record) for record in records]
    numpy = import_numpy()
    if numpy is None or not all(each is not None and each.length for each in stored):
        return [0.0 if each is None else likeness(vector, each) for each in stored]
    rows = [base64.b64decode(each.vector) for each in stored if each is not None]
    if not rows or any(len(row) != len(vector) for row in rows):
        return [0.0 if each is None else likeness(vector, each) for each in stored]
    numbers = numpy.frombuffer(b"".join(rows), dtype=numpy.int8).reshape(len(rows), -1)
    scaled = _scale(vector)
    lengths = numpy.array([each.length for each in stored if each is not None]) * (
        vector_length(scaled) or math.inf
    )
    scores: list[float] = (numbers @ numpy.array(scaled, dtype=numpy.float32) / lengths).tolist()
    return scores


@cache
def import_numpy() -> ModuleType | None:
    """Return NumPy if it is installed and counts bits; everything works without it, more slowly."""
    try:
        import numpy as np
    except ImportError:
        return None
    return np if hasattr(np, "bitwise_count") else None


def _stored_vector(record: Record) -> StoredVector | None:
    try:
        return msgspec.convert(record.body, StoredVector)
    except msgspec.ValidationError:
        return None


def _quantize(vector: Sequence[float]) -> "array[int]":
    return array("b", (round(value * 127) for value in _scale(vector)))


def _scale(vector: Sequence[float]) -> list[float]:
    """A vector of the same direction whose largest number is 1: very small numbers would be too coarse."""
    largest = max(map(abs, vector), default=0.0) or 1.0
    return [value / largest for value in vector]
