"""Ops: folding is a function, differences lead to their target, and what is said to commute does."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.core import patch
from clew.core.encoding import decode, encode
from clew.core.errors import OpFailed
from clew.core.ops import Document, Op, apply_ops, commute, diff
from tests.core.strategies import documents, json_values, ops, paths, texts

many = settings(deadline=None, max_examples=150)


def outcome(document: Document, changes: list[Op]) -> bytes | None:
    """The state to the byte, or None where an op does not fit."""
    try:
        return encode(apply_ops(document, changes))
    except OpFailed:
        return None


@many
@given(documents, st.lists(ops(), max_size=5))
def test_folding_twice_gives_the_same_bytes(document: Document, changes: list[Op]) -> None:
    assert outcome(document, changes) == outcome(decode(encode(document)), list(changes))


@many
@given(documents, st.lists(ops(), max_size=5))
def test_folding_leaves_its_input_as_it_was(document: Document, changes: list[Op]) -> None:
    before, ops_before = encode(document), encode([repr(op) for op in changes])
    outcome(document, changes)

    assert (encode(document), encode([repr(op) for op in changes])) == (before, ops_before)


@many
@given(documents, st.lists(ops(), max_size=6), st.integers(0, 6))
def test_folding_in_two_parts_is_folding_at_once(document: Document, changes: list[Op], at: int) -> None:
    first = outcome(document, changes[:at])
    whole = outcome(document, changes)

    assert whole == (None if first is None else outcome(decode(first), changes[at:]))


@many
@given(documents, documents)
def test_a_difference_leads_to_its_target(before: Document, after: Document) -> None:
    assert encode(apply_ops(before, diff(before, after))) == encode(after)


@many
@given(st.dictionaries(texts, json_values, max_size=4), st.dictionaries(texts, json_values, max_size=4))
def test_a_difference_of_any_two_documents_leads_to_its_target(before: Document, after: Document) -> None:
    assert encode(apply_ops(before, diff(before, after))) == encode(after)


@given(documents)
def test_nothing_differs_from_itself(document: Document) -> None:
    assert diff(document, decode(encode(document))) == []


@pytest.mark.parametrize("values", [(1, 1.0), (1, True), (0, False), (0.0, -0.0), (None, 0), ("", None)])
def test_values_that_only_look_equal_differ(values: tuple[object, object]) -> None:
    before, after = values

    assert diff({"a": before}, {"a": after}) == [patch.set(["a"], after)]


@settings(deadline=None, max_examples=500)
@given(documents, ops(), ops())
def test_ops_that_commute_give_the_same_state_in_either_order(document: Document, one: Op, other: Op) -> None:
    if not commute(one, other):
        return
    forwards, backwards = outcome(document, [one, other]), outcome(document, [other, one])

    assert forwards is None or backwards is None or forwards == backwards


@settings(deadline=None, max_examples=100)
@given(documents, st.data(), paths)
@example({"a": [1, 2]}, None, ["a", 0])
def test_ops_on_one_path_that_commute_give_the_same_state(
    document: Document, data: st.DataObject | None, path: list[str | int]
) -> None:
    at_path = st.just(path) | st.just([*path, "a"]) | st.just([*path, 0]) | st.just(path[:-1])
    one, other = (data.draw(ops(at_path)), data.draw(ops(at_path))) if data else (patch.delete(path),) * 2
    if not commute(one, other):
        return
    forwards, backwards = outcome(document, [one, other]), outcome(document, [other, one])

    assert forwards is None or backwards is None or forwards == backwards


@settings(deadline=None, max_examples=150)
@given(documents, st.lists(ops(), max_size=3), st.lists(ops(), max_size=3))
def test_lists_of_ops_that_commute_give_the_same_state(
    document: Document, ours: list[Op], theirs: list[Op]
) -> None:
    if not all(commute(one, other) for one in ours for other in theirs):
        return
    forwards, backwards = outcome(document, [*ours, *theirs]), outcome(document, [*theirs, *ours])

    assert forwards is None or backwards is None or forwards == backwards


@many
@given(ops(), ops())
def test_commuting_is_mutual(one: Op, other: Op) -> None:
    assert commute(one, other) == commute(other, one)


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (patch.increment(["n"]), patch.increment(["n"], 2), True),
        (patch.increment(["n"], 0.5), patch.increment(["n"], 2), False),
        (patch.max(["n"], 1), patch.max(["n"], 2), True),
        (patch.min(["n"], 1), patch.min(["n"], 2), True),
        (patch.max(["n"], 1), patch.min(["n"], 2), False),
        (patch.union(["s"], [1]), patch.union(["s"], [2]), True),
        (patch.merge(["m"], {"a": 1}), patch.merge(["m"], {"b": 1}), True),
        (patch.merge(["m"], {"a": 1}), patch.merge(["m"], {"a": 2}), False),
        (patch.append(["l"], 1), patch.append(["l"], 1), False),
        (patch.set(["a"], 1), patch.set(["b"], 1), True),
        (patch.set(["a"], 1), patch.set(["a"], 1), True),
        (patch.set(["a"], 1), patch.set(["a"], 1.0), False),
        (patch.set(["a"], 1), patch.set(["a", "b"], 1), False),
        (patch.delete(["a"]), patch.delete(["a"]), True),
        (patch.delete(["l", 0]), patch.delete(["l", 0]), False),
        (patch.delete(["l", 0]), patch.set(["l", 1], 1), False),
        (patch.set(["l", 0], 1), patch.set(["l", 1], 1), True),
        (patch.insert(["l"], 0, 1), patch.set(["l", 1], 1), False),
    ],
)
@pytest.mark.promise("T-15")
def test_which_ops_commute(one: Op, other: Op, answer: bool) -> None:  # noqa: FBT001 - a table of cases
    assert commute(one, other) is answer


def test_deleting_what_is_not_there_makes_nothing() -> None:
    assert apply_ops({}, [patch.delete(["a", "b", "c"]), patch.remove(["x", "y"], 1)]) == {}


@pytest.mark.promise("T-15")
def test_an_op_that_does_not_fit_is_named() -> None:
    with pytest.raises(OpFailed) as error:
        apply_ops({"a": {"b": 1}}, [patch.set(["x"], 1), patch.append(["a", "b"], 2)])
    assert (error.value.index, error.value.op, error.value.path) == (1, "append", ["a", "b"])
    assert "a number is not a list" in str(error.value)
