"""Vectors of what is known: who makes them, how they are kept, how alike two of them are."""

import base64
import math
import operator
from array import array
from collections.abc import Awaitable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol

from holdfast.core.text import words
from holdfast.core.values import Drop, Item, Put, Record, RecordQuery
from holdfast.runtime.memory.functionwords import FUNCTION_WORDS
from holdfast.threads.database import Database

VECTOR = "memory.vector"
PAGE = 64


class EmbeddingProvider(Protocol):
    """Turns texts into vectors. Vectors of different names are never compared."""

    @property
    def name(self) -> str:
        """What made them: the model and its version."""
        ...

    def embed(self, texts: Sequence[str]) -> Awaitable[Sequence[Sequence[float]]]:
        """One vector for each text.

        Raises:
            ModelFailed: There are none.
        """
        ...


class HashingEmbedder:
    """Words and pieces of words, hashed into a vector. It knows spelling, not meaning.

    Two texts are alike if they share words, or words that are spelled alike ("allergic", "allergies"). It
    needs no model and no network.
    """

    def __init__(self, dimensions: int = 512) -> None:
        self.name = f"hashing-{dimensions}"
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._dimensions
        for piece, weight in _pieces(text):
            digest = int.from_bytes(blake2b(piece.encode(), digest_size=8).digest())
            vector[digest % self._dimensions] += weight if digest >> 63 else -weight
        whole = length(vector) or 1.0
        return [value / whole for value in vector]


def _pieces(text: str) -> Iterator[tuple[str, float]]:
    """Words and their pieces of three and four letters; all pieces of a word weigh as much as the word."""
    said = words(text)
    for word in [word for word in said if word not in FUNCTION_WORDS] or said:
        yield word, 1.0
        marked = f"<{word}>"
        pieces = [marked[start : start + size] for size in (3, 4) for start in range(len(marked) - size + 1)]
        yield from ((piece, 1 / math.sqrt(len(pieces))) for piece in pieces)


def packed(vector: Sequence[float]) -> str:
    """A vector as text: each number in one byte, scaled to the largest."""
    largest = max((abs(value) for value in vector), default=0.0) or 1.0
    return base64.b64encode(array("b", (round(value / largest * 127) for value in vector)).tobytes()).decode()


def unpacked(text: str) -> Sequence[int]:
    """The numbers of a packed vector."""
    return array("b", base64.b64decode(text))


def length(vector: Sequence[float]) -> float:
    """How long a vector is."""
    return math.sqrt(sum(map(operator.mul, vector, vector)))


def likeness(left: Sequence[float], right: Sequence[int], lengths: float) -> float:
    """The cosine of two vectors, given the product of their lengths; 0 if they cannot be compared."""
    if len(left) != len(right) or not lengths:
        return 0.0
    return float(sum(map(operator.mul, left, right)) / lengths)


def vector_id(thread: str, id: str) -> str:
    """The id of the record that holds the vector of an entry."""
    return f"{thread}/{id}"


def vector_tags(thread: str, log: str, provider: str) -> tuple[str, ...]:
    """What the vectors of a log are found by."""
    return (thread, log, provider)


async def embed_pending(db: Database, thread: str, owner: str | None, log: str, by: EmbeddingProvider) -> int:
    """Make the vectors that are missing for a log of a memory; how many. To be done in the queue.

    A changed entry stands at the end of its log, so what is missing stands behind the last that was made.
    """
    done = 0
    tags = vector_tags(thread, log, by.name)
    while True:
        newest = await db.records.find(RecordQuery(kind=VECTOR, tags=tags, newest=True, limit=1))
        after = newest[0].sort if newest else 0
        items = await db.thread(thread).items(log=log, first=PAGE, after=after)
        if not items:
            return done
        vectors = await by.embed([_said(item) for item in items])
        await db.commit(
            [
                Put(record=_record(thread, owner, item, tags, vector))
                for item, vector in zip(items, vectors, strict=True)
            ]
        )
        await _drop_forgotten(db, thread, log, items)
        done += len(items)


async def _drop_forgotten(db: Database, thread: str, log: str, items: Sequence[Item]) -> None:
    """Take back the vectors of what was forgotten while they were being made."""
    first, last = items[0].place, items[-1].place
    there = {item.place for item in await db.thread(thread).items(log=log, after=first - 1, before=last + 1)}
    gone = [item for item in items if item.place not in there]
    if gone:
        await db.commit([Drop(kind=VECTOR, id=vector_id(thread, item.id or "")) for item in gone])


def _said(item: Item) -> str:
    body = item.body if isinstance(item.body, dict) else {}
    return " ".join(str(body[name]) for name in ("text", "summary") if body.get(name))


def _record(
    thread: str, owner: str | None, item: Item, tags: tuple[str, ...], vector: Sequence[float]
) -> Record:
    numbers = packed(vector)
    return Record(
        kind=VECTOR,
        id=vector_id(thread, item.id or ""),
        owner=owner,
        tags=tags,
        sort=item.place,
        body={"vector": numbers, "length": length(unpacked(numbers))},
    )
