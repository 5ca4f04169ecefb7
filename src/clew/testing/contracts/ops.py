"""Ops: what each does to a stored state, and how one that does not fit fails."""

# ruff: noqa: D102 - tests are named by sentences.

from typing import Final

import pytest

from clew.core import patch
from clew.core.errors import OpFailed
from clew.core.items import user
from clew.core.ops import Document, Op, op_name
from clew.database.thread import Thread
from clew.testing.contracts.common import canonical_bytes, thread_dump
from clew.testing.fixtures import StoreFixtures

FITTING_OPS: Final[list[tuple[Document, Op, Document]]] = [
    ({}, patch.set(["a"], 1), {"a": 1}),
    ({"a": 1}, patch.set(["a"], None), {"a": None}),
    ({}, patch.set(["a", "b", "c"], [1]), {"a": {"b": {"c": [1]}}}),
    ({"a": [1, 2]}, patch.set(["a", 1], 3), {"a": [1, 3]}),
    ({"a": 1}, patch.set([], {"b": 2}), {"b": 2}),
    ({"a": 1, "b": 2}, patch.delete(["a"]), {"b": 2}),
    ({"b": 2}, patch.delete(["a"]), {"b": 2}),
    ({"b": 2}, patch.delete(["a", "x"]), {"b": 2}),
    ({"a": [1, 2, 3]}, patch.delete(["a", 1]), {"a": [1, 3]}),
    ({}, patch.append(["a"], 1), {"a": [1]}),
    ({"a": [1]}, patch.append(["a"], [2]), {"a": [1, [2]]}),
    ({"a": {"x": 1, "y": 2}}, patch.merge(["a"], {"y": 3, "z": 4}), {"a": {"x": 1, "y": 3, "z": 4}}),
    ({}, patch.merge(["a"], {"x": 1}), {"a": {"x": 1}}),
    ({"k": 1}, patch.merge([], {"x": 1}), {"k": 1, "x": 1}),
    ({}, patch.increment(["n"], 2), {"n": 2}),
    ({"n": 1}, patch.increment(["n"], -3), {"n": -2}),
    ({"n": 1.5}, patch.increment(["n"], 0.5), {"n": 2.0}),
    ({"n": 2**63}, patch.increment(["n"], 2**63), {"n": 2**64}),
    ({"a": [1, 3]}, patch.insert(["a"], 1, 2), {"a": [1, 2, 3]}),
    ({"a": []}, patch.insert(["a"], 0, 2), {"a": [2]}),
    ({"a": [1, 2, 1]}, patch.remove(["a"], 1), {"a": [2, 1]}),
    ({"a": [1.0, True, 1]}, patch.remove(["a"], 1), {"a": [1.0, True]}),
    ({"a": [1]}, patch.remove(["a"], 9), {"a": [1]}),
    ({}, patch.remove(["a"], 9), {}),
    ({}, patch.max(["n"], 2), {"n": 2}),
    ({"n": 5}, patch.max(["n"], 2), {"n": 5}),
    ({"n": "a"}, patch.max(["n"], "b"), {"n": "b"}),
    ({"n": 5}, patch.min(["n"], 2.5), {"n": 2.5}),
    ({}, patch.union(["s"], ["b", "a", "b"]), {"s": ["a", "b"]}),
    ({"s": [3, 1]}, patch.union(["s"], [2, 1]), {"s": [1, 2, 3]}),
    ({}, patch.set(["a.b"], 1), {"a.b": 1}),
    ({"a": {"b": 1}}, patch.set(["a.b"], 2), {"a": {"b": 1}, "a.b": 2}),
    ({}, patch.set(["", "$", "/~", "0", "ключ", "🦊"], 1), {"": {"$": {"/~": {"0": {"ключ": {"🦊": 1}}}}}}),
]

ILL_TYPED_OPS: Final[list[tuple[Document, Op]]] = [
    ({"a": 1}, patch.set(["a", "b"], 1)),
    ({"a": [1]}, patch.set(["a", "b"], 1)),
    ({"a": [1]}, patch.set(["a", 1], 1)),
    ({"a": [1]}, patch.set(["a", -1], 1)),
    ({"a": {}}, patch.set(["a", 0], 1)),
    ({}, patch.set([], 1)),
    ({}, patch.delete([])),
    ({"a": 1}, patch.delete(["a", "b"])),
    ({"a": {}}, patch.append(["a"], 1)),
    ({"a": None}, patch.append(["a"], 1)),
    ({"a": []}, patch.merge(["a"], {"x": 1})),
    ({"a": "1"}, patch.increment(["a"])),
    ({"a": True}, patch.increment(["a"])),
    ({"a": 1.5}, patch.increment(["a"], 1)),
    ({"a": 1.5e308}, patch.increment(["a"], 1.5e308)),
    ({}, patch.insert(["a"], 0, 1)),
    ({"a": [1]}, patch.insert(["a"], 2, 1)),
    ({"a": [1]}, patch.insert(["a"], -1, 1)),
    ({"a": "text"}, patch.remove(["a"], "t")),
    ({"a": "1"}, patch.max(["a"], 1)),
    ({"a": [1]}, patch.min(["a"], 1)),
    ({"a": {}}, patch.union(["a"], [1])),
    ({}, patch.set(["deep"] * 1000, 1)),
]


def case_name(case: Document | Op) -> str | None:
    """The name of a case in a report."""
    return None if isinstance(case, dict) else op_name(case)


class OpsContract(StoreFixtures):
    """Tests of ops on a stored state."""

    @pytest.mark.promise("T-15")
    @pytest.mark.parametrize(("before", "op", "after"), FITTING_OPS, ids=case_name)
    async def test_an_op_changes_the_stored_state(
        self, thread: Thread, before: Document, op: Op, after: Document
    ) -> None:
        await thread.append(snapshot=before)
        await thread.append(patches=[op])

        assert canonical_bytes(await thread.state()) == canonical_bytes(after)

    @pytest.mark.promise("T-15")
    @pytest.mark.parametrize(("before", "op"), ILL_TYPED_OPS, ids=case_name)
    async def test_an_op_that_does_not_fit_fails_the_whole_changeset(
        self, thread: Thread, before: Document, op: Op
    ) -> None:
        await thread.append(snapshot=before)
        dump = await thread_dump(thread)

        with pytest.raises(OpFailed) as caught:
            await thread.append(items=[user("lost")], patches=[patch.set(["fits"], 1), op])
        assert (caught.value.index, caught.value.op) == (1, op_name(op))
        assert caught.value.path == list(op.path)
        assert await thread_dump(thread) == dump

    @pytest.mark.promise("T-15")
    async def test_a_thread_goes_on_after_an_op_that_does_not_fit(self, thread: Thread) -> None:
        with pytest.raises(OpFailed):
            await thread.append(patches=[patch.set(["a"], 1), patch.append(["a"], 1)])
        await thread.append(patches=[patch.append(["a"], 1)])

        assert await thread.state() == {"a": [1]}

    @pytest.mark.promise("T-15")
    async def test_ops_of_one_changeset_apply_in_order(self, thread: Thread) -> None:
        ops: list[Op] = [
            patch.set(["a"], [1]),
            patch.append(["a"], 2),
            patch.insert(["a"], 0, 0),
            patch.remove(["a"], 1),
        ]
        await thread.append(patches=ops)

        assert await thread.state() == {"a": [0, 2]}
