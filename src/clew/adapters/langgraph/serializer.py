"""Values as bytes and back: LangGraph's own encoding, without guessing types and without pickle."""

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec
import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from clew.core.errors import InvalidArgument, InvalidValue

Name: TypeAlias = tuple[str, ...]
"""A type by its module and its name."""

SAFE: frozenset[Name] = SAFE_MSGPACK_TYPES
SAFE_METHODS: frozenset[tuple[str, str, str]] = SAFE_MSGPACK_METHODS


def named_by(types: Iterable[type | Name]) -> frozenset[Name]:
    """The types given, and every type that their fields mention."""
    found: set[Name] = set()
    seen: set[int] = set()
    for given in types:
        if isinstance(given, tuple):
            found.add(given)
        else:
            _collect(given, found, seen)
    return frozenset(found)


def _collect(type_: Any, found: set[Name], seen: set[int]) -> None:
    if id(type_) in seen:
        return
    seen.add(id(type_))
    for part in get_args(type_):
        _collect(part, found, seen)
    if isinstance(type_, type) and type_.__module__ not in ("builtins", "typing"):
        found.add((type_.__module__, type_.__name__))
        for field in _fields(type_):
            _collect(field, found, seen)


def _fields(type_: type) -> Iterable[Any]:
    try:
        return list(get_type_hints(type_, include_extras=True).values())
    except (NameError, TypeError):  # an annotation that cannot be resolved names nothing
        return []


PLAIN = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
MESSAGES: dict[type, frozenset[str]] = {
    kind: frozenset(kind.model_fields) for kind in (HumanMessage, AIMessage, SystemMessage, ToolMessage)
}
"""The messages of every chat, whose fields are all that they say."""

SPEAKERS: dict[type, str] = {
    HumanMessage: "human",
    AIMessage: "ai",
    SystemMessage: "system",
    ToolMessage: "tool",
}
REMEMBERED = 32 * 1024 * 1024
ONE_IN_A_LIST = 1


class _Named(msgspec.Struct, array_like=True):
    """How an object of some type begins."""

    module: str
    name: str


_begins = msgspec.msgpack.Decoder(_Named).decode


class _Refused(Exception):
    """Why bytes are not read. What an extension hook raises is lost, so it is kept beside it."""


def _said(values: Sequence[Any]) -> bytes | None:
    """All that some messages say, one after another; None if others than the messages of a chat are there.

    The encoding of one value is never the beginning of another's, so if one list's begins with another's,
    the list does.
    """
    fields = [
        value.__dict__
        for value in values
        if type(value) in MESSAGES
        and not value.__pydantic_extra__
        and value.__dict__["type"] == SPEAKERS[type(value)]
    ]
    if len(fields) != len(values):
        return None
    try:
        packed = ormsgpack.packb(fields, None, PLAIN)
    except (TypeError, ValueError, RecursionError):
        return None
    return packed[1 if len(values) < 16 else 3 if len(values) < 1 << 16 else 5 :]


