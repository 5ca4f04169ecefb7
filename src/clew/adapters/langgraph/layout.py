"""The layout of checkpoints and writes in a thread: names, entries and the parts of values. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from clew.adapters.langgraph.chunks import AddressRun
from clew.adapters.langgraph.serializer import Serializer, TypeName
from clew.adapters.langgraph.unresolved_value import UnresolvedValue
from clew.core.encoding import check_id
from clew.core.errors import InvalidId
from clew.core.values import HISTORY

FORMAT: Final = "langgraph"
MESSAGE_FORMAT: Final = "langchain"
CHECKPOINTS: Final = "checkpoints"
WRITES: Final = "writes"
LAYOUT: Final = 1
INLINE_BYTES: Final = 64
MESSAGE_MODULES: Final = "langchain_core.messages."
ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}

ONE, LIST, MAP, DELTA, BYTEARRAY = range(5)
"""The shapes of values: one part; a list; a dictionary; a delta channel's snapshot of a list; a bytearray."""

ChannelVersion: TypeAlias = str | int | float


class ValueLocation(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The location of a channel's value: inline if it is small, else in runs of a log."""

    shape: int
    inline: list[bytes] | None = None
    log: str = ""
    runs: list[AddressRun] = []
    weight: int = 0


class CheckpointEntry(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint as stored, its values apart."""

    layout: int
    namespace: str
    id: str
    parent: str | None
    checkpoint: bytes
    metadata: bytes
    channels: dict[str, ValueLocation]


class TaskWrites(msgspec.Struct, frozen=True, array_like=True):
    """The writes of one task, as stored: index, channel and value of each."""

    task: str
    path: str
    writes: list[tuple[int, str, bytes]]


class ChannelValue(msgspec.Struct, frozen=True):
    """A channel's value with its parts at hand."""

    location: ValueLocation
    parts: list[bytes]
    addresses: list[int]
    size: int


encode = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(CheckpointEntry).decode
decode_task_writes = msgspec.msgpack.Decoder(TaskWrites).decode
decode_chunk = msgspec.msgpack.Decoder(list[bytes]).decode
decode_names = msgspec.msgpack.Decoder(list[str]).decode


# Names.


def digest(*names: str) -> str:
    """A short name for some long ones."""
    return sha256(encode(names)).hexdigest()[:24]


def checkpoint_key(namespace: str, id: str) -> str:
    """The name of a checkpoint within its thread."""
    return f"{id} {digest(namespace)}" if namespace else id


def writes_name(key: str) -> str:
    """The name that all writes of a checkpoint share."""
    return f"writes {key}"


def channel_log(channel: str, namespace: str) -> str:
    """The log that keeps a channel's parts; the chat of the outermost graph is the thread's history."""
    if channel == "messages" and not namespace:
        return HISTORY
    name = f"{'sub' if namespace else 'channel'} {channel}"
    try:
        return check_id(name, "log name")
    except InvalidId:
        return f"channel {digest(name)}"


# Values and their parts.


def split_value(serializer: Serializer, value: Any, where: str, place: str = "") -> tuple[int, list[bytes]]:
    """The shape of a value, and its encoded parts; ``place`` says where the value before it stood."""
    if type(value) is list:
        return LIST, serializer.pack_all(value, where, place)
    if type(value) is dict:
        return MAP, [serializer.pack({key: part}, where)[1:] for key, part in value.items()]
    if isinstance(value, _DeltaSnapshot) and type(value.value) is list:
        return DELTA, serializer.pack_all(value.value, where, place)
    if type(value) is bytearray:
        return BYTEARRAY, [serializer.pack(bytes(value), where)]
    return ONE, [serializer.pack(value, where)]


def join_value(
    serializer: Serializer, shape: int, parts: Sequence[bytes], unresolved: set[TypeName] | None = None
) -> Any:
    """The value that was split into these parts; ``unresolved`` collects types left as their data."""
    if shape in (LIST, DELTA):
        value = serializer.unpack(_container_header(0xDD, len(parts)) + b"".join(parts), unresolved)
        return value if shape == LIST else _DeltaSnapshot(value)
    if shape == MAP:
        return serializer.unpack(_container_header(0xDF, len(parts)) + b"".join(parts), unresolved)
    value = serializer.unpack(parts[0], unresolved)
    return bytearray(value) if shape == BYTEARRAY else value


def _container_header(code: int, length: int) -> bytes:
    return bytes((code,)) + length.to_bytes(4, "big")


def is_small(parts: Sequence[bytes]) -> bool:
    """Return whether a value is kept with its checkpoint."""
    return len(parts) <= INLINE_BYTES and sum(map(len, parts)) + len(parts) <= INLINE_BYTES


def role_at(value: Any, index: int) -> str | None:
    """The role of an element of a value in Clew's words, if it is a message."""
    parts = value.value if isinstance(value, _DeltaSnapshot) else value
    part = parts[index] if type(parts) is list and parts else None
    if isinstance(part, BaseMessage):
        return ROLES.get(part.type, part.type)
    if isinstance(part, UnresolvedValue) and part.type_name[0].startswith(MESSAGE_MODULES):
        type_ = part.get("type", "")
        return ROLES.get(type_, str(type_))
    return None


def log_stretches(locations: Iterable[ValueLocation]) -> Mapping[str, list[tuple[int, int]]]:
    """The stretches of logs that hold some values; stretches that lie close are one."""
    stretches: dict[str, list[tuple[int, int]]] = {}
    for location in locations:
        stretches.setdefault(location.log, []).extend((run[0], run[2]) for run in location.runs)
    return {log: _join_close(sorted(spans)) for log, spans in stretches.items() if spans}


def _join_close(stretches: list[tuple[int, int]], gap: int = 32) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for first, last in stretches:
        if result and first <= result[-1][1] + gap:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


def unused_stretches(
    hidden: Iterable[CheckpointEntry], kept: Iterable[CheckpointEntry]
) -> list[tuple[str, int, int]]:
    """The stretches of logs that hidden checkpoints have values in, and none of those kept."""
    unused, used = _items_by_log(hidden), _items_by_log(kept)
    stretches: list[tuple[str, int, int]] = []
    for log, items in unused.items():
        for number in sorted(items - used.get(log, set())):
            if stretches and stretches[-1][0] == log and stretches[-1][2] == number - 1:
                stretches[-1] = (log, stretches[-1][1], number)
            else:
                stretches.append((log, number, number))
    return stretches


def _items_by_log(entries: Iterable[CheckpointEntry]) -> dict[str, set[int]]:
    items: dict[str, set[int]] = {}
    for entry in entries:
        for location in entry.channels.values():
            for first, _, last, _ in location.runs:
                items.setdefault(location.log, set()).update(range(first, last + 1))
    return items
