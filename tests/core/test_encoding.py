"""Canonical JSON: one encoding for one value, and nothing but JSON."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.encoding import MOST_DEPTH, check_id, decode, encode, encode_checked, is_same
from clew.core.errors import InvalidId, InvalidValue
from tests.core.strategies import json_values

NOT_JSON = st.sampled_from(
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        b"x",
        bytearray(b"x"),
        (1,),
        {1},
        frozenset(),
        Decimal(1),
        UUID(int=1),
        datetime(2026, 1, 1, tzinfo=UTC),
        "\ud800",
        {1: 1},
        {None: 1},
        {"\udc00": 1},
        {(1,): 1},
        object(),
        1j,
        print,
    ]
)


LOOKALIKES: list[Any] = [1, 1.0, True, "1", None, [], {}, [1], [1.0]]


def nest(value: Any, path: list[str | int]) -> tuple[Any, str]:
    """A value somewhere inside a larger one, and where."""
    where = ""
    for key in path:
        value, where = (
            ({"ok": 1, key: value}, f".{key}{where}") if isinstance(key, str) else ([0, value], f"[1]{where}")
        )
    return value, where


@settings(deadline=None, max_examples=150)
@given(json_values)
def test_json_is_accepted_and_copied(value: Any) -> None:
    data, copy = encode_checked(value)

    assert (data, repr(copy)) == (encode(value), repr(decode(data)))
    assert is_same(copy, value)


@settings(deadline=None, max_examples=150)
@given(json_values)
def test_equal_values_have_equal_bytes(value: Any) -> None:
    again = json.loads(json.dumps(value))

    assert encode(again) == encode(value)


@settings(deadline=None, max_examples=150)
@given(NOT_JSON, st.lists(st.sampled_from(["a", "b.c", 1]), max_size=4))
def test_what_is_not_json_is_refused_and_named_wherever_it_is(value: Any, path: list[str | int]) -> None:
    whole, where = nest(value, path)

    with pytest.raises(InvalidValue) as error:
        encode_checked(whole)
    assert error.value.path == f"${where}"
    assert error.value.problem


@pytest.mark.parametrize("depth", [MOST_DEPTH, MOST_DEPTH + 1, 999, 1000, 1001, 100_000])
@pytest.mark.parametrize("kind", ["list", "object"])
def test_nesting_is_allowed_to_a_depth_and_refused_beyond(depth: int, kind: str) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"k": value}

    if depth <= MOST_DEPTH:
        assert encode_checked(value)[1] == value
    else:
        with pytest.raises(InvalidValue, match="nested"):
            encode_checked(value)


def test_many_brackets_are_not_deep() -> None:
    value = [[n, {"k": "[{" * 50}] for n in range(1000)]

    assert encode_checked(value)[1] == value


def test_a_mapping_that_is_an_object_is_accepted() -> None:
    assert encode_checked(OrderedDict(b=1, a=2))[0] == b'{"a":2,"b":1}'


@pytest.mark.parametrize("one", LOOKALIKES, ids=repr)
@pytest.mark.parametrize("other", LOOKALIKES, ids=repr)
def test_same_means_to_the_byte(one: Any, other: Any) -> None:
    assert is_same(one, other) is (repr(one) == repr(other))


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=100))
def test_printable_text_is_an_id(text: str) -> None:
    assert check_id(text, "id") == text


@pytest.mark.parametrize(
    "bad", ["", "x" * 513, "é" * 257, "\x00", "a\nb", "\x7f", "\ud800", b"x", 1, None, ["x"]]
)
def test_what_cannot_name_anything_is_no_id(bad: object) -> None:
    with pytest.raises(InvalidId) as error:
        check_id(bad, "thread id")
    assert "thread id" in str(error.value)
