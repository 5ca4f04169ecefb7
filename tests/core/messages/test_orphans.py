"""Halves of tool calls whose other half is missing are found, whatever the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.orphans import Orphans, find_orphans

Messages = list[tuple[list[str], list[str]]]


def call(*ids: str) -> tuple[list[str], list[str]]:
    return list(ids), []


def result(*ids: str) -> tuple[list[str], list[str]]:
    return [], list(ids)


@pytest.mark.promise("B-05")
@pytest.mark.parametrize(
    ("messages", "calls", "results"),
    [
        ([call("a"), result("a")], [], []),
        ([call("a", "b"), result("b"), result("a")], [], []),
        ([call("a")], [(0, "a")], []),
        ([result("a")], [], [(0, "a")]),
        ([result("a"), call("a")], [(1, "a")], [(0, "a")]),
        ([call("a"), result("a"), result("a")], [], [(2, "a")]),
        ([call("a"), result("a"), call("a"), result("a")], [], []),
        ([call("a"), call("a"), result("a")], [(0, "a")], []),
        ([call("a", "b"), result("b", "c")], [(0, "a")], [(1, "c")]),
    ],
)
def test_orphans_are_found_by_message_and_call(
    messages: Messages, calls: list[tuple[int, str]], results: list[tuple[int, str]]
) -> None:
    assert find_orphans(messages) == Orphans(calls=frozenset(calls), results=frozenset(results))


ids = st.lists(st.sampled_from("abc"), max_size=2, unique=True)


@given(st.lists(st.one_of(st.tuples(ids, st.just([])), st.tuples(st.just([]), ids))))
def test_without_its_orphans_a_transcript_has_none(messages: Messages) -> None:
    orphans = find_orphans(messages)
    rest = [
        (
            [id for id in made if (n, id) not in orphans.calls],
            [id for id in answered if (n, id) not in orphans.results],
        )
        for n, (made, answered) in enumerate(messages)
    ]

    assert find_orphans(rest) == Orphans()
