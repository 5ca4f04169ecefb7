"""Entries of a log: what a stage adds, as the item that is stored, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.core.encoding import encode
from clew.core.values import Item
from clew.runtime.messages import THOUGHTS, Message, item_of, message_of
from clew.runtime.schema import Field


def as_item(entry: Any, field: Field, by: str, run: str | None) -> Item:
    """The item that an entry is stored as.

    Raises:
        StateInvalid: It is no entry of this log.
    """
    if isinstance(entry, Item):
        return msgspec.structs.replace(entry, log=field.log, run=entry.run or run)
    if field.entry is not Message:
        return Item(log=field.log, kind="entry", body={"value": field.checked_entry(entry, by)}, run=run)
    if isinstance(entry, Message | Mapping):
        message = msgspec.convert(field.checked_entry(entry, by), Message)
        return item_of(msgspec.structs.replace(message, run=message.run or run), field.log)
    raise field.wrong(by, "its entries are messages")


def as_entries(items: Sequence[Item], field: Field) -> list[Any]:
    """The entries behind items, as the log declares them."""
    kind = field.entry
    if kind is Message:
        return [message_of(item) for item in items]
    bodies = (item.body.get("value") if isinstance(item.body, dict) else item.body for item in items)
    return [msgspec.convert(body, kind, str_keys=True) for body in bodies]


def said(item: Item) -> bytes:
    """What two items must have in common to be one entry written twice: all but ids and stamps."""
    body = item.body
    if isinstance(body, dict):
        body = {key: value for key, value in body.items() if key not in ("meta", THOUGHTS)}
    return encode([item.role, item.kind, item.call, item.codec, body if item.codec == "json" else ""])
