"""Values as bytes and back: LangGraph's own encoding, without guessing types and without pickle."""

import importlib
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec
import ormsgpack
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import _msgpack_default
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from clew.adapters.langgraph.unresolved_value import WRAPPER, UnresolvedValue
from clew.core.errors import InvalidArgument, InvalidValue

logger = logging.getLogger(__name__)

TypeName: TypeAlias = tuple[str, ...]
"""A type by its module and its name."""

SAFE_TYPES: frozenset[TypeName] = SAFE_MSGPACK_TYPES | {
    ("langchain_core.agents", name)
    for name in ("AgentAction", "AgentActionMessageLog", "AgentFinish", "AgentStep")
}
"""LangGraph's list of types that are data and nothing else, and LangChain's own of agents."""

SAFE_METHODS: frozenset[tuple[str, str, str]] = SAFE_MSGPACK_METHODS


def type_names(types: Iterable[type | TypeName]) -> frozenset[TypeName]:
    """The types given, and every type that their fields mention."""
    names: set[TypeName] = set()
    visited_ids: set[int] = set()
    for type_or_name in types:
        if isinstance(type_or_name, tuple):
            names.add(type_or_name)
        else:
            _collect_names(type_or_name, names, visited_ids)
    return frozenset(names)


def _collect_names(type_: Any, names: set[TypeName], visited_ids: set[int]) -> None:
    if id(type_) in visited_ids:
        return
    visited_ids.add(id(type_))
    for part in get_args(type_):
        _collect_names(part, names, visited_ids)
    if isinstance(type_, type) and type_.__module__ not in ("builtins", "typing"):
        names.add((type_.__module__, type_.__name__))
        for field in _field_types(type_):
            _collect_names(field, names, visited_ids)


def _field_types(type_: type) -> Iterable[Any]:
    try:
        return list(get_type_hints(type_, include_extras=True).values())
    except (NameError, TypeError):  # an annotation that cannot be resolved names nothing
        return []


PACK_OPTIONS = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
MESSAGE_FIELDS: dict[type, frozenset[str]] = {
    kind: frozenset(kind.model_fields) for kind in (HumanMessage, AIMessage, SystemMessage, ToolMessage)
}
"""The messages of every chat, whose fields are all that they say."""

STRETCH = 64
"""The number of messages that are compared at once; in long lists the encoder moves what it has made."""

MEMO_BYTES = 32 * 1024 * 1024
LIST_HEADER_BYTES = 1


class _TypeHeader(msgspec.Struct, array_like=True):
    """The beginning of an encoded object of some type."""

    module: str
    name: str


_decode_type_header = msgspec.msgpack.Decoder(_TypeHeader).decode


class _ReadRefusal(Exception):
    """The reason why bytes are not read. What an extension hook raises is lost, so it is stored beside it."""


_fields_of = attrgetter("__dict__")
_extra_fields_of = attrgetter("__pydantic_extra__")


class _MessageContent(msgspec.Struct, frozen=True):
    """All that some messages say, one after another: messages of equal content are encoded alike."""

    types: list[type]
    fields: bytes

    def begins_with(self, other: "_MessageContent") -> bool:
        """Return whether the first messages say what the other ones say.

        The encoding of one value is never the beginning of another's, so the bytes tell it.
        """
        return self.fields.startswith(other.fields) and self.types[: len(other.types)] == other.types


def _message_content(values: Sequence[Any]) -> _MessageContent | None:
    """The content of some messages; None if others than the messages of a chat are there."""
    types = list(map(type, values))
    if not MESSAGE_FIELDS.keys() >= set(types) or any(map(_extra_fields_of, values)):
        return None
    try:
        data = ormsgpack.packb(list(map(_fields_of, values)), None, PACK_OPTIONS)
    except (TypeError, ValueError, RecursionError):
        return None
    return _MessageContent(types, data[1 if len(values) < 16 else 3 :])  # without the header of the list


class _EncodedStretch(msgspec.Struct, frozen=True):
    """Some messages that follow each other in a list: their content, and the bytes of each."""

    content: _MessageContent
    parts: list[bytes]


