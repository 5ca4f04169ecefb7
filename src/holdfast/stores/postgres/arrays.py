"""Arrays for PostgreSQL, packed in one go: a list costs the driver several times as much."""

from collections.abc import Iterable
from struct import Struct
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

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


class IntegersDumper(Dumper):
    """Packs a ``bigint[]``."""

    format = Format.BINARY
    oid = 1016

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return packed(20, [_INTEGER(8, value) for value in obj], len(obj))


class TextsDumper(Dumper):
    """Packs a ``text[]``."""

    format = Format.BINARY
    oid = 1009

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        blobs = [value if value is None else value.encode() for value in obj]
        return packed(25, [_NULL if b is None else _LENGTH(len(b)) + b for b in blobs], len(obj))


class BlobsDumper(Dumper):
    """Packs a ``bytea[]``."""

    format = Format.BINARY
    oid = 1001

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return packed(17, [_NULL if b is None else _LENGTH(len(b)) + b for b in obj], len(obj))


class KeysDumper(Dumper):
    """Packs a ``uuid[]``."""

    format = Format.BINARY
    oid = 2951

    def dump(self, obj: Any) -> Buffer | None:
        """The array's bytes."""
        return packed(2950, [_SIXTEEN + value.bytes for value in obj], len(obj))


def teach(connection: AsyncConnection[Any]) -> None:
    """Let a connection take our arrays."""
    connection.adapters.register_dumper(Integers, IntegersDumper)
    connection.adapters.register_dumper(Texts, TextsDumper)
    connection.adapters.register_dumper(Blobs, BlobsDumper)
    connection.adapters.register_dumper(Keys, KeysDumper)