class Serializer(SerializerProtocol):
    """Encodes as LangGraph does; refuses types that nobody named, when it writes and when it reads."""

    def __init__(self, types: Iterable[type | Name] = ()) -> None:
        self._inner = jsonplus.JsonPlusSerializer(allowed_msgpack_modules=None)
        self._allowed = SAFE | named_by(types)
        self._kinds: dict[Name, Any] = {}
        self._memo: dict[bytes, bytes] = {}
        self._memo_size = 0
        self._lists: dict[str, tuple[bytes, list[bytes]]] = {}
        self._lists_size = 0

    def allowing(self, types: Iterable[type | Name]) -> "Serializer":
        """A serializer that knows some more types."""
        return Serializer([*self._allowed, *types])

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """A value as LangGraph's serializer writes it."""
        kind, data = self._inner.dumps_typed(obj)
        if kind == "msgpack":
            self.check(data, "value")
        return kind, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value behind what a serializer wrote."""
        kind, body = data
        return self.unpack(body) if kind == "msgpack" else self._inner.loads_typed(data)

    def pack(self, value: Any, where: str = "value") -> bytes:
        """A value's bytes. The types in it are not checked yet.

        Raises:
            InvalidValue: Something in it cannot be encoded.
        """
        try:
            return self._inner.dumps_typed([value])[1][ONE_IN_A_LIST:]
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(path=where, problem=str(error)) from error

    def pack_all(self, values: Sequence[Any], where: str, place: str = "") -> list[bytes]:
        """The bytes of each of some values.

        Most lists are the list that stood at the same ``place`` before, and some more. If the fields of
        all messages, encoded at once, begin with what they began with then, only the others are encoded.
        Nothing rests on which objects they are.
        """
        said = _said(values) if place else None
        if said is None:
            return self._pack_each(values, where)
        before, parts = self._lists.get(place, (b"", []))
        known = len(parts) if said.startswith(before) else 0
        packed = parts[:known] + self._pack_each(values[known:], where)
        self._lists_size += len(said) - len(before)
        if self._lists_size > REMEMBERED:
            self._lists.clear()
            self._lists_size = len(said)
        self._lists[place] = (said, packed)
        return packed

    def _pack_each(self, values: Sequence[Any], where: str) -> list[bytes]:
        """The bytes of each; those of a message are remembered by its encoded fields, which are quicker."""
        packed: list[bytes] = []
        for value in values:
            said = _said([value])
            found = self._memo.get(said) if said is not None else None
            if found is None:
                found = self.pack(value, where)
                if said is not None:
                    self._remember(said, found)
            packed.append(found)
        return packed

    def _remember(self, said: bytes, packed: bytes) -> None:
        if self._memo_size > REMEMBERED:
            self._memo.clear()
            self._memo_size = 0
        self._memo[said] = packed
        self._memo_size += len(said) + len(packed)

    def check(self, data: bytes, where: str) -> None:
        """Refuse bytes that hold a type nobody named.

        Raises:
            InvalidValue: They do; the error names the type.
        """
        reading = _Reading(self._checked)
        try:
            reading.unpack(data)
        except _Refused as refused:
            raise InvalidValue(path=where, problem=f"{refused}") from refused

    def unpack(self, data: bytes) -> Any:
        """The value behind some bytes.

        Raises:
            InvalidArgument: They hold a type nobody named, or one that cannot be made any more.
        """
        try:
            return _Reading(self._made).unpack(data)
        except _Refused as refused:
            raise InvalidArgument(problem=f"A checkpoint cannot be read: {refused}.") from refused

    def _checked(self, code: int, reading: "_Reading", data: bytes) -> None:
        if code not in (jsonplus.EXT_NUMPY_ARRAY, jsonplus.EXT_DELTA_SNAPSHOT):
            beginning = _begins(data)
            self._check_name((beginning.module, beginning.name))
        reading.unpack(data)

    def _check_name(self, name: Name) -> Name:
        if name not in self._allowed:
            raise _Refused(
                f"the type {'.'.join(name)} is not known; name it, or the state's schema that mentions it: "
                f"Checkpointer(db, types=[{name[1]}])"
            )
        return name

    def _made(self, code: int, reading: "_Reading", data: bytes) -> Any:
        parts = reading.unpack(data)
        if code == jsonplus.EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(parts)
        if code == jsonplus.EXT_NUMPY_ARRAY:
            return _array(*parts)
        name = self._check_name((parts[0], parts[1]))
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = getattr(importlib.import_module(name[0]), name[1])
        return _construct(code, kind, parts)


class _Reading:
    """One reading of bytes, which may hold extensions within extensions."""

    def __init__(self, make: Callable[[int, "_Reading", bytes], Any]) -> None:
        self._make = make
        self._problem: str | None = None

    def unpack(self, data: bytes) -> Any:
        """The value behind the bytes, its extensions made."""
        try:
            return ormsgpack.unpackb(data, ext_hook=self._hook, option=ormsgpack.OPT_NON_STR_KEYS)
        except ValueError as error:
            raise _Refused(self._problem or str(error)) from error

    def _hook(self, code: int, data: bytes) -> Any:
        try:
            return self._make(code, self, data)
        except Exception as error:  # the unpacker forgets what its hook raised; the reason is kept here
            self._problem = self._problem or (
                str(error) if isinstance(error, _Refused) else f"{type(error).__name__}: {error}"
            )
            raise


def _construct(code: int, kind: Any, parts: Any) -> Any:
    """An object made again from what was written of it."""
    given = parts[2]
    match code:
        case jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG:
            return kind(given)
        case jsonplus.EXT_CONSTRUCTOR_POS_ARGS:
            return kind(*given[:2], timeout=given[2]) if _is_timed_send(parts) else kind(*given)
        case jsonplus.EXT_CONSTRUCTOR_KW_ARGS:
            return kind(**given)
        case jsonplus.EXT_METHOD_SINGLE_ARG:
            if (parts[0], parts[1], parts[3]) not in SAFE_METHODS:
                raise _Refused(f"the method {parts[1]}.{parts[3]} is not known")
            return getattr(kind, parts[3])(given)
        case jsonplus.EXT_PYDANTIC_V1 | jsonplus.EXT_PYDANTIC_V2:
            return _model(kind, given)
        case _:
            raise _Refused(f"extension {code} is not known")


def _is_timed_send(parts: Any) -> bool:
    return (parts[0], parts[1]) == ("langgraph.types", "Send") and len(parts[2]) == 3


def _model(kind: Any, given: dict[str, Any]) -> Any:
    """A pydantic model; the fields of a chat's message were valid when written, and are not checked twice."""
    if MESSAGES.get(kind) == given.keys() and not _has_calls_to_parse(given):
        message = kind.__new__(kind)
        object.__setattr__(message, "__dict__", given)
        object.__setattr__(message, "__pydantic_fields_set__", set(given))
        object.__setattr__(message, "__pydantic_extra__", {})
        object.__setattr__(message, "__pydantic_private__", None)
        return message
    try:
        return kind(**given)
    except ValueError:  # it was changed after it was validated; LangGraph reads it back as it was, too
        return (kind.model_construct if hasattr(kind, "model_construct") else kind.construct)(**given)


