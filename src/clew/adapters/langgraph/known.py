"""Which types a checkpoint may hold: LangGraph's own safe ones, and those a graph's schema names."""

from collections.abc import Iterable
from typing import Any, TypeAlias, get_args, get_type_hints

from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES

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
