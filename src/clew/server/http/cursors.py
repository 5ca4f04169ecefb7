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
SEAL = 16


class Cursors:
    """Makes and reads the cursors of one server; each is good for one list and one reader of it."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"cursor\0" + secret.encode()).digest()

    def made(self, position: JSON, *, of: str) -> str:
        """A cursor that stands for a position in a list."""
        said = encode(position)
        return base64.urlsafe_b64encode(self._seal(said, of) + said).rstrip(b"=").decode()

    def read(self, cursor: str, kind: type[T], *, of: str) -> T:
        """The position that a cursor stands for.

        Raises:
            InvalidArgument: It was not made here, or for another list or reader.
        """
        try:
            raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
            seal, said = raw[:SEAL], raw[SEAL:]
            exact = base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == cursor
            if exact and hmac.compare_digest(seal, self._seal(said, of)):
                return msgspec.json.decode(said, type=kind)
        except (UnicodeEncodeError, binascii.Error, msgspec.MsgspecError):
            pass
        raise InvalidArgument(problem="The cursor is not one that this list gave. Start from the first page.")

    def _seal(self, said: bytes, of: str) -> bytes:
        return hmac.digest(self._key, of.encode() + b"\0" + said, "sha256")[:SEAL]
