"""Moving what a run wrote behind what another run wrote meanwhile, as far as the two commute. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from clew.adapters.langgraph.layout import LIST, MAP, ChannelVersion
from clew.adapters.langgraph.value_cache import CheckpointValues

ShapedParts: TypeAlias = tuple[int, list[bytes]]
"""The shape of a value, and its encoded parts."""


class RebaseConflict(Exception):
    """Both runs changed a channel, and what they did to it does not commute."""

    def __init__(self, channel: str) -> None:
        super().__init__(channel)
        self.channel = channel


class RunRebase:
    """The rebase of one run: what it read, what is there now, and its own view since.

    LangGraph goes on with what the run has read, so each of its checkpoints is moved in the same way.
    """

    def __init__(self, base: CheckpointValues, head: CheckpointValues, head_id: str) -> None:
        self.head_id = head_id
        self.base = shaped_values(base)
        self.head = shaped_values(head)
        self.head_versions = head.versions
        self.own = dict(self.base)

    def own_values(
        self, versions: Mapping[str, ChannelVersion], changed: Iterable[str], parts: Mapping[str, ShapedParts]
    ) -> dict[str, ShapedParts]:
        """The run's own view at one more checkpoint: the channels that changed, and those it had."""
        gone = {channel for channel in changed if channel not in parts}
        values = {**self.own, **parts}
        return {channel: values[channel] for channel in values if channel in versions and channel not in gone}

    def merge(self, own: Mapping[str, ShapedParts]) -> dict[str, ShapedParts]:
        """The values to store for a view of the run.

        Raises:
            RebaseConflict: What both changed does not commute.
        """
        merged: dict[str, ShapedParts] = {}
        for channel in dict.fromkeys([*own, *self.head]):
            value = merge_values(channel, self.base.get(channel), self.head.get(channel), own.get(channel))
            if value is not None:
                merged[channel] = value
        return merged


def shaped_values(values: CheckpointValues) -> dict[str, ShapedParts]:
    """The values of a checkpoint, without their places."""
    return {channel: (value.location.shape, value.parts) for channel, value in values.values.items()}


def merge_values(
    channel: str, base: ShapedParts | None, head: ShapedParts | None, own: ShapedParts | None
) -> ShapedParts | None:
    """The value that has both changes: the one that changed it, or what both added to it.

    Raises:
        RebaseConflict: They do not commute.
    """
    if head == base or (is_routing(channel) and head is None):
        return own
    if own == base and not is_routing(channel):
        return head
    if own is None or head is None or own[0] != head[0] or (base is not None and base[0] != own[0]):
        raise RebaseConflict(channel)
    old = base[1] if base is not None else []
    if own[0] == LIST and _begins_with(own[1], old) and _begins_with(head[1], old):
        return LIST, [*head[1], *own[1][len(old) :]]
    if own[0] == MAP and (entries := _merge_entries(old, head[1], own[1])) is not None:
        return MAP, entries
    raise RebaseConflict(channel)


def is_routing(channel: str) -> bool:
    """Return whether a channel says which nodes are next, rather than what the state is."""
    return channel.startswith("__") or ":" in channel


def _begins_with(parts: Sequence[bytes], start: Sequence[bytes]) -> bool:
    return parts[: len(start)] == start


def _merge_entries(base: list[bytes], head: list[bytes], own: list[bytes]) -> list[bytes] | None:
    """The entries of a dictionary to which both have added or changed different keys."""
    old, theirs, ours = (_by_key(entries) for entries in (base, head, own))
    if old.keys() - theirs.keys() or old.keys() - ours.keys():
        return None
    changed = {key for key, entry in ours.items() if old.get(key) != entry}
    if any(old.get(key) != theirs.get(key) for key in changed):
        return None
    return list({**theirs, **{key: ours[key] for key in ours if key in changed}}.values())


def _by_key(entries: Sequence[bytes]) -> dict[bytes, bytes]:
    """Encoded entries by their encoded keys."""
    return {bytes(_decode_entry(b"\x92" + entry)[0]): entry for entry in entries}


_decode_entry = msgspec.msgpack.Decoder(tuple[msgspec.Raw, msgspec.Raw]).decode
