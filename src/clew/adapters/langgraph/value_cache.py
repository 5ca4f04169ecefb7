"""Reading the parts of values: those at hand from memory, the others in a few windows of their logs."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from clew.adapters.langgraph.chunks import gather_parts
from clew.adapters.langgraph.layout import (
    ChannelValue,
    ChannelVersion,
    ValueLocation,
    decode_chunk,
    log_stretches,
)
from clew.adapters.langgraph.serializer import BodyCipher
from clew.core.errors import StoreDamaged
from clew.core.log import places
from clew.database.database import Database

CACHE_BYTES = 64 * 1024 * 1024

ChannelValues: TypeAlias = Mapping[str, ChannelValue]


class CheckpointValues(msgspec.Struct, frozen=True):
    """A checkpoint that others may follow: the versions of its channels, and their values."""

    versions: Mapping[str, ChannelVersion] = {}
    values: ChannelValues = {}


class CheckpointCache:
    """The parts of the checkpoints used last, so that they need not be read again."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._checkpoints: OrderedDict[tuple[str, str], CheckpointValues] = OrderedDict()
        self._size = 0
        self._limit = limit

    def get(self, thread: str, key: str) -> CheckpointValues | None:
        """A checkpoint, if it is at hand."""
        checkpoint = self._checkpoints.get((thread, key))
        if checkpoint is not None:
            self._checkpoints.move_to_end((thread, key))
        return checkpoint

    def add(self, thread: str, key: str, checkpoint: CheckpointValues) -> None:
        """Keep a checkpoint at hand; those used least go."""
        self._drop(thread, key)
        self._checkpoints[thread, key] = checkpoint
        self._size += _bytes_in_memory(checkpoint)
        while self._size > self._limit and len(self._checkpoints) > 1:
            self._drop(*next(iter(self._checkpoints)))

    def drop_thread(self, thread: str) -> None:
        """Keep nothing of a thread."""
        for key in [key for key in self._checkpoints if key[0] == thread]:
            self._drop(*key)

    def _drop(self, thread: str, key: str) -> None:
        checkpoint = self._checkpoints.pop((thread, key), None)
        self._size -= _bytes_in_memory(checkpoint) if checkpoint is not None else 0


def _bytes_in_memory(checkpoint: CheckpointValues) -> int:
    """About how much memory a checkpoint takes, as if it shared nothing with others."""
    return sum(value.size + 16 * len(value.parts) for value in checkpoint.values.values())


async def read_values(
    db: Database,
    body_cipher: BodyCipher,
    thread: str,
    tables: Sequence[Mapping[str, ValueLocation]],
    caches: Sequence[ChannelValues],
) -> list[dict[str, ChannelValue]]:
    """The values of some checkpoints, given what is at hand of each.

    Raises:
        StoreDamaged: An item that a value consists of is not there any more.
    """
    missing = [
        location
        for table, cache in zip(tables, caches, strict=True)
        for channel, location in table.items()
        if _value_in_cache(cache, channel, location) is None
    ]
    chunks = await _read_chunks(db, body_cipher, thread, missing)
    return [
        {
            channel: _value_in_cache(near, channel, placed) or _gather_value(thread, placed, chunks)
            for channel, placed in table.items()
        }
        for table, near in zip(tables, caches, strict=True)
    ]


def _value_in_cache(values: ChannelValues, channel: str, location: ValueLocation) -> ChannelValue | None:
    if location.inline is not None:
        return ChannelValue(location=location, parts=location.inline, addresses=[], size=0)
    value = values.get(channel)
    return value if value is not None and value.location == location else None


def _gather_value(
    thread: str, location: ValueLocation, chunks: Mapping[str, Mapping[int, Sequence[bytes]]]
) -> ChannelValue:
    try:
        parts, addresses = gather_parts(location.runs, chunks.get(location.log, {}))
    except KeyError as error:
        raise StoreDamaged(
            store=f"Thread {thread!r}", problem=f"item {error} of log {location.log!r} is hidden or missing"
        ) from error
    return ChannelValue(location=location, parts=parts, addresses=addresses, size=sum(map(len, parts)))


async def _read_chunks(
    db: Database, body_cipher: BodyCipher, thread: str, locations: Sequence[ValueLocation]
) -> dict[str, dict[int, Sequence[bytes]]]:
    chunks: dict[str, dict[int, Sequence[bytes]]] = {}
    for log, stretches in log_stretches(locations).items():
        for first, last in stretches:
            window = await db.thread(thread).items(
                log=log, after=places.place_of(first) - 1, before=places.place_of(last) + 1
            )
            for item in window:
                body = body_cipher.unseal(item.codec, item.body)
                chunk = decode_chunk(body) if item.kind == "chunk" else [body]
                chunks.setdefault(log, {})[item.place // places.SPACING] = chunk
    return chunks
