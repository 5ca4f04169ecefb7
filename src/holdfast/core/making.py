"""Making ops: ``set(["mood"], "calm")``. A path is a list of keys, so a dot in a key is a dot."""

from collections.abc import Sequence

from holdfast.core import ops
from holdfast.core.encoding import JSON
from holdfast.core.ops import Document


def set(path: Sequence[str | int], value: JSON) -> ops.Set:
    """Put a value at a path."""
    return ops.Set(tuple(path), value)


def delete(path: Sequence[str | int]) -> ops.Delete:
    """Take away what is at a path."""
    return ops.Delete(tuple(path))


def append(path: Sequence[str | int], value: JSON) -> ops.Append:
    """Add a value to the end of a list."""
    return ops.Append(tuple(path), value)


def merge(path: Sequence[str | int], value: Document) -> ops.Merge:
    """Put each key of an object into the object at a path."""
    return ops.Merge(tuple(path), value)


def increment(path: Sequence[str | int], value: float = 1) -> ops.Increment:
    """Add to a number."""
    return ops.Increment(tuple(path), value)


def insert(path: Sequence[str | int], index: int, value: JSON) -> ops.Insert:
    """Put a value into a list before an index."""
    return ops.Insert(tuple(path), index, value)


def remove(path: Sequence[str | int], value: JSON) -> ops.Remove:
    """Take the first equal value out of a list."""
    return ops.Remove(tuple(path), value)


def max(path: Sequence[str | int], value: float | str) -> ops.Max:
    """Keep the larger of two numbers or two texts."""
    return ops.Max(tuple(path), value)


def min(path: Sequence[str | int], value: float | str) -> ops.Min:
    """Keep the smaller of two numbers or two texts."""
    return ops.Min(tuple(path), value)


def union(path: Sequence[str | int], value: list[JSON]) -> ops.Union:
    """Keep a list as a set with these values in it."""
    return ops.Union(tuple(path), value)
