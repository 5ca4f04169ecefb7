"""Canonical JSON: one encoding for one value, and a refusal by path for what is not JSON."""

import math
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from clew.core.errors import InvalidId, InvalidValue, StoreDamaged

T = TypeVar("T")
JSON: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys. Checked when encoded."""

ID_BYTES = 512
TAG_BYTES = ID_BYTES + 32
"""A tag says of what kind the id in it is, like ``thread:t``, and any id must fit."""
RESERVED_TENANT_PREFIX = "$"
"""Tenants whose names begin like this are the server's own."""

MOST_DEPTH = 200
"""The deepest nesting of a value: far less than what the interpreter's stack allows a reader."""

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()


def encode(value: JSON) -> bytes:
    """The canonical bytes of a value that is known to be JSON."""
    return _encoder.encode(value)


def decode(data: bytes) -> JSON:
    """The value behind canonical bytes."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreDamaged(store="a stored record", problem=str(error)) from error


def as_json(value: Any) -> JSON:
    """A typed value (of structs, tuples, enums) as plain JSON."""
    return _decoder.decode(_encoder.encode(value))


def decoder(kind: type[T]) -> Callable[[bytes], T]:
    """A function that decodes stored bytes to a typed value.

    Raises:
        StoreDamaged: (by the function) The bytes are not such a value.
    """
    read = msgspec.json.Decoder(kind).decode

    def decode_typed(data: bytes) -> T:
        try:
            return read(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreDamaged(store="a stored record", problem=str(error)) from error

    return decode_typed


def encode_checked(value: JSON, path: str = "$") -> tuple[bytes, JSON]:
    """The canonical bytes of a value, and a copy of it that the caller does not share.

    Raises:
        InvalidValue: The value, or a part of it, is not JSON; the error names the part.
    """
    encoded = try_encode(value)
    if encoded is not None:
        return encoded
    where, problem = _fault(value, path, depth=0) or (path, "it does not survive JSON")
    raise InvalidValue(path=where, problem=problem)


def try_encode(value: JSON) -> tuple[bytes, JSON] | None:
    """The canonical bytes of a value, and a copy that the caller does not share; None if it is not JSON.

    msgspec turns NaN into null, bytes into text and tuples into lists without a word. What
    comes back different from what went in was not JSON.
    """
    try:
        data = _encoder.encode(value)
        if _is_flat(value):
            return data, {key: value[key] for key in sorted(value)}  # in the order in which it is read back
        copy = _decoder.decode(data)
        if copy == value and (
            data.count(b"[") + data.count(b"{") <= MOST_DEPTH  # is_shallow, written out for every body
            or not _is_deep(copy)
        ):
            return data, copy
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass
    return None


def _is_flat(value: JSON) -> bool:
    """Return whether a value is an object of texts alone: what was encoded of it comes back as it was."""
    if type(value) is not dict:
        return False
    for key, part in value.items():  # noqa: SIM110 - most bodies are so, and a generator costs more than all
        if type(part) is not str or type(key) is not str:
            return False
    return True


def is_shallow(data: bytes) -> bool:
    """Return whether encoded bytes are certainly not nested too deeply; a quick look."""
    return data.count(b"[") + data.count(b"{") <= MOST_DEPTH


def _is_deep(value: JSON) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level and depth <= MOST_DEPTH:
        depth += 1
        parts = (part for node in level for part in (node.values() if isinstance(node, dict) else node))
        level = [part for part in parts if isinstance(part, dict | list)]
    return depth > MOST_DEPTH


def is_same(left: JSON, right: JSON) -> bool:
    """Return whether two JSON values are equal to the byte (1, 1.0 and true all differ)."""
    return bool(left == right) and encode(left) == encode(right)


def _fault(value: JSON, path: str, depth: int) -> tuple[str, str] | None:
    """The first part of a value that is not JSON."""
    if depth >= MOST_DEPTH and isinstance(value, dict | list):
        return path, f"it is nested more than {MOST_DEPTH} deep"
    if isinstance(value, dict):
        return _fault_in_object(value, path, depth)
    if isinstance(value, list):
        faults = (_fault(part, f"{path}[{index}]", depth + 1) for index, part in enumerate(value))
        return next((fault for fault in faults if fault), None)
    return _fault_in_leaf(value, path)


def _fault_in_object(value: dict[Any, Any], path: str, depth: int) -> tuple[str, str] | None:
    for key, part in value.items():
        if not isinstance(key, str):
            return path, f"the key {key!r} is not text"
        if problem := _text_problem(key):
            return path, f"a key {problem}"
        if fault := _fault(part, f"{path}.{key}", depth + 1):
            return fault
    return None


def _fault_in_leaf(value: JSON, path: str) -> tuple[str, str] | None:
    if value is None or isinstance(value, bool | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else (path, f"{value} is not a JSON number")
    if isinstance(value, str):
        problem = _text_problem(value)
        return (path, f"the text {problem}") if problem else None
    return path, f"{type(value).__name__} is not a JSON type"


def _text_problem(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair"
    return None


def check_tenant(tenant: object) -> str:
    """The name of a tenant, if it is not one of the server's own.

    Raises:
        InvalidId: It cannot name anything, or is reserved.
    """
    name = check_id(tenant, "tenant")
    if name.startswith(RESERVED_TENANT_PREFIX):
        raise InvalidId(
            what="tenant", problem=f"names that begin with {RESERVED_TENANT_PREFIX} are the server's own"
        )
    return name


def check_finite(value: object, path: str = "$") -> None:
    """Refuse numbers that JSON lacks, at any depth, before a serialiser makes null of them.

    Raises:
        InvalidValue: There is one; the error names its place.
    """
    if isinstance(value, dict):
        for key, part in value.items():
            check_finite(part, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            check_finite(part, f"{path}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidValue(path=path, problem=f"{value} is not a JSON number")


def check_id(value: object, what: str, *, most: int = ID_BYTES) -> str:
    """The id, if it can name something on every store.

    Raises:
        InvalidId: It is not text, empty, too long, or holds control characters.
    """
    if type(value) is str and 0 < len(value) <= most and value.isascii() and value.isprintable():
        return value
    if not isinstance(value, str):
        raise InvalidId(what=what, problem=f"{type(value).__name__} is not text")
    if not value:
        raise InvalidId(what=what, problem="it is empty")
    if problem := _text_problem(value):
        raise InvalidId(what=what, problem=f"it {problem}")
    if len(value.encode()) > most:
        raise InvalidId(what=what, problem=f"it has {len(value.encode())} bytes")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise InvalidId(what=what, problem="it holds control characters")
    return value


Id: TypeAlias = Annotated[str, check_id]
"""Text that names something. As the annotation of an argument it has ``check_id`` check it."""
