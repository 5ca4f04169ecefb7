"""The state as clients of AG-UI have it, and the patches that change it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.core.encoding import encode
from clew.core.errors import OpFailed
from clew.core.ops import Merge, Op, Set, apply_ops
from clew.server.protocols.ag_ui.state import json_patch, public_state, state_after
from tests.core.strategies import documents, ops
from tests.support.ag_ui_client import apply_patch


@given(documents, st.lists(ops(), max_size=4))
def test_a_patch_of_ops_gives_exactly_the_new_state(before: dict[str, Any], changes: list[Op]) -> None:
    state = public_state(before)
    try:
        after = state_after(state, changes)
    except OpFailed:
        return  # ops that do not fit are never committed
    patch = json_patch(state, after)

    assert patch is not None
    assert encode(apply_patch(state, patch)) == encode(after)


@given(documents, documents)
def test_a_patch_leads_from_any_state_to_any_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = json_patch(before, after)

    assert patch is not None
    assert encode(apply_patch(before, patch)) == encode(after)


@given(documents, st.lists(ops(), max_size=4))
def test_the_public_state_changes_as_the_whole_one_does(before: dict[str, Any], changes: list[Op]) -> None:
    public_changes = [op for op in changes if not str(op.path[0] if op.path else "").startswith("$")]
    try:
        whole = apply_ops({**before, "$run": {"id": "r"}}, public_changes)
    except OpFailed:
        return

    assert state_after(public_state(before), public_changes) == public_state(whole)


def test_entries_of_the_runtime_stay_inside() -> None:
    changes: list[Op] = [
        Set((), {"$run": {"id": "r"}, "mood": "calm"}),
        Merge((), {"$calls": {}, "level": 1}),
    ]

    assert state_after({}, changes) == {"mood": "calm", "level": 1}


def test_slashes_and_tildes_in_keys_are_escaped() -> None:
    assert json_patch({}, {"a/b~c": 1}) == [{"op": "add", "path": "/a~1b~0c", "value": 1}]


def test_a_change_that_clients_would_refuse_gives_no_patch() -> None:
    assert json_patch({}, {"__proto__": 1}) is None
