"""The ops: how a state document changes, which changes commute, and what differs between two."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from clew.core.encoding import JSON, MOST_DEPTH, encode, is_same
from clew.core.errors import OpFailed

Path: TypeAlias = tuple[str | int, ...]
Document: TypeAlias = dict[str, JSON]


class _Op(msgspec.Struct, frozen=True, gc=False, array_like=True, tag_field="op", tag=str.lower):
    path: Path


class Set(_Op, frozen=True):
    """Put a value at a path; missing objects on the way are made."""

    value: JSON


class Delete(_Op, frozen=True):
    """Take away what is at a path; nothing there is fine."""


class Append(_Op, frozen=True):
    """Add one value to the end of a list; a missing list is made."""

    value: JSON


class Merge(_Op, frozen=True):
    """Put each key of an object into the object at a path."""

    value: Document


class Increment(_Op, frozen=True):
    """Add to a number; a missing one counts as 0."""

    value: int | float


class Insert(_Op, frozen=True):
    """Put a value into a list before an index."""

    index: int
    value: JSON


class Remove(_Op, frozen=True):
    """Take the first equal value out of a list; none there is fine."""

    value: JSON


class Max(_Op, frozen=True):
    """Keep the larger of two numbers or two texts."""

    value: int | float | str


class Min(_Op, frozen=True):
    """Keep the smaller of two numbers or two texts."""

    value: int | float | str


class Union(_Op, frozen=True):
    """Keep a list as a set, in canonical order, with these values in it."""

    value: list[JSON]


Op: TypeAlias = Set | Delete | Append | Merge | Increment | Insert | Remove | Max | Min | Union


class _Missing:
    """The value where there is none."""


MISSING: Final = _Missing()


class _OpError(Exception):
    """An op does not fit; the message says why."""


def op_name(op: Op) -> str:
    """The op's name as it is stored."""
    return type(op).__name__.lower()


def apply_ops(document: Document, ops: Iterable[Op]) -> Document:
    """The document after all ops, in order. The one given is left as it was.

    Raises:
        OpFailed: An op does not fit; it is named, and nothing is applied.
    """
    for index, op in enumerate(ops):
        try:
            _check_length(op.path)
            document = _change_at(document, op.path, 0, _changes[type(op)](op))
        except _OpError as problem:
            raise OpFailed(index=index, op=op_name(op), path=list(op.path), problem=str(problem)) from None
    return document


def _check_length(path: Path) -> None:
    if len(path) > MOST_DEPTH:
        raise _OpError(f"the path has {len(path)} keys; {MOST_DEPTH} are allowed")


def _change_at(node: Any, path: Path, depth: int, change: Callable[[Any], Any]) -> Any:
    """The node with one place below it changed; only the containers on the way are copied."""
    if depth == len(path):
        return change(node)
    key, original = path[depth], node
    if node is MISSING and isinstance(key, str):
        node = {}
    if isinstance(node, dict) and isinstance(key, str):
        old = node.get(key, MISSING)
    elif isinstance(node, list) and isinstance(key, int) and not isinstance(key, bool):
        old = node[key] if 0 <= key < len(node) else MISSING
        if old is MISSING and not getattr(change, "forgiving", False):
            raise _OpError(f"the list has no index {key}")
    elif getattr(change, "forgiving", False) and node is MISSING:
        return MISSING
    else:
        raise _OpError(f"{key!r} does not lead into {_kind_name(node)}")
    new = _change_at(old, path, depth + 1, change)
    return original if new is old else _with_child(node, key, new)


def _with_child(node: Any, key: Any, new: Any) -> Any:
    copy = node.copy()
    if new is not MISSING:
        copy[key] = new
    elif isinstance(copy, list) or key in copy:
        del copy[key]
    return copy


