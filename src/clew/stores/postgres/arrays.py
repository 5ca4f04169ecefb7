"""Arrays for PostgreSQL, packed in one go: a list costs the driver several times as much."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from struct import Struct
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8

_HEADER = Struct("!iiIii")
_LENGTH = Struct("!i").pack
_INTEGER = Struct("!iq").pack
_NULL = _LENGTH(-1)
_SIXTEEN = _LENGTH(16)
_EMPTY = Struct("!iiI").pack


class IntegerArray(tuple[int, ...]):
    """A ``bigint[]``."""

    __slots__ = ()


class TextArray(tuple[str | None, ...]):
    """A ``text[]``."""

    __slots__ = ()


class BlobArray(tuple[bytes | None, ...]):
    """A ``bytea[]``."""

    __slots__ = ()


class KeyArray(tuple[UUID, ...]):
    """A ``uuid[]``."""

    __slots__ = ()


def pack_array(element: int, values: Iterable[bytes], length: int) -> bytes:
    """An array of one dimension in PostgreSQL's binary form; each value comes with its length before it."""
    if not length:
        return _EMPTY(0, 0, element)
    return _HEADER.pack(1, 1, element, length, 1) + b"".join(values)


def _pack_integers(values: Iterable[int]) -> bytes:
    parts = [_INTEGER(8, value) for value in values]
    return pack_array(20, parts, len(parts))


def _pack_texts(values: Iterable[str | None]) -> bytes:
    blobs = [value if value is None else value.encode() for value in values]
    parts = [_NULL if blob is None else _LENGTH(len(blob)) + blob for blob in blobs]
    return pack_array(25, parts, len(parts))


def _pack_blobs(values: Iterable[bytes | None]) -> bytes:
    parts = [_NULL if value is None else _LENGTH(len(value)) + value for value in values]
    return pack_array(17, parts, len(parts))


def _pack_keys(values: Iterable[UUID]) -> bytes:
    parts = [_SIXTEEN + value.bytes for value in values]
    return pack_array(2950, parts, len(parts))


_packers: dict[type, Callable[[Any], bytes]] = {
    str: str.encode,
    Int8: Struct("!q").pack,
    bool: Struct("!?").pack,
    UUID: attrgetter("bytes"),
    IntegerArray: _pack_integers,
    TextArray: _pack_texts,
    BlobArray: _pack_blobs,
    KeyArray: _pack_keys,
}


def pack_values(values: Iterable[object]) -> list[bytes | None]:
    """Values as they are sent, in PostgreSQL's binary form."""
    return [
        value if value is None or type(value) is bytes else _packers[type(value)](value) for value in values
    ]


class IntegerArrayDumper(Dumper):
    """Packs a ``bigint[]``."""

    format = Format.BINARY
    oid = 1016

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return _pack_integers(obj)


class TextArrayDumper(Dumper):
    """Packs a ``text[]``."""

    format = Format.BINARY
    oid = 1009

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return _pack_texts(obj)


class BlobArrayDumper(Dumper):
    """Packs a ``bytea[]``."""

    format = Format.BINARY
    oid = 1001

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return _pack_blobs(obj)


class KeyArrayDumper(Dumper):
    """Packs a ``uuid[]``."""

    format = Format.BINARY
    oid = 2951

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return _pack_keys(obj)


def register_dumpers(connection: AsyncConnection[Any]) -> None:
    """Let a connection take our arrays."""
    connection.adapters.register_dumper(IntegerArray, IntegerArrayDumper)
    connection.adapters.register_dumper(TextArray, TextArrayDumper)
    connection.adapters.register_dumper(BlobArray, BlobArrayDumper)
    connection.adapters.register_dumper(KeyArray, KeyArrayDumper)