class Serializer(SerializerProtocol):
    """Encodes as LangGraph does, and makes only values of types that are safe or were named.

    Other types are stored too, as in LangGraph's strict mode, and read back as their data. A type that could
    not be found again by its name is refused when it is written.
    """

    def __init__(self, types: Iterable[type | TypeName] = ()) -> None:
        self._inner = jsonplus.JsonPlusSerializer(allowed_msgpack_modules=None)
        self._types = SAFE_TYPES | type_names(types)
        self._classes: dict[TypeName, Any] = {}
        self._reported: set[TypeName] = set()
        self._memo: dict[tuple[type, bytes], bytes] = {}
        self._memo_size = 0
        self._lists: dict[str, list[_EncodedStretch]] = {}
        self._lists_size = 0

    def with_types(self, types: Iterable[type | TypeName]) -> "Serializer":
        """A serializer that knows some more types."""
        return Serializer([*self._types, *types])

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """A value as LangGraph's serializer writes it."""
        kind, data = self._inner.dumps_typed(obj)
        if kind == "msgpack":
            self.check_types(data, "value")
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
            return ormsgpack.packb([value], _pack_default, PACK_OPTIONS)[LIST_HEADER_BYTES:]
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(path=where, problem=str(error)) from error

    def pack_all(self, values: Sequence[Any], where: str, place: str = "") -> list[bytes]:
        """The bytes of each of some values.

        Most lists are the list that stood at the same ``place`` before, and some more. So the fields of
        messages are encoded some at a time, which is quick, and where they are what they were then, so are
        the bytes. Nothing rests on which objects they are.
        """
        if not place:
            return self._pack_each(values, where)
        old = self._lists.get(place, [])
        stretches: list[_EncodedStretch] = []
        result: list[bytes] = []
        for number, first in enumerate(range(0, len(values), STRETCH)):
            some = values[first : first + STRETCH]
            content = _message_content(some)
            if content is None:
                return result + self._pack_each(values[first:], where)
            parts = (
                old[number].parts if number < len(old) and content.begins_with(old[number].content) else []
            )
            if len(parts) < len(some):
                parts = parts + self._pack_each(some[len(parts) :], where)
            stretches.append(_EncodedStretch(content, parts))
            result += parts
        self._keep_list(place, stretches, _bytes_of(stretches) - _bytes_of(old))
        return result

    def _keep_list(self, place: str, stretches: list[_EncodedStretch], growth: int) -> None:
        self._lists_size += growth
        if self._lists_size > MEMO_BYTES:
            self._lists.clear()
            self._lists_size = _bytes_of(stretches)
        self._lists[place] = stretches

    def _pack_each(self, values: Sequence[Any], where: str) -> list[bytes]:
        """The bytes of each; those of a message are remembered by its encoded fields, which are quicker."""
        result: list[bytes] = []
        for value in values:
            content = _message_content([value])
            key = None if content is None else (content.types[0], content.fields)
            data = self._memo.get(key) if key is not None else None
            if data is None:
                data = self.pack(value, where)
                if key is not None:
                    self._memoize(key, data)
            result.append(data)
        return result

    def _memoize(self, key: tuple[type, bytes], data: bytes) -> None:
        if self._memo_size > MEMO_BYTES:
            self._memo.clear()
            self._memo_size = 0
        self._memo[key] = data
        self._memo_size += len(key[1]) + len(data)

    def check_types(self, data: bytes, where: str) -> None:
        """Refuse bytes that hold a type which would not be found again by its name.

        Raises:
            InvalidValue: They do; the error names the type.
        """
        reader = _ExtensionReader(self._check_extension)
        try:
            reader.unpack(data)
        except _ReadRefusal as refusal:
            raise InvalidValue(path=where, problem=f"{refusal}") from refusal

    def unpack(self, data: bytes, unresolved: set[TypeName] | None = None) -> Any:
        """The value behind some bytes. ``unresolved`` collects the types that are left as their data.

        Raises:
            InvalidArgument: They are not what a serializer writes.
        """
        reader = _ExtensionReader(self._make_extension, unresolved)
        try:
            return reader.unpack(data)
        except _ReadRefusal as refusal:
            raise InvalidArgument(problem=f"A checkpoint cannot be read: {refusal}.") from refusal

    def _check_extension(self, code: int, reader: "_ExtensionReader", data: bytes) -> None:
        if code not in (jsonplus.EXT_NUMPY_ARRAY, jsonplus.EXT_DELTA_SNAPSHOT):
            header = _decode_type_header(data)
            self._check_type((header.module, header.name))
        reader.unpack(data)

    def _check_type(self, name: TypeName) -> None:
        """Refuse a type that has no name of its own in its module; one that was stored before may stay."""
        if name in SAFE_TYPES or name in self._reported or name == WRAPPER:
            return
        if not hasattr(sys.modules.get(name[0]), name[1]):
            raise _ReadRefusal(
                f"the type {'.'.join(name)} would not be found when it is read; "
                "define it at the top level of its module"
            )
        if name not in self._types:
            self._report(
                name,
                "The type %s is stored, but nobody named it: it will be read back as its data. "
                "Name it, or the state's schema that mentions it: Checkpointer(db, types=[%s])",
                name[1],
            )

    def _make_extension(self, code: int, reader: "_ExtensionReader", data: bytes) -> Any:
        parts = reader.unpack(data)
        if code == jsonplus.EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(parts)
        if code == jsonplus.EXT_NUMPY_ARRAY:
            return _make_array(*parts)
        name = (str(parts[0]), str(parts[1]))
        if name == WRAPPER:
            return self._make_extension(parts[2]["code"], reader, parts[2]["data"])
        try:
            return _construct(code, self._class(name), parts)
        except Exception as error:  # noqa: BLE001 - whatever a constructor raises, the data are there
            reader.unresolved.add(name)
            self._report(name, "A value of type %s is left as its data: %s", _reason(error))
            return UnresolvedValue(code, data, name, parts[2])

    def _class(self, name: TypeName) -> Any:
        """The class of that name, if it may be made.

        Raises:
            _ReadRefusal: Nobody named it, or it is not there.
        """
        if name not in self._types:
            raise _ReadRefusal("nobody named it")
        kind = self._classes.get(name)
        if kind is None:
            kind = self._classes[name] = getattr(importlib.import_module(name[0]), name[1])
        return kind

    def _report(self, name: TypeName, message: str, detail: str) -> None:
        """Log something about a type, once."""
        if name not in self._reported:
            self._reported.add(name)
            logger.warning(message, ".".join(name), detail)


