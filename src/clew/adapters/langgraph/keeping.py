"""Items of LangGraph's store as records: how they are kept, filtered, matched and ranked. Pure."""

import base64
import math
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from langgraph.store.base import Item, MatchCondition, SearchItem

from clew.adapters.langgraph.entries import digest
from clew.core.errors import InvalidArgument
from clew.core.values import Record

KIND: Final = "langgraph.item"
EXPIRING: Final = "expiring"
MINUTE: Final = 60_000
WILDCARD: Final = "*"

Namespace = tuple[str, ...]
Vector = Sequence[float]


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item as a record's body says it; times and the time to live are in milliseconds."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created: int
    updated: int
    life: int | None = None
    expires: int | None = None
    vectors: dict[str, str] = {}

    def is_alive(self, now: int) -> bool:
        """Whether it has not expired."""
        return self.expires is None or self.expires > now


def record_id(namespace: Namespace, key: str) -> str:
    """The id of an item's record."""
    return digest(*namespace, key)


def prefix_tags(prefix: Namespace) -> tuple[str, ...]:
    """The tag that all items below a namespace share; none for the root, below which everything is."""
    return (f"below {digest(*prefix)}",) if prefix else ()


def record_of(item: Kept) -> Record:
    """The record of an item: found below each of its namespaces, in the order items were made."""
    tags = [tag for length in range(len(item.namespace)) for tag in prefix_tags(item.namespace[: length + 1])]
    if item.expires is not None:
        tags.append(EXPIRING)
    body = msgspec.to_builtins(msgspec.structs.replace(item, value={}))
    # As it was given: what is not JSON is refused by its path.
    body |= {"namespace": list(item.namespace), "value": item.value}
    return Record(
        kind=KIND, id=record_id(item.namespace, item.key), body=body, tags=tuple(tags), sort=item.created
    )


def kept_in(record: Record) -> Kept:
    """The item that a record keeps."""
    return msgspec.convert(record.body, Kept)


def item_of(kept: Kept) -> Item:
    """An item as LangGraph gets it."""
    return Item(
        value=kept.value,
        key=kept.key,
        namespace=kept.namespace,
        created_at=_time(kept.created),
        updated_at=_time(kept.updated),
    )


def found_of(kept: Kept, score: float | None) -> SearchItem:
    """An item as a search gives it."""
    return SearchItem(
        namespace=kept.namespace,
        key=kept.key,
        value=kept.value,
        created_at=_time(kept.created),
        updated_at=_time(kept.updated),
        score=score,
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


# Filters.


def passes(value: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Whether a value has what a filter asks for."""
    return all(_equals(value.get(name), wanted) for name, wanted in (filter or {}).items())


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(str(name).startswith("$") for name in wanted):
            return all(_compares(value, operator, against) for operator, against in wanted.items())
        return isinstance(value, dict) and all(
            _equals(value.get(name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_equals(part, other) for part, other in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


def _compares(value: Any, operator: str, against: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(value == against) is (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise InvalidArgument(problem=f"{operator!r} is not an operator: $eq, $ne, $gt, $gte, $lt or $lte.")
    try:
        left, right = float(value), float(against)
    except (TypeError, ValueError):
        return False
    if operator == "$gt":
        return left > right
    if operator == "$gte":
        return left >= right
    return left < right if operator == "$lt" else left <= right


def matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends as a condition says."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = (
        namespace[: len(path)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(path) :]
    )
    return all(wanted in (WILDCARD, label) for label, wanted in zip(part, path, strict=True))


# Vectors.


def packed(vector: Vector) -> str:
    """A vector as text: single precision, which is more than embeddings mean."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def unpacked(text: str) -> Vector:
    """The vector behind a text."""
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 4}f", data)


def ranked(found: Sequence[Kept], query: Vector) -> list[tuple[Kept, float | None]]:
    """Items by the nearest of their vectors; those without any come last."""
    scored = [
        (kept, max(cosine(query, unpacked(text)) for text in kept.vectors.values()))
        for kept in found
        if kept.vectors
    ]
    scored.sort(key=lambda pair: -pair[1])
    return [*scored, *((kept, None) for kept in found if not kept.vectors)]


def cosine(one: Vector, other: Vector) -> float:
    """How alike two vectors point: 1 the same way, 0 if one of them is nothing."""
    length = math.hypot(*one) * math.hypot(*other)
    return sum(left * right for left, right in zip(one, other, strict=True)) / length if length else 0.0