def _kind_name(node: object) -> str:
    names = {_Missing: "nothing", dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    return names.get(type(node), "null" if node is None else "a number")


def _set(op: Set) -> Callable[[Any], Any]:
    def change(old: Any) -> Any:
        if not op.path and not isinstance(op.value, dict):
            raise _OpError("the whole state must be an object")
        return op.value

    return change


class _Deletion:
    """Deletes; forgives a path that leads nowhere."""

    forgiving = True

    def __init__(self, op: Delete) -> None:
        self._is_root = not op.path

    def __call__(self, old: Any) -> Any:
        if self._is_root:
            raise _OpError("the whole state cannot be deleted; use a snapshot")
        return MISSING


def _append(op: Append) -> Callable[[Any], Any]:
    return lambda old: [*_list_or_empty(old), op.value]


def _merge(op: Merge) -> Callable[[Any], Any]:
    def change(old: Any) -> Any:
        if old is not MISSING and not isinstance(old, dict):
            raise _OpError(f"{_kind_name(old)} cannot be merged into")
        return {**(old if isinstance(old, dict) else {}), **op.value}

    return change


def _increment(op: Increment) -> Callable[[Any], Any]:
    def change(old: Any) -> Any:
        if old is MISSING:
            return op.value
        if isinstance(old, bool) or not isinstance(old, int | float):
            raise _OpError(f"{_kind_name(old)} cannot be incremented")
        if isinstance(old, float) and isinstance(op.value, int):
            raise _OpError("a float is incremented by a float, so that integers commute")
        new = old + op.value
        if isinstance(new, float) and new in (float("inf"), float("-inf")):
            raise _OpError("the sum is too large")
        return new

    return change


def _insert(op: Insert) -> Callable[[Any], Any]:
    def change(old: Any) -> Any:
        if not isinstance(old, list):
            raise _OpError(f"{_kind_name(old)} cannot be inserted into")
        if not 0 <= op.index <= len(old):
            raise _OpError(f"the list has {len(old)} values, so there is no index {op.index}")
        return [*old[: op.index], op.value, *old[op.index :]]

    return change


class _Removal:
    """Removes the first equal value; forgives a path that leads nowhere."""

    forgiving = True

    def __init__(self, op: Remove) -> None:
        self._value = op.value

    def __call__(self, old: Any) -> Any:
        if old is MISSING:
            return MISSING
        values = _list_or_empty(old)
        index = next((at for at, value in enumerate(values) if is_same(value, self._value)), None)
        return old if index is None else values[:index] + values[index + 1 :]


def _extreme(pick: Callable[..., Any]) -> Callable[[Max | Min], Callable[[Any], Any]]:
    def for_op(op: Max | Min) -> Callable[[Any], Any]:
        def change(old: Any) -> Any:
            if old is MISSING:
                return op.value
            numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (old, op.value))
            if not numbers and not (isinstance(old, str) and isinstance(op.value, str)):
                raise _OpError(f"{_kind_name(old)} and {_kind_name(op.value)} cannot be compared")
            # 1 and 1.0 compare equal; the encoding decides, so that the order of ops does not.
            return pick((old, op.value), key=lambda v: (v, encode(v)))

        return change

    return for_op


def _union(op: Union) -> Callable[[Any], Any]:
    def change(old: Any) -> Any:
        members = {encode(value): value for value in [*_list_or_empty(old), *op.value]}
        return [members[name] for name in sorted(members)]

    return change


def _list_or_empty(old: Any) -> list[JSON]:
    if old is MISSING:
        return []
    if not isinstance(old, list):
        raise _OpError(f"{_kind_name(old)} is not a list")
    return old


_changes: Final[dict[type, Callable[[Any], Callable[[Any], Any]]]] = {
    Set: _set,
    Delete: _Deletion,
    Append: _append,
    Merge: _merge,
    Increment: _increment,
    Insert: _insert,
    Remove: _Removal,
    Max: _extreme(max),
    Min: _extreme(min),
    Union: _union,
}


def commute(left: Op, right: Op) -> bool:
    """Return whether two ops give the same state in either order, wherever both apply."""
    return all(_commute(a, b) for a in _parts(left) for b in _parts(right))


def _parts(op: Op) -> list[Op]:
    """A merge is a set of each of its keys; any other op is itself."""
    if isinstance(op, Merge) and op.value:
        return [Set((*op.path, key), value) for key, value in op.value.items()]
    return [op]


def _commute(left: Op, right: Op) -> bool:
    if left.path == right.path:
        return _commute_in_place(left, right)
    depth = next(
        (at for at, (a, b) in enumerate(zip(left.path, right.path, strict=False)) if a != b),
        None,
    )
    if depth is None:
        return False  # one path leads through the other
    in_list = isinstance(left.path[depth], int) or isinstance(right.path[depth], int)
    return not (in_list and (_shifts(left, depth) or _shifts(right, depth)))


def _commute_in_place(left: Op, right: Op) -> bool:
    match left, right:
        case (Increment(), Increment()):
            return isinstance(left.value, int) and isinstance(right.value, int)
        case (Max(), Max()) | (Min(), Min()) | (Union(), Union()):
            return True
        case (Set(), Set()):
            return is_same(left.value, right.value)
        case (Delete(), Delete()):
            return isinstance(left.path[-1], str) if left.path else False
        case (Merge(), Merge()):
            return True  # both empty: the others were split into their keys
    return False


def _shifts(op: Op, depth: int) -> bool:
    """Return whether an op moves the neighbours of the list entry at this depth of its path."""
    return isinstance(op, Delete) and len(op.path) == depth + 1


def diff(before: Document, after: Document) -> list[Op]:
    """The ops that lead from one document to another."""
    return list(_diff(before, after, ()))


def _diff(before: Document, after: Document, path: Path) -> Iterator[Op]:
    for key in sorted(before.keys() - after.keys()):
        yield Delete((*path, key))
    for key in sorted(after):
        old, new = before.get(key, MISSING), after[key]
        here = (*path, key)
        if old is MISSING:
            yield Set(here, new)
        elif is_same(old, new):
            continue
        elif isinstance(old, dict) and isinstance(new, dict):
            yield from _diff(old, new, here)
        elif isinstance(old, list) and isinstance(new, list) and is_same(old, new[: len(old)]):
            yield from (Append(here, value) for value in new[len(old) :])
        else:
            yield Set(here, new)
