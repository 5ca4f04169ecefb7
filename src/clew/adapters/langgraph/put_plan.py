"""The plan of a put: made from the parent's values and the lengths of the logs. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from clew.adapters.langgraph.chunks import FRESH, Chunk, lay_out_parts, reusable_addresses
from clew.adapters.langgraph.layout import (
    CHECKPOINTS,
    DELTA,
    FORMAT,
    LAYOUT,
    LIST,
    MAP,
    MESSAGE_FORMAT,
    ChannelValue,
    ChannelVersion,
    CheckpointEntry,
    ValueLocation,
    channel_log,
    checkpoint_key,
    encode,
    is_small,
    role_at,
    split_value,
)
from clew.adapters.langgraph.serializer import BodyCipher, Serializer
from clew.adapters.langgraph.value_cache import CheckpointValues
from clew.core.values import Item


class PutRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to put. ``parts`` fills up with its encoded values, so that a second try is cheap."""

    namespace: str
    parent: str | None
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    new_versions: Mapping[str, ChannelVersion]
    parts: dict[str, tuple[int, list[bytes]]] = {}

    @property
    def key(self) -> str:
        """The name of the checkpoint within its thread."""
        return checkpoint_key(self.namespace, self.checkpoint["id"])


class PutPlan(msgspec.Struct, frozen=True):
    """The items of a put, the values it builds on, and how far the logs reach after it."""

    items: list[Item]
    values: dict[str, ChannelValue]
    ends: dict[str, int]


def plan_put(
    serializer: Serializer,
    body_cipher: BodyCipher,
    request: PutRequest,
    parent: CheckpointValues,
    ends: dict[str, int],
) -> PutPlan:
    """Everything that a put writes.

    Raises:
        InvalidValue: A value cannot be encoded, or holds a type nobody named.
    """
    plan = PutPlan(items=[], values={}, ends=dict(ends))
    values: Mapping[str, Any] = request.checkpoint["channel_values"]
    for channel, version in request.checkpoint["channel_versions"].items():
        old = parent.values.get(channel)
        if channel not in request.new_versions and parent.versions.get(channel) == version:
            if old is not None:
                plan.values[channel] = old
        elif channel in values:
            plan.values[channel] = _plan_value(serializer, body_cipher, request, channel, old, plan)
    plan.items.append(_checkpoint_item(serializer, body_cipher, request, plan.values))
    return plan


def _plan_value(
    serializer: Serializer,
    body_cipher: BodyCipher,
    request: PutRequest,
    channel: str,
    old: ChannelValue | None,
    plan: PutPlan,
) -> ChannelValue:
    """A channel's value; its new parts join the items of the plan."""
    value, where = request.checkpoint["channel_values"][channel], f"channel {channel!r}"
    if channel not in request.parts:
        request.parts[channel] = split_value(serializer, value, where)
    shape, parts = request.parts[channel]
    if is_small(parts):
        for part in parts:
            _check_part(serializer, shape, part, where)
        return ChannelValue(
            location=ValueLocation(shape=shape, inline=parts), parts=parts, addresses=[], size=0
        )
    log = channel_log(channel, request.namespace)
    parent = old if old is not None and _has_parts_in(old, shape, log) else None
    addresses = reusable_addresses(parent.parts, parent.addresses, parts) if parent else [FRESH] * len(parts)
    # Most values are their parent's and some more: then nothing of the old parts is looked at again.
    is_longer = parent is not None and addresses[: len(parent.addresses)] == parent.addresses
    grown = parent if is_longer else None
    one_per_item = role_at(value, -1) is not None
    part_layout = lay_out_parts(
        parts,
        addresses,
        parent.location.weight if parent else 0,
        plan.ends.get(log, 0),
        one_per_item=one_per_item,
        old_runs=grown.location.runs if grown else (),
    )
    for chunk in part_layout.chunks:
        for part in chunk.parts:
            _check_part(serializer, shape, part, where)
        plan.items.append(
            _chunk_item(body_cipher, log, chunk, role_at(value, chunk.first) if one_per_item else None)
        )
    plan.ends[log] = plan.ends.get(log, 0) + len(part_layout.chunks)
    location = ValueLocation(shape=shape, log=log, runs=part_layout.runs, weight=part_layout.weight)
    size = grown.size + sum(map(len, parts[len(grown.parts) :])) if grown else sum(map(len, parts))
    return ChannelValue(location=location, parts=parts, addresses=part_layout.addresses, size=size)


def _has_parts_in(value: ChannelValue, shape: int, log: str) -> bool:
    """Return whether a value of that shape in that log could consist of the same parts."""
    location = value.location
    has_same_shape = location.shape == shape or {location.shape, shape} == {LIST, DELTA}
    return has_same_shape and location.inline is None and location.log == log


def _check_part(serializer: Serializer, shape: int, part: bytes, where: str) -> None:
    serializer.check_types(b"\x81" + part if shape == MAP else part, where)


def _chunk_item(body_cipher: BodyCipher, log: str, chunk: Chunk, role: str | None) -> Item:
    if role is None:
        codec, body = body_cipher.seal(encode(chunk.parts))
        return Item(body=body, codec=codec, log=log, kind="chunk", format=FORMAT)
    codec, body = body_cipher.seal(chunk.parts[0])
    return Item(body=body, codec=codec, log=log, role=role, format=MESSAGE_FORMAT)


def _checkpoint_item(
    serializer: Serializer, body_cipher: BodyCipher, request: PutRequest, values: Mapping[str, ChannelValue]
) -> Item:
    fields = {name: part for name, part in request.checkpoint.items() if name != "channel_values"}
    checkpoint, metadata = (
        serializer.pack(fields, "checkpoint"),
        serializer.pack(request.metadata, "metadata"),
    )
    serializer.check_types(checkpoint, "checkpoint")
    serializer.check_types(metadata, "metadata")
    entry = CheckpointEntry(
        layout=LAYOUT,
        namespace=request.namespace,
        id=request.checkpoint["id"],
        parent=request.parent,
        checkpoint=checkpoint,
        metadata=metadata,
        channels={channel: value.location for channel, value in values.items()},
    )
    codec, body = body_cipher.seal(encode(entry))
    return Item(body=body, codec=codec, log=CHECKPOINTS, kind="checkpoint", format=FORMAT, id=request.key)
