"""Ops: what each does to a stored state, and how one that does not fit fails."""

# ruff: noqa: D102 - tests are named by sentences.

from typing import Final

import pytest

from clew.core import making
from clew.core.errors import OpFailed
from clew.core.items import user
from clew.core.ops import Document, Op, name_of
from clew.testing.contracts.reading import canonical, everything
from clew.testing.given import Given
from clew.threads.thread import Thread

FITTING: Final[list[tuple[Document, Op, Document]]] = [
    ({}, making.set(["a"], 1), {"a": 1}),
    ({"a": 1}, making.set(["a"], None), {"a": None}),
    ({}, making.set(["a", "b", "c"], [1]), {"a": {"b": {"c": [1]}}}),
    ({"a": [1, 2]}, making.set(["a", 1], 3), {"a": [1, 3]}),
    ({"a": 1}, making.set([], {"b": 2}), {"b": 2}),
    ({"a": 1, "b": 2}, making.delete(["a"]), {"b": 2}),
    ({"b": 2}, making.delete(["a"]), {"b": 2}),
    ({"b": 2}, making.delete(["a", "x"]), {"b": 2}),
    ({"a": [1, 2, 3]}, making.delete(["a", 1]), {"a": [1, 3]}),
    ({}, making.append(["a"], 1), {"a": [1]}),
    ({"a": [1]}, making.append(["a"], [2]), {"a": [1, [2]]}),
    ({"a": {"x": 1, "y": 2}}, making.merge(["a"], {"y": 3, "z": 4}), {"a": {"x": 1, "y": 3, "z": 4}}),
    ({}, making.merge(["a"], {"x": 1}), {"a": {"x": 1}}),
    ({"k": 1}, making.merge([], {"x": 1}), {"k": 1, "x": 1}),
    ({}, making.increment(["n"], 2), {"n": 2}),
    ({"n": 1}, making.increment(["n"], -3), {"n": -2}),
    ({"n": 1.5}, making.increment(["n"], 0.5), {"n": 2.0}),
    ({"n": 2**63}, making.increment(["n"], 2**63), {"n": 2**64}),
    ({"a": [1, 3]}, making.insert(["a"], 1, 2), {"a": [1, 2, 3]}),
    ({"a": []}, making.insert(["a"], 0, 2), {"a": [2]}),
    ({"a": [1, 2, 1]}, making.remove(["a"], 1), {"a": [2, 1]}),
    ({"a": [1.0, True, 1]}, making.remove(["a"], 1), {"a": [1.0, True]}),
    ({"a": [1]}, making.remove(["a"], 9), {"a": [1]}),
    ({}, making.remove(["a"], 9), {}),
    ({}, making.max(["n"], 2), {"n": 2}),
    ({"n": 5}, making.max(["n"], 2), {"n": 5}),
    ({"n": "a"}, making.max(["n"], "b"), {"n": "b"}),
    ({"n": 5}, making.min(["n"], 2.5), {"n": 2.5}),
    ({}, making.union(["s"], ["b", "a", "b"]), {"s": ["a", "b"]}),
    ({"s": [3, 1]}, making.union(["s"], [2, 1]), {"s": [1, 2, 3]}),
    ({}, making.set(["a.b"], 1), {"a.b": 1}),
    ({"a": {"b": 1}}, making.set(["a.b"], 2), {"a": {"b": 1}, "a.b": 2}),
    ({}, making.set(["", "$", "/~", "0", "ключ", "🦊"], 1), {"": {"$": {"/~": {"0": {"ключ": {"🦊": 1}}}}}}),
]

ILL_TYPED: Final[list[tuple[Document, Op]]] = [
    ({"a": 1}, making.set(["a", "b"], 1)),
    ({"a": [1]}, making.set(["a", "b"], 1)),
    ({"a": [1]}, making.set(["a", 1], 1)),
    ({"a": [1]}, making.set(["a", -1], 1)),
    ({"a": {}}, making.set(["a", 0], 1)),
    ({}, making.set([], 1)),
    ({}, making.delete([])),
    ({"a": 1}, making.delete(["a", "b"])),
    ({"a": {}}, making.append(["a"], 1)),
    ({"a": None}, making.append(["a"], 1)),
    ({"a": []}, making.merge(["a"], {"x": 1})),
    ({"a": "1"}, making.increment(["a"])),
    ({"a": True}, making.increment(["a"])),
    ({"a": 1.5}, making.increment(["a"], 1)),
    ({"a": 1.5e308}, making.increment(["a"], 1.5e308)),
    ({}, making.insert(["a"], 0, 1)),
    ({"a": [1]}, making.insert(["a"], 2, 1)),
    ({"a": [1]}, making.insert(["a"], -1, 1)),
    ({"a": "text"}, making.remove(["a"], "t")),
    ({"a": "1"}, making.max(["a"], 1)),
    ({"a": [1]}, making.min(["a"], 1)),
    ({"a": {}}, making.union(["a"], [1])),
    ({}, making.set(["deep"] * 1000, 1)),
]


def named(case: Document | Op) -> str | None:
    """How a case is called in a report."""
    return None if isinstance(case, dict) else name_of(case)


class OpsContract(Given):
    """How ops change a stored state."""

    @pytest.mark.promise("T-15")
    @pytest.mark.parametrize(("before", "op", "after"), FITTING, ids=named)
    async def test_an_op_changes_the_stored_state(
        self, thread: Thread, before: Document, op: Op, after: Document
    ) -> None:
        await thread.append(snapshot=before)
        await thread.append(patches=[op])

        assert canonical(await thread.state()) == canonical(after)

    @pytest.mark.promise("T-15")
    @pytest.mark.parametrize(("before", "op"), ILL_TYPED, ids=named)
    async def test_an_op_that_does_not_fit_fails_the_whole_changeset(
        self, thread: Thread, before: Document, op: Op
    ) -> None:
        await thread.append(snapshot=before)
        seen = await everything(thread)

        with pytest.raises(OpFailed) as caught:
            await thread.append(items=[user("lost")], patches=[making.set(["fits"], 1), op])
        assert (caught.value.index, caught.value.op) == (1, name_of(op))
        assert caught.value.path == list(op.path)
        assert await everything(thread) == seen

    @pytest.mark.promise("T-15")
    async def test_a_thread_goes_on_after_an_op_that_does_not_fit(self, thread: Thread) -> None:
        with pytest.raises(OpFailed):
            await thread.append(patches=[making.set(["a"], 1), making.append(["a"], 1)])
        await thread.append(patches=[making.append(["a"], 1)])

        assert await thread.state() == {"a": [1]}

    @pytest.mark.promise("T-15")
    async def test_ops_of_one_changeset_apply_in_order(self, thread: Thread) -> None:
        ops: list[Op] = [
            making.set(["a"], [1]),
            making.append(["a"], 2),
            making.insert(["a"], 0, 0),
            making.remove(["a"], 1),
        ]
        await thread.append(patches=ops)

        assert await thread.state() == {"a": [0, 2]}
