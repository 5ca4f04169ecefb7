"""Folding a change into a document: the least ops that bring a field from what it was to what it becomes."""

from collections.abc import Sequence
from typing import Any

import msgspec

from clew.core import ops
from clew.core.encoding import JSON, as_json, is_same
from clew.core.errors import OpFailed
from clew.core.ops import MISSING, Document, Merge, Op, Set
from clew.runtime.state.schema import Field, Fold


def value_at(node: Any, path: Sequence[str]) -> Any:
    """Return the value at a path; MISSING if there is none."""
    for key in path:
        node = node.get(key, MISSING) if isinstance(node, dict) else MISSING
    return node


def fold_ops(document: Document, path: tuple[str, ...], field: Field, change: JSON, by: str) -> list[Op]:
    """Return the ops that fold a change in; none if it changes nothing.

    Raises:
        StateInvalid: What comes out does not fit the field.
    """
    old = value_at(document, path)
    if field.fold is Fold.MERGE:
        return _merge_ops(path, old, field, change)
    if field.fold is Fold.OP and field.op is not None:
        return _op_of_field(document, path, old, field, change, by)
    new = _reduce(field, old, change, by) if field.fold is Fold.CUSTOM else change
    return difference(path, old, new) if field.fold is Fold.CUSTOM else _replace_ops(path, old, new)


def _replace_ops(path: tuple[str, ...], old: Any, new: JSON) -> list[Op]:
    return [] if old is not MISSING and is_same(old, new) else [Set(path, new)]


def _merge_ops(path: tuple[str, ...], old: Any, field: Field, change: dict[str, JSON]) -> list[Op]:
    """Return the op for the keys that change; the first time also for the field's default."""
    if old is MISSING:
        start = as_json(field.default())
        return [Set(path, {**start, **change})] if start else [Merge(path, change)]
    new_values = {
        key: value for key, value in change.items() if key not in old or not is_same(old[key], value)
    }
    return [Merge(path, new_values)] if new_values else []


def _op_of_field(
    document: Document, path: tuple[str, ...], old: Any, field: Field, change: JSON, by: str
) -> list[Op]:
    assert field.op is not None
    start = as_json(field.default()) if old is MISSING else None
    changes: list[Op] = [Set(path, start)] if start else []
    changes.append(field.op(path, change))
    try:
        new = value_at(ops.apply_ops(document, changes), path)
    except OpFailed as error:
        raise field.error(by, error.problem) from error
    return [] if old is not MISSING and is_same(old, field.validate(new, by)) else changes


def _reduce(field: Field, old: Any, change: JSON, by: str) -> JSON:
    """Call the field's own reducer; both sides come as the field declares them, if they fit."""
    assert field.reducer is not None
    try:
        new = msgspec.convert(change, field.type, str_keys=True)
    except msgspec.ValidationError:
        new = change
    before = field.default() if old is MISSING else field.read(as_json(old))
    try:
        value = field.reducer(before, new)
    except Exception as error:
        raise field.error(by, f"its reducer raised {type(error).__name__}: {error}") from error
    return field.validate(value, by)


def difference(path: tuple[str, ...], old: Any, new: JSON) -> list[Op]:
    """Return the least ops from one value to another."""
    if old is MISSING:
        return [Set(path, new)]
    return [msgspec.structs.replace(op, path=(*path, *op.path[1:])) for op in ops.diff({"": old}, {"": new})]
