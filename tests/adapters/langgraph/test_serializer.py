"""Encoding the messages of a chat again and again: only what they say decides, at any depth."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from clew.adapters.langgraph.serializer import STRETCH, Serializer

LENGTH = 2 * STRETCH + 5

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, -1.0]),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from([(1,), frozenset({1}), uuid.UUID(int=1)]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)
KINDS: list[type[BaseMessage]] = [HumanMessage, AIMessage, SystemMessage, ToolMessage]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "deep", "content", "other type", "take out", "put in", "extra field"]),
        st.integers(0, LENGTH),
        VALUES,
    ),
    max_size=8,
)


def message(kind: type[BaseMessage], number: int) -> BaseMessage:
    """A message that has something at some depth."""
    fields: dict[str, Any] = {"additional_kwargs": {"deep": [{"deeper": number % 3}]}, "id": str(number)}
    if kind is ToolMessage:
        fields["tool_call_id"] = "call"
    return kind(content=f"message {number}", **fields)


def change(messages: list[BaseMessage], step: tuple[str, int, Any]) -> None:
    """Do to some messages, in place, what a node of a graph might do to them."""
    name, number, value = step
    at = number % len(messages)
    match name:
        case "append":
            messages.append(message(KINDS[number % 4], number))
        case "deep":
            messages[at].additional_kwargs["deep"][0]["deeper"] = value
        case "content":
            messages[at].content = [{"type": "text", "text": value}]
        case "other type":
            messages[at] = message(KINDS[(number + 1) % 4], at)
        case "take out":
            del messages[at]
        case "put in":
            messages.insert(at, message(KINDS[number % 4], number))
        case _:
            fields: dict[str, Any] = {"additional_kwargs": {"deep": [{}]}, "colour": value}
            messages[at] = HumanMessage(content="hi", **fields)


@pytest.mark.promise("B-10")
@given(steps=STEPS)
def test_an_edit_of_any_message_at_any_depth_is_encoded(steps: list[tuple[str, int, Any]]) -> None:
    serializer, messages = Serializer(), [message(KINDS[number % 4], number) for number in range(LENGTH)]
    serializer.pack_all(messages, "channel", "place")

    for step in steps:
        change(messages, step)

        assert serializer.pack_all(messages, "channel", "place") == [
            Serializer().pack(one) for one in messages
        ]
