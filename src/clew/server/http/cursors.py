"""Cursors: where a page ended, sealed so that nobody can make one up or use another's."""

import base64
import binascii
import hashlib
import hmac
from typing import TypeVar

import msgspec

from clew.core.encoding import JSON, encode
from clew.core.errors import InvalidArgument

T = TypeVar("T")
SEAL_BYTES = 16


class Cursors:
    """Makes and reads the cursors of one server; each is good for one list and one reader of it."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"cursor\0" + secret.encode()).digest()

    def cursor_at(self, position: JSON, *, list_name: str) -> str:
        """A cursor that stands for a position in a list."""
        payload = encode(position)
        return base64.urlsafe_b64encode(self._seal(payload, list_name) + payload).rstrip(b"=").decode()

    def read(self, cursor: str, kind: type[T], *, list_name: str) -> T:
        """The position that a cursor stands for.

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
