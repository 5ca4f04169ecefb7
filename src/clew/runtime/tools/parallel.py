"""Changes of tools that ran side by side: each on the state that all saw, refused where the order matters."""

from collections.abc import Sequence
from itertools import combinations

import msgspec

from clew.core import patch
from clew.core.encoding import as_json
from clew.core.errors import ToolConflict
from clew.core.ops import MISSING, Merge, Op
from clew.core.values import HISTORY
from clew.runtime.state.reducers import value_at
from clew.runtime.state.schema import Fold
from clew.runtime.turn.draft import Delta, Draft, RunDelta, state_path
from clew.runtime.turn.rebase import first_conflict


class ToolChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change that one tool makes to the state."""

    tool: str
    call: str
    run: str
    delta: Delta


def fold_changes(draft: Draft, changes: Sequence[ToolChange]) -> None:
    """Fold all changes into a draft, or none.

    Raises:
        ToolConflict: Two of them changed the same place, and the order matters.
        StateInvalid: One does not fit the schema.
    """
    base = draft.branch()
    for change in changes:
        _store_defaults(base, change)
    deltas = [_delta_of(base, change) for change in changes]
    _check_conflicts(
        [
            (change.tool, _delta_with_all_writes(base, change, delta))
            for change, delta in zip(changes, deltas, strict=True)
        ]
    )
    for delta in (base.take_delta(), *deltas):
        draft.patch(*delta.all_patches)
        draft.add(delta.items)
        for action in delta.actions:
            draft.patch(action=action)


def _store_defaults(base: Draft, change: ToolChange) -> None:
    """Store the defaults of fields: changes that commute on a stored value do so on the first one too."""
    for field, _ in base.schema.changes(change.delta, change.tool):
        path = state_path(field, change.call)
        if field.fold in (Fold.MERGE, Fold.OP) and value_at(base.state, path) is MISSING:
            start = as_json(field.default())
            if start:
                base.patch(patch.set(path, start))


def _delta_of(base: Draft, change: ToolChange) -> RunDelta:
    for field, _ in base.schema.changes(change.delta, change.tool):
        if field.fold is Fold.APPEND and field.log == HISTORY:
            raise field.error(change.tool, "a tool's output goes there by itself, and nothing before it")
    branch = base.branch()
    branch.write(change.tool, change.delta, run=change.run, call=change.call)
    return branch.take_delta()


def _delta_with_all_writes(base: Draft, change: ToolChange, delta: RunDelta) -> RunDelta:
    """Return a delta with all writes of a tool, also those that change nothing: others may do."""
    writes: list[Op] = []
    for field, value in base.schema.changes(change.delta, change.tool):
        path = state_path(field, change.call)
        if field.fold is Fold.REPLACE:
            writes.append(patch.set(path, field.validate_change(value, change.tool)))
        elif field.fold is Fold.MERGE:
            writes.append(patch.merge(path, field.validate_change(value, change.tool)))
    return msgspec.structs.replace(delta, patches=(*writes, *delta.patches))


def _check_conflicts(deltas: Sequence[tuple[str, RunDelta]]) -> None:
    for (first, left), (second, right) in combinations(deltas, 2):
        logs = {item.log for item in left.items} & {item.log for item in right.items}
        conflict = first_conflict(left.all_patches, right.all_patches)
        if logs or conflict:
            path: list[str | int] = _conflict_path(*conflict) if conflict else [min(logs)]
            raise ToolConflict(first=first, second=second, path=path)


def _conflict_path(left: Op, right: Op) -> list[str | int]:
    """Return the path where two ops meet, as exactly as both say."""
    path = max(left.path, right.path, key=len)
    if isinstance(left, Merge) and isinstance(right, Merge) and left.path == right.path:
        both = sorted(key for key in left.value if key in right.value and left.value[key] != right.value[key])
        return [*path, *both[:1]]
    return list(path)
