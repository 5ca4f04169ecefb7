"""The entries of logs: as items, and cached while a turn reads them again before it commits."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from clew.core.encoding import JSON, decode, encode
from clew.core.values import Item
from clew.runtime.model.messages import THOUGHTS, Message, item_of, message_of
from clew.runtime.state.schema import Field


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
        """The items, oldest first."""
        ...


class LogTail(msgspec.Struct, frozen=True):
    """The newest items of a log, how many were asked for (None: all), and their bodies as they were read."""

    limit: int | None
    items: Sequence[Item]
    bodies: bytes

    def has_newest(self, count: int | None) -> bool:
        """Return whether it has so many: they are there, or there are no more in the log."""
        if self.limit is None or len(self.items) < self.limit:
            return True
        return count is not None and count <= self.limit

    def newest(self, count: int | None) -> list[Item]:
        """Return copies of the newest items: an earlier reader may have changed those it got."""
        start = 0 if count is None else max(len(self.items) - count, 0)
        pairs = zip(self.items[start:], decode(self.bodies)[start:], strict=True)
        return [item if body is None else msgspec.structs.replace(item, body=body) for item, body in pairs]


class LogCache:
    """Reads logs for the stages of a turn, which mostly look at the same newest items."""

    def __init__(self, read: ReadLog) -> None:
        self.read = read
        self._tails: dict[tuple[str, bool], LogTail] = {}

    async def newest(self, log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        """Return the newest items of a log, oldest first. Readers may change them: others get copies."""
        tails = self._tails
        tail = tails.get((log, whole))
        if tail is not None and tail.has_newest(count):
            return tail.newest(count)
        items = tuple(await self.read(log, count, whole=whole))
        tails[log, whole] = LogTail(count, items, encode([_mutable_body(item.body) for item in items]))
        return items

    def clear(self) -> None:
        """Something was committed: read again, also what is being read just now."""
        self._tails = {}


def _mutable_body(body: JSON) -> JSON:
    return body if isinstance(body, dict | list) else None
