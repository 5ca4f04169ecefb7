"""What tools change side by side: each on the state that all of them saw; refused where the order matters."""

from collections.abc import Sequence
from itertools import combinations

import msgspec

from clew.core import patch
from clew.core.encoding import plain
from clew.core.errors import ToolConflict
from clew.core.ops import MISSING, Merge, Op
from clew.runtime.state.reducers import found_at
from clew.runtime.state.schema import Fold
from clew.runtime.turn.draft import HISTORY, Delta, Draft, RunDelta, path_of
from clew.runtime.turn.rebase import first_clash


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one tool wants changed."""

    tool: str
    call: str
    run: str
    delta: Delta


def take_in(draft: Draft, changes: Sequence[Change]) -> None:
    """Fold all of them into a draft, or none.

    Raises:
        ToolConflict: Two of them changed the same place, and the order matters.
        StateInvalid: One does not fit the schema.
    """
    base = draft.apart()
    for change in changes:
        _begin(base, change)
    made = [_made(base, change) for change in changes]
    _check([(change.tool, _said(base, change, delta)) for change, delta in zip(changes, made, strict=True)])
    for delta in (base.take_delta(), *made):
        draft.patch(*delta.patches)
        draft.add(delta.items)
        for action in delta.actions:
            draft.patch(action=action)


def _begin(base: Draft, change: Change) -> None:
    """Store what fields start as: changes that commute on a stored value do so on the first one too."""
    for field, _ in base.schema.changes(change.delta, change.tool):
        path = path_of(field, change.call)
        if field.fold in (Fold.MERGE, Fold.OP) and found_at(base.state, path) is MISSING:
            start = plain(field.default())
            if start:
                base.patch(patch.set(path, start))


def _made(base: Draft, change: Change) -> RunDelta:
    for field, _ in base.schema.changes(change.delta, change.tool):
        if field.fold is Fold.APPEND and field.log == HISTORY:
            raise field.wrong(change.tool, "a tool's output goes there by itself, and nothing before it")
    apart = base.apart()
    apart.write(change.tool, change.delta, run=change.run, call=change.call)
    return apart.take_delta()


def _said(base: Draft, change: Change, delta: RunDelta) -> RunDelta:
    """A delta with all that the tool said, also where it says what is so already: others may change that."""
    said: list[Op] = []
    for field, value in base.schema.changes(change.delta, change.tool):
        path = path_of(field, change.call)
        if field.fold is Fold.REPLACE:
            said.append(patch.set(path, field.partial(value, change.tool)))
        elif field.fold is Fold.MERGE:
            said.append(patch.merge(path, field.partial(value, change.tool)))
    return msgspec.structs.replace(delta, patches=(*said, *delta.patches))


def _check(made: Sequence[tuple[str, RunDelta]]) -> None:
    for (first, left), (second, right) in combinations(made, 2):
        logs = {item.log for item in left.items} & {item.log for item in right.items}
        clash = first_clash(left.patches, right.patches)
        if logs or clash:
            path: list[str | int] = _place(*clash) if clash else [min(logs)]
            raise ToolConflict(first=first, second=second, path=path)


def _place(left: Op, right: Op) -> list[str | int]:
    """Where two ops meet, as exactly as both say."""
    path = max(left.path, right.path, key=len)
    if isinstance(left, Merge) and isinstance(right, Merge) and left.path == right.path:
        both = sorted(key for key in left.value if key in right.value and left.value[key] != right.value[key])
        return [*path, *both[:1]]
    return list(path)