def _bytes_of(stretches: Sequence[_EncodedStretch]) -> int:
    return sum(len(stretch.content.fields) for stretch in stretches)


class DataSerializer(Serializer):
    """A serializer that makes no type at all: what was stored stays data, and is stored again as it was."""

    def __init__(self) -> None:
        super().__init__()
        self._types = frozenset()

    def _report(self, name: TypeName, message: str, detail: str) -> None:
        self._reported.add(name)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, _ReadRefusal) else f"{type(error).__name__}: {error}"


def _pack_default(value: Any) -> Any:
    """Encode a value as LangGraph's serializer does; one that was left as its data is stored as it was."""
    return value.extension() if isinstance(value, UnresolvedValue) else _msgpack_default(value)


class _ExtensionReader:
    """One reading of bytes, which may hold extensions within extensions."""

    def __init__(
        self,
        make: Callable[[int, "_ExtensionReader", bytes], Any],
        unresolved: set[TypeName] | None = None,
    ) -> None:
        self.unresolved = set() if unresolved is None else unresolved
        self._make = make
        self._problem: str | None = None

    def unpack(self, data: bytes) -> Any:
        """The value behind the bytes, its extensions made."""
        try:
            return ormsgpack.unpackb(data, ext_hook=self._hook, option=ormsgpack.OPT_NON_STR_KEYS)
        except ValueError as error:
            raise _ReadRefusal(self._problem or str(error)) from error

    def _hook(self, code: int, data: bytes) -> Any:
        try:
            return self._make(code, self, data)
        except Exception as error:  # the unpacker forgets what its hook raised; the reason is kept here
            self._problem = self._problem or _reason(error)
            raise


