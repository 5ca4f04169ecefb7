"""Pairing: what is open after items, and before them again."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import TranscriptBroken
from clew.core.items import assistant, call, repair, result, user
from clew.core.log.codec import ItemMeta
from clew.core.log.tool_calls import open_calls_after, open_calls_before
from clew.core.values import Item

runs = st.sampled_from([None, "r1", "r2"])
ids = st.sampled_from(["c1", "c2", "c3"])
guests = st.builds(
    Item,
    body=st.none(),
    kind=st.sampled_from(["call", "result", "message"]),
    call=st.none() | ids,
    format=st.just("openai.responses"),
)
entries = st.one_of(
    st.builds(user, st.just("u"), run=runs),
    st.builds(assistant, st.just("a"), run=runs),
    st.builds(call, ids, st.just("f"), st.none(), run=runs),
    st.builds(result, ids, st.none(), run=runs),
    guests,
)


def meta(item: Item) -> ItemMeta:
    """What is stored of an item besides its body."""
    names = ItemMeta.__struct_fields__
    return ItemMeta(**{name: getattr(item, name) for name in names})


def valid(items: list[Item]) -> list[tuple[dict[str, str | None], Item]]:
    """Those of the items that may follow one another, each with what was open before it."""
    open: dict[str, str | None] = {}
    pairs: list[tuple[dict[str, str | None], Item]] = []
    for item in items:
        try:
            after = open_calls_after(open, [meta(item)], "t")
        except TranscriptBroken:
            continue
        pairs.append((open, item))
        open = after
    if open:
        pairs.append((open, repair(open, "the end")))
    return pairs


@settings(deadline=None, max_examples=150)
@given(st.lists(entries, max_size=12))
def test_taking_items_away_opens_what_was_open_before_them(items: list[Item]) -> None:
    pairs = valid(items)
    metas = [meta(item) for _, item in pairs]
    open = open_calls_after({}, metas, "t")

    for before, item in reversed(pairs):
        open = open_calls_before(open, [item])
        assert open == before


@settings(deadline=None, max_examples=150)
@given(st.lists(entries, max_size=12))
def test_every_call_of_ours_is_answered_by_its_run_before_anything_else(items: list[Item]) -> None:
    clew_items = [item for _, item in valid(items) if item.format == "clew"]
    open: dict[str | None, str | None] = {}
    for item in clew_items:
        if item.kind == "call":
            assert item.call not in open
            assert all(run == item.run for run in open.values())
            open[item.call] = item.run
        elif item.kind == "result":
            assert open.pop(item.call, "nobody") == item.run
        elif item.kind == "repair":
            open = {}
        else:
            assert not open

    assert open == {}


def test_a_repair_closes_everything() -> None:
    open = open_calls_after({}, map(meta, [call("a", "f", 1, run="r"), call("b", "f", 1, run="r")]), "t")

    assert open_calls_after(open, [meta(repair(open, "crash"))], "t") == {}


def test_a_repair_of_a_strange_shape_is_taken_away_all_the_same() -> None:
    strange = msgspec.structs.replace(repair({}, "crash"), body="just text")

    assert open_calls_before({}, [strange]) == {}


@pytest.mark.parametrize(
    "items",
    [
        [result("a", 1)],
        [call("a", "f", 1), call("a", "f", 1)],
        [call("a", "f", 1), user("hi")],
        [call("a", "f", 1, run="r"), result("a", 1, run="s")],
    ],
    ids=["no call", "twice", "a message between", "another run"],
)
@pytest.mark.promise("B-05")
def test_what_may_not_follow(items: list[Item]) -> None:
    with pytest.raises(TranscriptBroken):
        open_calls_after({}, map(meta, items), "t")