def _has_calls_to_parse(given: dict[str, Any]) -> bool:
    """Whether a message has tool calls that only its validator would find."""
    return "tool_calls" in given["additional_kwargs"] and not given.get("tool_calls")


def _array(dtype: str, shape: list[int], order: Any, data: bytes) -> Any:
    numpy = importlib.import_module("numpy")  # there if an array was ever written
    return numpy.frombuffer(data, dtype=numpy.dtype(dtype)).reshape(shape, order=order)


class Sealing:
    """How bodies go to the store: as they are, or encrypted by the cipher of LangGraph's serializer."""

    def __init__(self, cipher: CipherProtocol | None = None) -> None:
        self._cipher = cipher

    def seal(self, data: bytes) -> tuple[str, bytes]:
        """The name of the codec, and what to store."""
        if self._cipher is None:
            return "msgpack", data
        name, sealed = self._cipher.encrypt(data)
        return f"msgpack+{name}", sealed

    def open(self, codec: str, data: bytes) -> bytes:
        """What was sealed.

        Raises:
            InvalidArgument: It was not sealed, but everything here has to be; or we have no key.
        """
        _, _, name = codec.partition("+")
        if self._cipher is None and not name:
            return data
        if self._cipher is None or not name:
            given = "no cipher was given" if name else "a cipher was given"
            raise InvalidArgument(problem=f"A checkpoint is stored as {codec!r}, but {given}.")
        return self._cipher.decrypt(name, data)


def parts_of_serde(
    serde: SerializerProtocol | None, types: Iterable[type | Name]
) -> tuple[Serializer, Sealing]:
    """Our serializer and sealing for the serializer that the caller would have used.

    Raises:
        InvalidArgument: It would use pickle, or is of a kind whose bytes say nothing.
    """
    cipher = serde.cipher if isinstance(serde, EncryptedSerializer) else None
    inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
    if isinstance(inner, Serializer):
        return inner.allowing(types), Sealing(cipher)
    if inner is not None and not isinstance(inner, jsonplus.JsonPlusSerializer):
        raise InvalidArgument(problem=f"{type(inner).__name__} is not a serializer that can be checked.")
    if inner is not None and inner.pickle_fallback:
        raise InvalidArgument(problem="Clew never pickles. Use a serializer without pickle_fallback.")
    listed = getattr(inner, "_allowed_msgpack_modules", None)
    return Serializer([*types, *(listed if isinstance(listed, set) else ())]), Sealing(cipher)
