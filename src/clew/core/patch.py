"""Making ops: ``set(["mood"], "calm")``. A path is a list of keys, so a dot in a key is a dot.

A path of one key may be given as that key: ``set("mood", "calm")``.
"""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from clew.core import ops
from clew.core.arguments import check_arguments
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument
from clew.core.ops import Document
from clew.core.shapes import describe_value


def path_of(keys: object, what: str = "path") -> ops.Path:
    """The path that keys lead along: a list of them, or one alone.

    Raises:
        InvalidArgument: They are neither text nor a list of texts and indexes.
    """
    if isinstance(keys, str):
        if not keys:  # more likely a slip than the key that it could be
            problem = f'{what} is empty text. Write [""] for the empty key, [] for the whole state.'
            raise InvalidArgument(problem=problem)
        return (keys,)
    if not isinstance(keys, (list, tuple)) and (
        isinstance(keys, (bytes, bytearray)) or not isinstance(keys, Sequence)
    ):
        problem = (
            f'{what} must be a key or a list of keys, like "mood" or ["mood"], not {describe_value(keys)}.'
        )
        raise InvalidArgument(problem=problem)
    for index, key in enumerate(keys):
        if type(key) is not str and type(key) is not int:
            problem = (
                f"{what}[{index}] must be a key (text) or an index (an integer), not {describe_value(key)}."
            )
            raise InvalidArgument(problem=problem)
    return tuple(keys)


Keys: TypeAlias = Annotated[str | Sequence[str | int], path_of]
"""A path as a caller gives it: a list of keys, or one key."""


@check_arguments
def set(path: Keys, value: JSON) -> ops.Set:
    """Put a value at a path."""
    return ops.Set(path_of(path), value)


@check_arguments
def delete(path: Keys) -> ops.Delete:
    """Take away what is at a path."""
    return ops.Delete(path_of(path))


@check_arguments
def append(path: Keys, value: JSON) -> ops.Append:
    """Add a value to the end of a list."""
    return ops.Append(path_of(path), value)


@check_arguments
def merge(path: Keys, value: Document) -> ops.Merge:
    """Put each key of an object into the object at a path."""
    return ops.Merge(path_of(path), value)


@check_arguments
def increment(path: Keys, value: float = 1) -> ops.Increment:
    """Add to a number."""
    return ops.Increment(path_of(path), value)


@check_arguments
def insert(path: Keys, index: int, value: JSON) -> ops.Insert:
    """Put a value into a list before an index."""
    return ops.Insert(path_of(path), index, value)


@check_arguments
def remove(path: Keys, value: JSON) -> ops.Remove:
    """Take the first equal value out of a list."""
    return ops.Remove(path_of(path), value)


@check_arguments
def max(path: Keys, value: float | str) -> ops.Max:
    """Keep the larger of two numbers or two texts."""
    return ops.Max(path_of(path), value)


@check_arguments
def min(path: Keys, value: float | str) -> ops.Min:
    """Keep the smaller of two numbers or two texts."""
    return ops.Min(path_of(path), value)


@check_arguments
def union(path: Keys, value: list[JSON]) -> ops.Union:
    """Keep a list as a set with these values in it."""
    return ops.Union(path_of(path), value)
