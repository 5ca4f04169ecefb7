"""The entries of logs: as items, and as the tails that a turn, and the next one, need not read again."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from clew.core.encoding import JSON, decode, encode
from clew.core.log.places import place_of
from clew.core.values import Changeset, Item, LogSize, Window
from clew.runtime.model.messages import THOUGHTS, Message, item_of, message_of
from clew.runtime.state.schema import Field

NO_VERSION = -1
"""The version of a reading that does not say at which version it was."""


def as_item(entry: Any, field: Field, by: str, run: str | None) -> Item:
    """Return the item of an entry.

    Raises:
        StateInvalid: It is no entry of this log.
    """
    if isinstance(entry, Item):
        return msgspec.structs.replace(entry, log=field.log, run=entry.run or run)
    if field.entry is not Message:
        return Item(log=field.log, kind="entry", body={"value": field.validate_entry(entry, by)}, run=run)
    if isinstance(entry, Message | Mapping):
        message = msgspec.convert(field.validate_entry(entry, by), Message)
        return item_of(msgspec.structs.replace(message, run=message.run or run), field.log)
    raise field.error(by, "its entries are messages")


def as_entries(items: Sequence[Item], field: Field) -> list[Any]:
    """Return the entries of items, as the log declares them."""
    kind = field.entry
    if kind is Message:
        return [message_of(item) for item in items]
    bodies = (item.body.get("value") if isinstance(item.body, dict) else item.body for item in items)
    return [msgspec.convert(body, kind, str_keys=True) for body in bodies]


def entry_key(item: Item) -> bytes:
    """Return what two items have in common that are one entry written twice: all but ids and stamps."""
    body = item.body
    if isinstance(body, dict):
        body = {key: value for key, value in body.items() if key not in ("meta", THOUGHTS)}
    return encode([item.role, item.kind, item.call, item.codec, body if item.codec == "json" else ""])


class ReadLog(Protocol):
    """Reads the newest items of a log, or all; ``whole`` also what is no longer visible."""

    def __call__(self, log: str, count: int | None, *, whole: bool = False) -> Awaitable[Sequence[Item]]:
        """The items, oldest first; a window says at which version they were read."""
        ...


ITEM_BYTES = 400
"""About what an item takes in memory beside its body."""


class TailEntry(msgspec.Struct, frozen=True):
    """An item of a tail as the store has it; ``body`` is its encoded body, if a reader could change that."""

    item: Item
    size: int
    body: bytes | None = None

    @classmethod
    def of(cls, item: Item, data: bytes | None = None) -> "TailEntry":
        """Return the entry of an item as the store has it; ``data`` is its encoded body, if that is known."""
        if item.codec != "json":
            return cls(item, ITEM_BYTES + len(item.body))
        data = encode(item.body) if data is None else data
        if _is_flat(item.body):
            return cls(item, ITEM_BYTES + len(data))
        return cls(msgspec.structs.replace(item, body=None), ITEM_BYTES + len(data), data)

    def copy(self) -> Item:
        """Return the item; its reader shares nothing that can be changed."""
        return self.item if self.body is None else msgspec.structs.replace(self.item, body=decode(self.body))


def _is_flat(body: JSON) -> bool:
    """Return whether nothing that is made of a body, such as a message, can change the body."""
    values = body.values() if isinstance(body, dict) else [body]
    return not any(isinstance(value, dict | list) for value in values)


class LogTail(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The newest items of a log at a version of its thread.

    ``limit`` is how many were asked for (None: all), ``is_whole`` says that the log has no others. ``size``
    is about the bytes that it takes in memory.
    """

    entries: tuple[TailEntry, ...]
    limit: int | None
    is_whole: bool
    version: int
    size: int

    def has_newest(self, count: int | None) -> bool:
        """Return whether it has so many: they are there, or there are no more in the log."""
        return self.is_whole or (count is not None and count <= len(self.entries))

    def newest(self, count: int | None) -> list[Item]:
        """Return copies of the newest items: an earlier reader may have changed those it got."""
        start = 0 if count is None else max(len(self.entries) - count, 0)
        return [entry.copy() for entry in self.entries[start:]]

    def extend(self, entries: Sequence[TailEntry], version: int) -> "LogTail":
        """Return the tail after a changeset that appended these and changed nothing else of the log."""
        every = (*self.entries, *entries)
        start = 0 if self.limit is None else max(len(every) - self.limit, 0)
        return LogTail(
            entries=every[start:],
            limit=self.limit,
            is_whole=self.is_whole and not start,
            version=version,
            size=self.size + _size_of(entries) - _size_of(every[:start]),
        )


def _size_of(entries: Sequence[TailEntry]) -> int:
    return sum([entry.size for entry in entries])


LogTails: TypeAlias = Mapping[tuple[str, bool], LogTail]
"""Tails by the name of the log, and by whether they have what is no longer visible."""


def tails_after(tails: LogTails, changes: Sequence[Changeset], sizes: Mapping[str, LogSize]) -> LogTails:
    """Return the tails of a thread after committed changesets, as a read would give them.

    ``sizes`` are those of the logs before. A tail is dropped if the changesets do not follow its version, or
    do to its log anything but append to it.
    """
    after: dict[tuple[str, bool], LogTail] = {}
    for (log, whole), tail in tails.items():
        entries = _appended_entries(changes, log, tail.version, sizes.get(log, LogSize()).end)
        if entries is not None:
            after[log, whole] = tail.extend(entries, changes[-1].version)
    return after


def _appended_entries(
    changes: Sequence[Changeset], log: str, version: int, end: int
) -> list[TailEntry] | None:
    """Return what changesets after a version append to a log; None if they do anything else to it."""
    entries: list[TailEntry] = []
    for change in changes:
        version += 1
        if change.version != version or (change.cuts and log in [cut.log for cut in change.cuts]):
            return None
        for item in change.items:
            if item.log != log:
                continue
            # An item may be put between others, and a body that is not JSON is not looked into here.
            if item.place or item.codec != "json":
                return None
            end += 1
            data = encode(item.body)
            stored_item = msgspec.structs.replace(
                item, body=decode(data), place=place_of(end), version=version, time=change.time
            )
            entries.append(TailEntry.of(stored_item, data))
    return entries


class LogCache:
    """Reads logs for the stages of a turn, which mostly look at the same newest items."""

    def __init__(self, read: ReadLog, tails: LogTails | None = None) -> None:
        self.read = read
        self.tails: dict[tuple[str, bool], LogTail] = dict(tails or {})

    async def newest(self, log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        """Return the newest items of a log, oldest first. Readers may change them: others get copies."""
        tails = self.tails
        tail = tails.get((log, whole))
        if tail is not None and tail.has_newest(count):
            return tail.newest(count)
        window = await self.read(log, count, whole=whole)
        entries = tuple(map(TailEntry.of, window))
        tails[log, whole] = LogTail(
            entries=entries,
            limit=count,
            is_whole=count is None or len(window) < count,
            # Without a version it serves until the next commit, and no longer.
            version=window.version if isinstance(window, Window) else NO_VERSION,
            size=_size_of(entries),
        )
        return window

    def follow(self, changes: Sequence[Changeset], sizes: Mapping[str, LogSize]) -> None:
        """Go on after changesets that were committed; what is being read just now is not remembered."""
        self.tails = dict(tails_after(self.tails, changes, sizes))

    def clear(self) -> None:
        """Read again, also what is being read just now: nothing is known of what was committed."""
        self.tails = {}
