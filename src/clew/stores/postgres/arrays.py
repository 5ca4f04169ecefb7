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


class Integers(tuple[int, ...]):
    """A ``bigint[]``."""

    __slots__ = ()


class Texts(tuple[str | None, ...]):
    """A ``text[]``."""

    __slots__ = ()


class Blobs(tuple[bytes | None, ...]):
    """A ``bytea[]``."""

    __slots__ = ()


class Keys(tuple[UUID, ...]):
    """A ``uuid[]``."""

    __slots__ = ()


def packed(element: int, values: Iterable[bytes], length: int) -> bytes:
    """An array of one dimension in PostgreSQL's binary form; each value comes with its length before it."""
    if not length:
        return _EMPTY(0, 0, element)
    return _HEADER.pack(1, 1, element, length, 1) + b"".join(values)


def _integers(values: Iterable[int]) -> bytes:
    parts = [_INTEGER(8, value) for value in values]
    return packed(20, parts, len(parts))


def _texts(values: Iterable[str | None]) -> bytes:
    blobs = [value if value is None else value.encode() for value in values]
    parts = [_NULL if blob is None else _LENGTH(len(blob)) + blob for blob in blobs]
    return packed(25, parts, len(parts))


def _blobs(values: Iterable[bytes | None]) -> bytes:
    parts = [_NULL if value is None else _LENGTH(len(value)) + value for value in values]
    return packed(17, parts, len(parts))


def _keys(values: Iterable[UUID]) -> bytes:
    parts = [_SIXTEEN + value.bytes for value in values]
    return packed(2950, parts, len(parts))


_wires: dict[type, Callable[[Any], bytes]] = {
    str: str.encode,
    Int8: Struct("!q").pack,
    bool: Struct("!?").pack,
    UUID: attrgetter("bytes"),
    Integers: _integers,
    Texts: _texts,
    Blobs: _blobs,
    Keys: _keys,
}


def wire(values: Iterable[object]) -> list[bytes | None]:
    """Values as they are sent, in PostgreSQL's binary form."""
    return [
        value if value is None or type(value) is bytes else _wires[type(value)](value) for value in values
    ]


class IntegersDumper(Dumper):
    """Packs a ``bigint[]``."""

    format = Format.BINARY
    oid = 1016

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return _integers(obj)


class TextsDumper(Dumper):
    """Packs a ``text[]``."""

    format = Format.BINARY
    oid = 1009

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return _texts(obj)


class BlobsDumper(Dumper):
    """Packs a ``bytea[]``."""

    format = Format.BINARY
    oid = 1001

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return _blobs(obj)


class KeysDumper(Dumper):
    """Packs a ``uuid[]``."""

    format = Format.BINARY
    oid = 2951

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return _keys(obj)


def teach(connection: AsyncConnection[Any]) -> None:
    """Let a connection take our arrays."""
    connection.adapters.register_dumper(Integers, IntegersDumper)
    connection.adapters.register_dumper(Texts, TextsDumper)
    connection.adapters.register_dumper(Blobs, BlobsDumper)
    connection.adapters.register_dumper(Keys, KeysDumper)
