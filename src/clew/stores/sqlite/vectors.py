"""The index of vectors in a file: the signs of their numbers, in blocks that a search goes through."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

import apsw

from clew.core.log.vectors import VECTOR_KIND, IndexedVector, import_numpy, indexed_vector, thread_mark
from clew.core.values import Record
from clew.stores.sqlite.connection import QUERIES, rows_of

MARK_BYTES: Final = 8
FREE: Final = bytes(MARK_BYTES)
SLOT_BITS: Final = 10
FEWEST_SLOTS, MOST_SLOTS = 16, 1 << SLOT_BITS
"""The first block of an owner is small: most have few vectors. Each further one doubles their room."""


class VectorBlock(NamedTuple):
    """A block of vectors: the marks of their threads and the signs of their numbers, slot by slot."""

    key: int
    marks: bytes
    signs: bytes


class VectorBlocks:
    """The blocks of vectors that one connection writes, in one scope."""

    def __init__(self, connection: apsw.Connection, scope: Mapping[str, str | None]) -> None:
        self._connection = connection
        self._scope = {**scope, "kind": VECTOR_KIND}

    def save(self, record: Record) -> None:
        """Put the vector of a record that was just written into a block, instead of what it was before."""
        self.drop(record.id)
        vector = indexed_vector(record)
        place = None if vector is None else self._add(vector, record.owner)
        self._rows("set_vector_place", id=record.id, place=place)

    def drop(self, id: str) -> None:
        """Overwrite the vector of a record in its block."""
        for (place,) in self._rows("vector_place", id=id):
            key, slot = place >> SLOT_BITS, place & (MOST_SLOTS - 1)
            for used, width in self._rows("count_free_slots", key=key, change=1):
                if used:
                    self._write(key, slot, FREE, bytes(width))
                else:
                    self._rows("drop_vector_block", key=key)

    def _add(self, vector: IndexedVector, owner: str | None) -> int:
        scope = {"space": vector.space, "log": vector.log, "owner": owner, "width": len(vector.signs)}
        blocks = self._rows("open_vector_block", **scope)
        if blocks:
            key, marks = blocks[0]
            slot = _free_slot(marks)
        else:
            (slots,) = self._rows("vector_slots", **scope)[0]
            slots = min(max(slots, FEWEST_SLOTS), MOST_SLOTS)
            ((key,),) = self._rows("add_vector_block", **scope, slots=slots)
            slot = 0
        self._rows("count_free_slots", key=key, change=-1)
        self._write(key, slot, thread_mark(vector.thread), vector.signs)
        return int(key << SLOT_BITS | slot)

    def _write(self, key: int, slot: int, mark: bytes, signs: bytes) -> None:
        """Overwrite one slot in place: the rest of the block, which may be large, is not written again."""
        for column, data in (("marks", mark), ("signs", signs)):
            with self._connection.blob_open("main", "vector_blocks", column, key, True) as blob:  # noqa: FBT003
                blob.seek(slot * len(data))
                blob.write(data)

    def _rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        return rows_of(self._connection, QUERIES[query], values | self._scope)


def closest_places(signs: bytes, blocks: Sequence[VectorBlock], mark: bytes | None, limit: int) -> list[int]:
    """The places of the vectors whose signs differ least: so many, or all if they are fewer.

    With a mark, of those alone that have it.
    """
    numpy = import_numpy()
    if numpy is not None and blocks:
        return _closest_by_numpy(numpy, signs, blocks, mark, limit)
    distances = [_distances(signs, block.signs) for block in blocks]
    used = [_used_slots(block.marks, mark) for block in blocks]
    worst = _worst_distance(
        [distances[number][slot] for number, slots in enumerate(used) for slot in slots], limit
    )
    pairs = sorted(
        (distances[number][slot], blocks[number].key << SLOT_BITS | slot)
        for number, slots in enumerate(used)
        for slot in slots
        if distances[number][slot] <= worst
    )
    return [place for _, place in pairs[:limit]]


def _distances(signs: bytes, block: bytes) -> list[int]:
    """In how many signs each vector of a block differs."""
    width, number, integer = len(signs), int.from_bytes(signs), int.from_bytes
    return [
        (number ^ integer(block[start : start + width])).bit_count() for start in range(0, len(block), width)
    ]


def _used_slots(marks: bytes, mark: bytes | None) -> Sequence[int]:
    """The slots that have a mark, or this one."""
    if mark is None and FREE not in marks:  # the usual block: full
        return range(len(marks) // MARK_BYTES)
    each = [marks[start : start + MARK_BYTES] for start in range(0, len(marks), MARK_BYTES)]
    return [slot for slot, slot_mark in enumerate(each) if slot_mark != FREE and mark in (None, slot_mark)]


def _worst_distance(distances: Sequence[int], count: int) -> int:
    """The largest of the ``count`` smallest distances. They are small numbers, so they are counted."""
    total = 0
    for distance, number in sorted(Counter(distances).items()):
        total += number
        if total >= count:
            return distance
    return max(distances, default=0)


def _closest_by_numpy(
    numpy: ModuleType, signs: bytes, blocks: Sequence[VectorBlock], mark: bytes | None, limit: int
) -> list[int]:
    # Eight bytes at a time where the width allows it.
    word = numpy.uint64 if len(signs) % 8 == 0 else numpy.uint8
    marks = numpy.frombuffer(b"".join(block.marks for block in blocks), dtype=numpy.uint64)
    rows = numpy.frombuffer(b"".join(block.signs for block in blocks), dtype=word).reshape(len(marks), -1)
    wanted = marks != 0 if mark is None else marks == numpy.frombuffer(mark, dtype=numpy.uint64)
    slots = numpy.flatnonzero(wanted)
    if len(slots) < len(marks):
        rows = rows[slots]
    differences = numpy.bitwise_count(rows ^ numpy.frombuffer(signs, dtype=word))
    distances = differences.sum(axis=1, dtype=numpy.uint32)
    if len(slots) > limit:
        slots = slots[numpy.argpartition(distances, limit)[:limit]]
    starts = numpy.cumsum([0, *(len(block.marks) // MARK_BYTES for block in blocks)])
    numbers = numpy.searchsorted(starts, slots, side="right") - 1
    keys = numpy.array([block.key for block in blocks])[numbers]
    places: list[int] = ((keys << SLOT_BITS) + slots - starts[numbers]).tolist()
    return places


def _free_slot(marks: bytes) -> int:
    slots = range(len(marks) // MARK_BYTES)
    return next(slot for slot in slots if marks[slot * MARK_BYTES : (slot + 1) * MARK_BYTES] == FREE)
