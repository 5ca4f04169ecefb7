"""Cursors: the end of a page, sealed so that nobody can make one up or use another's."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from clew.core.encoding import JSON, encode
from clew.core.errors import InvalidArgument
from clew.core.values import Record

T = TypeVar("T")
R = TypeVar("R")
SEAL_BYTES = 16


class Cursors:
    """Makes and reads the cursors of one server; each is good for one list and one reader of it."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"cursor\0" + secret.encode()).digest()

    def cursor_at(self, position: JSON, *, list_name: str) -> str:
        """Return a cursor for a position in a list."""
        payload = encode(position)
        return base64.urlsafe_b64encode(self._seal(payload, list_name) + payload).rstrip(b"=").decode()

    def read(self, cursor: str, kind: type[T], *, list_name: str) -> T:
        """Return the position of a cursor.

        Raises:
            InvalidArgument: It was not made here, or for another list or reader.
        """
        try:
            raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
            seal, payload = raw[:SEAL_BYTES], raw[SEAL_BYTES:]
            is_exact = base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == cursor
            if is_exact and hmac.compare_digest(seal, self._seal(payload, list_name)):
                return msgspec.json.decode(payload, type=kind)
        except (UnicodeEncodeError, binascii.Error, msgspec.MsgspecError):
            pass
        raise InvalidArgument(problem="The cursor is not one that this list gave. Start from the first page.")

    def _seal(self, payload: bytes, list_name: str) -> bytes:
        return hmac.digest(self._key, list_name.encode() + b"\0" + payload, "sha256")[:SEAL_BYTES]


class ListPages(Generic[T]):
    """The pages of one list for one caller: where the page begins, and the cursor of the page behind it."""

    def __init__(self, cursors: Cursors, list_name: str, cursor: str | None, kind: type[T]) -> None:
        self._cursors = cursors
        self._list_name = list_name
        self.start: T | None = None if cursor is None else cursors.read(cursor, kind, list_name=list_name)

    def cursor(self, position: JSON) -> str | None:
        """Return the cursor of a position; None for None, at the end of the list."""
        return None if position is None else self._cursors.cursor_at(position, list_name=self._list_name)

    def cut(
        self, rows: Sequence[R], limit: int, position_of: Callable[[R], JSON]
    ) -> tuple[Sequence[R], str | None]:
        """Return the first rows up to a limit, and the cursor behind them if there are more.

        Read one row more than the limit, so that the last page is known to be the last.
        """
        page = rows[:limit]
        return page, self.cursor(position_of(page[-1])) if len(rows) > limit else None


def record_position(record: Record) -> JSON:
    """Return the position of a record in a list that is sorted as the store sorts records."""
    return [record.sort, record.id]
