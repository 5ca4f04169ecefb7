"""Changes of tools that ran side by side: each on the state that all saw, refused where the order matters."""

from collections.abc import Sequence
from itertools import combinations

import msgspec

from clew.core import patch
from clew.core.encoding import as_json
from clew.core.errors import ToolConflict
from clew.core.ops import MISSING, Merge, Op
from clew.core.values import HISTORY
from clew.runtime.model.protocol import ToolCall
from clew.runtime.state.reducers import value_at
from clew.runtime.state.schema import Fold
from clew.runtime.turn.draft import Delta, Draft, RunDelta, state_path
from clew.runtime.turn.rebase import first_conflict


def fold_changes(draft: Draft, run: str, changes: Sequence[tuple[ToolCall, Delta]]) -> None:
    """Fold the deltas of some calls of a run into a draft, all or none.

    Raises:
        ToolConflict: Two of them changed the same place, and the order matters.
        StateInvalid: One does not fit the schema.
    """
    base = draft.branch()
    for call, delta in changes:
        _store_defaults(base, call, delta)
    run_deltas = [_run_delta(base, run, call, delta) for call, delta in changes]
    _check_conflicts(
        [
            (call.name, _with_all_writes(base, call, delta, run_delta))
            for (call, delta), run_delta in zip(changes, run_deltas, strict=True)
        ]
    )
    for run_delta in (base.take_delta(), *run_deltas):
        draft.patch(*run_delta.all_patches)
        draft.add(run_delta.items)
        for action in run_delta.actions:
            draft.patch(action=action)


def _store_defaults(base: Draft, call: ToolCall, delta: Delta) -> None:
    """Store the defaults of fields: changes that commute on a stored value do so on the first one too."""
    for field, _ in base.schema.changes(delta, call.name):
        path = state_path(field, call.id)
        if field.fold in (Fold.MERGE, Fold.OP) and value_at(base.state, path) is MISSING:
            start = as_json(field.default())
            if start:
                base.patch(patch.set(path, start))


def _run_delta(base: Draft, run: str, call: ToolCall, delta: Delta) -> RunDelta:
    for field, _ in base.schema.changes(delta, call.name):
        if field.fold is Fold.APPEND and field.log == HISTORY:
            raise field.error(call.name, "a tool's output goes there by itself, and nothing before it")
    branch = base.branch()
    branch.write(call.name, delta, run=run, call=call.id)
    return branch.take_delta()


def _with_all_writes(base: Draft, call: ToolCall, delta: Delta, run_delta: RunDelta) -> RunDelta:
    """Return a delta with all writes of a tool, also those that change nothing: others may do."""
    writes: list[Op] = []
    for field, value in base.schema.changes(delta, call.name):
        path = state_path(field, call.id)
        if field.fold is Fold.REPLACE:
            writes.append(patch.set(path, field.validate_change(value, call.name)))
        elif field.fold is Fold.MERGE:
            writes.append(patch.merge(path, field.validate_change(value, call.name)))
    return msgspec.structs.replace(run_delta, patches=(*writes, *run_delta.patches))


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