def _construct(code: int, kind: Any, parts: Any) -> Any:
    """An object made again from what was written of it."""
    arguments = parts[2]
    match code:
        case jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG:
            return kind(arguments)
        case jsonplus.EXT_CONSTRUCTOR_POS_ARGS:
            return kind(*arguments[:2], timeout=arguments[2]) if _is_timed_send(parts) else kind(*arguments)
        case jsonplus.EXT_CONSTRUCTOR_KW_ARGS:
            return kind(**arguments)
        case jsonplus.EXT_METHOD_SINGLE_ARG:
            if (parts[0], parts[1], parts[3]) not in SAFE_METHODS:
                raise _ReadRefusal(f"the method {parts[1]}.{parts[3]} is not known")
            return getattr(kind, parts[3])(arguments)
        case jsonplus.EXT_PYDANTIC_V1 | jsonplus.EXT_PYDANTIC_V2:
            return _make_model(kind, arguments)
        case _:
            raise _ReadRefusal(f"extension {code} is not known")


def _is_timed_send(parts: Any) -> bool:
    return (parts[0], parts[1]) == ("langgraph.types", "Send") and len(parts[2]) == 3


def _make_model(kind: Any, fields: dict[str, Any]) -> Any:
    """A pydantic model; the fields of a chat's message were valid when written, and are not checked twice."""
    if MESSAGE_FIELDS.get(kind) == fields.keys() and not _has_calls_to_parse(fields):
        message = kind.__new__(kind)
        object.__setattr__(message, "__dict__", fields)
        object.__setattr__(message, "__pydantic_fields_set__", set(fields))
        object.__setattr__(message, "__pydantic_extra__", {})
        object.__setattr__(message, "__pydantic_private__", None)
        return message
    try:
        return kind(**fields)
    except ValueError:  # it was changed after it was validated; LangGraph reads it back as it was, too
        return (kind.model_construct if hasattr(kind, "model_construct") else kind.construct)(**fields)


def _has_calls_to_parse(fields: dict[str, Any]) -> bool:
    """Return whether a message has tool calls that only its validator would find."""
    return "tool_calls" in fields["additional_kwargs"] and not fields.get("tool_calls")


def _make_array(dtype: str, shape: list[int], order: Any, data: bytes) -> Any:
    numpy = importlib.import_module("numpy")  # there if an array was ever written
    return numpy.frombuffer(data, dtype=numpy.dtype(dtype)).reshape(shape, order=order)


class BodyCipher:
    """The encoding of bodies for the store: plain, or encrypted by the cipher of LangGraph's serializer."""

    def __init__(self, cipher: CipherProtocol | None = None) -> None:
        self._cipher = cipher

    def seal(self, data: bytes) -> tuple[str, bytes]:
        """The name of the codec, and what to store."""
        if self._cipher is None:
            return "msgpack", data
        name, body = self._cipher.encrypt(data)
        return f"msgpack+{name}", body

    def unseal(self, codec: str, data: bytes) -> bytes:
        """The plain body of a sealed one.

        Raises:
            InvalidArgument: It was not sealed, but everything here has to be; or we have no key.
        """
        _, _, name = codec.partition("+")
        if self._cipher is None and not name:
            return data
        if self._cipher is None or not name:
            reason = "no cipher was given" if name else "a cipher was given"
            raise InvalidArgument(problem=f"A checkpoint is stored as {codec!r}, but {reason}.")
        return self._cipher.decrypt(name, data)


def split_serde(
    serde: SerializerProtocol | None, types: Iterable[type | TypeName]
) -> tuple[Serializer, BodyCipher]:
    """Our serializer and sealing for the serializer that the caller would have used.

    Raises:
        InvalidArgument: It would use pickle, or is of a kind whose bytes say nothing.
    """
    cipher = serde.cipher if isinstance(serde, EncryptedSerializer) else None
    inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
    if isinstance(inner, Serializer):
        return inner.with_types(types), BodyCipher(cipher)
    if inner is not None and not isinstance(inner, jsonplus.JsonPlusSerializer):
        raise InvalidArgument(problem=f"{type(inner).__name__} is not a serializer that can be checked.")
    if inner is not None and inner.pickle_fallback:
        raise InvalidArgument(problem="Clew never pickles. Use a serializer without pickle_fallback.")
    allowlist = getattr(inner, "_allowed_msgpack_modules", None)
    return Serializer([*types, *(allowlist if isinstance(allowlist, set) else ())]), BodyCipher(cipher)
