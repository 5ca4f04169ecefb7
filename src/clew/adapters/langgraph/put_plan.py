"""What a put will write: decided here, on the parent's values and on how far the logs reach. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec
from langchain_core.messages import BaseMessage

from clew.adapters.langgraph.chunks import FRESH, Chunk, lay, reused
from clew.adapters.langgraph.layout import (
    CHECKPOINTS,
    DELTA,
    FORMAT,
    LAYOUT,
    LIST,
    MAP,
    MESSAGE_FORMAT,
    Entry,
    Placed,
    Stored,
    Version,
    encode,
    is_small,
    key_of,
    log_of,
    message_at,
    role_of,
    split,
)
from clew.adapters.langgraph.serializer import Sealing, Serializer
from clew.adapters.langgraph.value_cache import Before
from clew.core.values import Item


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to put. ``parts`` fills up with its encoded values, so that a second try is cheap."""

    namespace: str
    parent: str | None
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    changed: Mapping[str, Version]
    parts: dict[str, tuple[int, list[bytes]]] = {}

    @property
    def key(self) -> str:
        """The name of the checkpoint within its thread."""
        return key_of(self.namespace, self.checkpoint["id"])


class Draft(msgspec.Struct, frozen=True):
    """The items of a put, the values it stands on, and how far the logs reach after it."""

    items: list[Item]
    values: dict[str, Stored]
    ends: dict[str, int]


def draft(
    serializer: Serializer, sealing: Sealing, asked: Asked, before: Before, ends: dict[str, int]
) -> Draft:
    """Everything that a put writes.

    Raises:
        InvalidValue: A value cannot be encoded, or holds a type nobody named.
    """
    plan = Draft(items=[], values={}, ends=dict(ends))
    given: Mapping[str, Any] = asked.checkpoint["channel_values"]
    for channel, version in asked.checkpoint["channel_versions"].items():
        old = before.values.get(channel)
        if channel not in asked.changed and before.versions.get(channel) == version:
            if old is not None:
                plan.values[channel] = old
        elif channel in given:
            plan.values[channel] = _stored(serializer, sealing, asked, channel, old, plan)
    plan.items.append(_entry(serializer, sealing, asked, plan.values))
    return plan


def _stored(
    serializer: Serializer, sealing: Sealing, asked: Asked, channel: str, old: Stored | None, plan: Draft
) -> Stored:
    """A channel's value; its new parts join the items of the plan."""
    value, where = asked.checkpoint["channel_values"][channel], f"channel {channel!r}"
    if channel not in asked.parts:
        asked.parts[channel] = split(serializer, value, where)
    shape, parts = asked.parts[channel]
    if is_small(parts):
        for part in parts:
            _check(serializer, shape, part, where)
        return Stored(placed=Placed(shape=shape, inline=parts), parts=parts, addresses=[], size=0)
    log = log_of(channel, asked.namespace)
    known, weight = _shared(old, shape, log, parts)
    apart = message_at(value, -1) is not None
    laid = lay(parts, known, weight, plan.ends.get(log, 0), apart=apart)
    for chunk in laid.chunks:
        for part in chunk.parts:
            _check(serializer, shape, part, where)
        plan.items.append(_item(sealing, log, chunk, message_at(value, chunk.first) if apart else None))
    plan.ends[log] = plan.ends.get(log, 0) + len(laid.chunks)
    placed = Placed(shape=shape, log=log, runs=laid.runs, weight=laid.weight)
    return Stored(placed=placed, parts=parts, addresses=laid.addresses, size=sum(map(len, parts)))


def _shared(old: Stored | None, shape: int, log: str, parts: list[bytes]) -> tuple[list[int], int]:
    """Where the parts stand already, as far as the parent has them in the same log."""
    alike = old is not None and (old.placed.shape == shape or {old.placed.shape, shape} == {LIST, DELTA})
    if old is None or not alike or old.placed.inline is not None or old.placed.log != log:
        return [FRESH] * len(parts), 0
    return reused(old.parts, old.addresses, parts), old.placed.weight


def _check(serializer: Serializer, shape: int, part: bytes, where: str) -> None:
    serializer.check(b"\x81" + part if shape == MAP else part, where)


def _item(sealing: Sealing, log: str, chunk: Chunk, message: BaseMessage | None) -> Item:
    if message is None:
        codec, body = sealing.seal(encode(chunk.parts))
        return Item(body=body, codec=codec, log=log, kind="chunk", format=FORMAT)
    codec, body = sealing.seal(chunk.parts[0])
    return Item(body=body, codec=codec, log=log, role=role_of(message), format=MESSAGE_FORMAT)


def _entry(serializer: Serializer, sealing: Sealing, asked: Asked, values: Mapping[str, Stored]) -> Item:
    head = {name: part for name, part in asked.checkpoint.items() if name != "channel_values"}
    checkpoint, metadata = serializer.pack(head, "checkpoint"), serializer.pack(asked.metadata, "metadata")
    serializer.check(checkpoint, "checkpoint")
    serializer.check(metadata, "metadata")
    entry = Entry(
        layout=LAYOUT,
        namespace=asked.namespace,
        id=asked.checkpoint["id"],
        parent=asked.parent,
        checkpoint=checkpoint,
        metadata=metadata,
        channels={channel: value.placed for channel, value in values.items()},
    )
    codec, body = sealing.seal(encode(entry))
    return Item(body=body, codec=codec, log=CHECKPOINTS, kind="checkpoint", format=FORMAT, id=asked.key)
