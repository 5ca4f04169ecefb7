"""Folding a change into a document: the least ops that bring a field from what it was to what it becomes."""

from collections.abc import Sequence
from typing import Any

import msgspec

from clew.core import ops, patch
from clew.core.encoding import JSON, plain, same
from clew.core.errors import OpFailed
from clew.core.ops import MISSING, Document, Op
from clew.runtime.state.schema import Field, Fold


def found_at(node: Any, path: Sequence[str]) -> Any:
    """What stands at a path; MISSING if nothing does."""
    for key in path:
        node = node.get(key, MISSING) if isinstance(node, dict) else MISSING
    return node


def folded(document: Document, path: tuple[str, ...], field: Field, given: JSON, by: str) -> list[Op]:
    """The ops that fold a change in; none if it changes nothing.

    Raises:
        StateInvalid: What comes out does not fit the field.
    """
    old = found_at(document, path)
    if field.fold is Fold.MERGE:
        return _merged(path, old, field, given)
    if field.fold is Fold.OP and field.op is not None:
        return _by_op(document, path, old, field, given, by)
    new = _reduced(field, old, given, by) if field.fold is Fold.CUSTOM else given
    return difference(path, old, new) if field.fold is Fold.CUSTOM else _replaced(path, old, new)


def _replaced(path: tuple[str, ...], old: Any, new: JSON) -> list[Op]:
    return [] if old is not MISSING and same(old, new) else [patch.set(path, new)]


def _merged(path: tuple[str, ...], old: Any, field: Field, given: dict[str, JSON]) -> list[Op]:
    """Only the keys that change; the first time also what the field begins with."""
    if old is MISSING:
        start = plain(field.default())
        return [patch.set(path, {**start, **given})] if start else [patch.merge(path, given)]
    changed = {key: value for key, value in given.items() if key not in old or not same(old[key], value)}
    return [patch.merge(path, changed)] if changed else []


def _by_op(
    document: Document, path: tuple[str, ...], old: Any, field: Field, given: JSON, by: str
) -> list[Op]:
    assert field.op is not None
    start = plain(field.default()) if old is MISSING else None
    changes: list[Op] = [patch.set(path, start)] if start else []
    changes.append(field.op(path, given))
    try:
        new = found_at(ops.apply(document, changes), path)
    except OpFailed as error:
        raise field.wrong(by, error.problem) from error
    return [] if old is not MISSING and same(old, field.checked(new, by)) else changes


def _reduced(field: Field, old: Any, given: JSON, by: str) -> JSON:
    """What the field's own function makes of it; both sides come as the field declares them, if they fit."""
    assert field.reducer is not None
    try:
        new = msgspec.convert(given, field.type, str_keys=True)
    except msgspec.ValidationError:
        new = given
    before = field.default() if old is MISSING else field.read(plain(old))
    try:
        reduced = field.reducer(before, new)
    except Exception as error:
        raise field.wrong(by, f"its reducer raised {type(error).__name__}: {error}") from error
    return field.checked(reduced, by)


def difference(path: tuple[str, ...], old: Any, new: JSON) -> list[Op]:
    """The least ops from one value to another."""
    if old is MISSING:
        return [patch.set(path, new)]
    return [msgspec.structs.replace(op, path=(*path, *op.path[1:])) for op in ops.diff({"": old}, {"": new})]
