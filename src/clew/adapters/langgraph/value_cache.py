"""Reading the parts of values: those at hand from memory, the others in a few windows of their logs."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from clew.adapters.langgraph.chunks import gather
from clew.adapters.langgraph.layout import Placed, Stored, Version, decode_chunk, touched
from clew.adapters.langgraph.serializer import Sealing
from clew.core.errors import StoreDamaged
from clew.core.log import places
from clew.database.database import Database

AT_HAND_BYTES = 64 * 1024 * 1024

Values: TypeAlias = Mapping[str, Stored]


class Before(msgspec.Struct, frozen=True):
    """A checkpoint that others may follow: the versions of its channels, and their values."""

    versions: Mapping[str, Version] = {}
    values: Values = {}


class AtHand:
    """The parts of the checkpoints used last, so that they need not be read again."""

    def __init__(self, limit: int = AT_HAND_BYTES) -> None:
        self._checkpoints: OrderedDict[tuple[str, str], Before] = OrderedDict()
        self._size = 0
        self._limit = limit

    def get(self, thread: str, key: str) -> Before | None:
        """A checkpoint, if it is at hand."""
        found = self._checkpoints.get((thread, key))
        if found is not None:
            self._checkpoints.move_to_end((thread, key))
        return found

    def keep(self, thread: str, key: str, checkpoint: Before) -> None:
        """Keep a checkpoint at hand; those used least go."""
        self._drop(thread, key)
        self._checkpoints[thread, key] = checkpoint
        self._size += _weight(checkpoint)
        while self._size > self._limit and len(self._checkpoints) > 1:
            self._drop(*next(iter(self._checkpoints)))

    def forget(self, thread: str) -> None:
        """Keep nothing of a thread."""
        for key in [key for key in self._checkpoints if key[0] == thread]:
            self._drop(*key)

    def _drop(self, thread: str, key: str) -> None:
        gone = self._checkpoints.pop((thread, key), None)
        self._size -= _weight(gone) if gone is not None else 0


def _weight(checkpoint: Before) -> int:
    """About how much memory a checkpoint takes, as if it shared nothing with others."""
    return sum(value.size + 16 * len(value.parts) for value in checkpoint.values.values())


async def read_values(
    db: Database,
    sealing: Sealing,
    thread: str,
    wanted: Sequence[Mapping[str, Placed]],
    hand: Sequence[Values],
) -> list[dict[str, Stored]]:
    """The values of some checkpoints, given what is at hand of each.

    Raises:
        StoreDamaged: An item that a value stands on is not there any more.
    """
    missing = [
        placed
        for table, near in zip(wanted, hand, strict=True)
        for channel, placed in table.items()
        if _near(near, channel, placed) is None
    ]
    chunks = await _read_chunks(db, sealing, thread, missing)
    return [
        {
            channel: _near(near, channel, placed) or _gathered(thread, placed, chunks)
            for channel, placed in table.items()
        }
        for table, near in zip(wanted, hand, strict=True)
    ]


def _near(values: Values, channel: str, placed: Placed) -> Stored | None:
    if placed.inline is not None:
        return Stored(placed=placed, parts=placed.inline, addresses=[], size=0)
    found = values.get(channel)
    return found if found is not None and found.placed == placed else None


def _gathered(thread: str, placed: Placed, chunks: Mapping[str, Mapping[int, Sequence[bytes]]]) -> Stored:
    try:
        parts, addresses = gather(placed.runs, chunks.get(placed.log, {}))
    except KeyError as error:
        raise StoreDamaged(
            store=f"Thread {thread!r}", problem=f"item {error} of log {placed.log!r} is hidden or missing"
        ) from error
    return Stored(placed=placed, parts=parts, addresses=addresses, size=sum(map(len, parts)))


async def _read_chunks(
    db: Database, sealing: Sealing, thread: str, placed: Sequence[Placed]
) -> dict[str, dict[int, Sequence[bytes]]]:
    chunks: dict[str, dict[int, Sequence[bytes]]] = {}
    for log, stretches in touched(placed).items():
        for first, last in stretches:
            window = await db.thread(thread).items(
                log=log, after=places.at(first) - 1, before=places.at(last) + 1
            )
            for item in window:
                body = sealing.open(item.codec, item.body)
                chunk = decode_chunk(body) if item.kind == "chunk" else [body]
                chunks.setdefault(log, {})[item.place // places.ROOM] = chunk
    return chunks
