"""What an item says is found in every format, and nothing that is stored makes it fail."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.core.encoding import JSON
from clew.core.messages.plain import PlainMessage, PlainToolCall, PlainToolResult, as_chat, as_responses
from clew.core.messages.projection import plain_messages, project_item

FORMATS = ["clew", "openai.responses", "langchain", "adk", "pydantic-ai", "unheard of"]

MESSAGES = [
    PlainMessage(role="system", text="Be kind."),
    PlainMessage(role="user", text="How is Lisbon?"),
    PlainMessage(
        role="assistant", calls=(PlainToolCall(id="c1", name="weather", arguments={"city": "Lisbon"}),)
    ),
    PlainMessage(role="tool", results=(PlainToolResult(id="c1", name="weather", output="blue"),)),
    PlainMessage(role="assistant", text="It is blue."),
]

OURS = [
    clew.system("Be kind."),
    clew.user("How is Lisbon?"),
    clew.call("c1", "weather", {"city": "Lisbon"}),
    clew.result("c1", "blue"),
    clew.assistant("It is blue."),
]

RESPONSES: list[dict[str, JSON]] = [
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": [{"type": "input_text", "text": "How is Lisbon?"}]},
    {
        "type": "function_call",
        "call_id": "c1",
        "name": "weather",
        "arguments": '{"city":"Lisbon"}',
        "id": "x",
    },
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call_output", "call_id": "c1", "output": "blue"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is blue.", "annotations": []}],
    },
]

LANGCHAIN: list[dict[str, JSON]] = [
    {"type": "system", "content": "Be kind."},
    {"type": "human", "data": {"content": "How is Lisbon?", "id": "m1"}},
    {
        "type": "ai",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}],
        "tool_calls": [{"name": "weather", "args": {"city": "Lisbon"}, "id": "c1", "type": "tool_call"}],
    },
    {"type": "tool", "content": "blue", "tool_call_id": "c1", "name": "weather"},
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "AIMessage"],
        "kwargs": {
            "type": "ai",
            "content": [
                {"type": "reasoning", "summary": [{"text": "hm"}]},
                {"type": "text", "text": "It is blue."},
            ],
        },
    },
]

ADK: list[dict[str, JSON]] = [
    {"author": "user", "content": {"role": "user", "parts": [{"text": "How is Lisbon?"}]}},
    {
        "author": "agent",
        "content": {
            "parts": [
                {"text": "hm", "thought": True},
                {"function_call": {"id": "c1", "name": "weather", "args": {"city": "Lisbon"}}},
            ]
        },
    },
    {
        "author": "agent",
        "content": {
            "parts": [{"function_response": {"id": "c1", "name": "weather", "response": {"result": "blue"}}}]
        },
    },
    {"author": "agent", "content": {"parts": [{"text": "It is blue."}]}},
]

PYDANTIC_AI: list[dict[str, JSON]] = [
    {
        "kind": "request",
        "parts": [
            {"part_kind": "system-prompt", "content": "Be kind."},
            {"part_kind": "user-prompt", "content": "How is Lisbon?"},
        ],
    },
    {
        "kind": "response",
        "parts": [
            {"part_kind": "thinking", "content": "hm"},
            {
                "part_kind": "tool-call",
                "tool_name": "weather",
                "args": '{"city":"Lisbon"}',
                "tool_call_id": "c1",
            },
        ],
    },
    {
        "kind": "request",
        "parts": [
            {"part_kind": "tool-return", "tool_name": "weather", "content": "blue", "tool_call_id": "c1"}
        ],
    },
    {"kind": "response", "parts": [{"part_kind": "text", "content": "It is blue."}]},
]


def items(format: str, bodies: list[dict[str, JSON]]) -> list[clew.Item]:
    return [clew.Item(body=body, format=format) for body in bodies]


@pytest.mark.promise("B-10")
@pytest.mark.parametrize(
    "items",
    [
        OURS,
        items("openai.responses", RESPONSES),
        items("langchain", LANGCHAIN),
        items("pydantic-ai", PYDANTIC_AI),
    ],
    ids=["clew", "openai.responses", "langchain", "pydantic-ai"],
)
def test_one_conversation_reads_the_same_in_every_format(items: list[clew.Item]) -> None:
    assert plain_messages(items) == MESSAGES


@pytest.mark.promise("B-10")
def test_a_session_of_adk_reads_the_same_without_instructions() -> None:
    assert plain_messages(items("adk", ADK)) == MESSAGES[1:]


def test_a_message_that_langgraph_packed_is_read_without_making_it() -> None:
    fields = {"content": "Hi", "type": "human", "id": None}
    inner = msgspec.msgpack.encode(["langchain_core.messages.human", "HumanMessage", fields, "x"])
    body = msgspec.msgpack.encode(msgspec.msgpack.Ext(5, inner))
    item = clew.Item(body=body, format="langchain", codec="msgpack")

    assert project_item(item) == (PlainMessage(role="user", text="Hi"),)


def test_one_item_may_speak_in_several_roles() -> None:
    body = {
        "kind": "request",
        "parts": [
            {"part_kind": "tool-return", "tool_name": "f", "content": {"n": 1}, "tool_call_id": "c1"},
            {"part_kind": "user-prompt", "content": ["Look:", {"kind": "binary", "data": "AA=="}]},
        ],
    }

    assert project_item(clew.Item(body=body, format="pydantic-ai")) == (
        PlainMessage(role="tool", results=(PlainToolResult(id="c1", name="f", output={"n": 1}),)),
        PlainMessage(role="user", text="Look:"),
    )


def test_a_tool_of_the_provider_is_called_and_answered() -> None:
    body = {"type": "mcp_call", "id": "m1", "name": "find", "arguments": '{"q":"x"}', "output": "found"}

    assert project_item(clew.Item(body=body, format="openai.responses")) == (
        PlainMessage(role="assistant", calls=(PlainToolCall(id="m1", name="find", arguments={"q": "x"}),)),
        PlainMessage(role="tool", results=(PlainToolResult(id="m1", name="find", output="found"),)),
    )


def test_a_repair_answers_the_calls_it_closes() -> None:
    from clew.core.items import repair

    assert project_item(repair({"c1": None}, "It ended.")) == (
        PlainMessage(role="tool", results=(PlainToolResult(id="c1", output="It ended."),)),
    )


def test_what_says_nothing_is_left_out() -> None:
    state_only = {"author": "agent", "actions": {"state_delta": {"mood": "calm"}}}

    assert (
        plain_messages([clew.Item(body=state_only, format="adk"), clew.Item(body=b"\x00", codec="png")]) == []
    )


def test_an_unknown_format_gives_its_text() -> None:
    item = clew.Item(body={"content": ["one", {"text": "two"}]}, format="unheard of", role="user")

    assert project_item(item) == (PlainMessage(role="user", text="one\ntwo"),)


KEYS = [
    *("type", "role", "content", "text", "parts", "kind", "part_kind", "tool_calls", "args", "id", "call_id"),
    *("name", "output", "author", "function_call", "function_response", "response", "data", "kwargs"),
    *("tool_call_id", "tool_name", "summary", "calls", "arguments"),
]
bodies = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(
    body=bodies,
    format=st.sampled_from(FORMATS),
    kind=st.sampled_from(["message", "call", "result", "repair"]),
)
def test_nothing_that_can_be_stored_makes_it_fail(body: JSON, format: str, kind: str) -> None:
    messages = project_item(clew.Item(body=body, format=format, kind=kind))

    assert all(message.text or message.calls or message.results for message in messages)


@given(body=st.binary(max_size=40), codec=st.sampled_from(["msgpack", "png"]))
def test_no_bytes_make_it_fail(body: bytes, codec: str) -> None:
    assert isinstance(project_item(clew.Item(body=body, format="langchain", codec=codec)), tuple)


@pytest.mark.promise("B-10")
def test_plain_messages_become_items_of_openai_and_come_back() -> None:
    assert plain_messages(items("openai.responses", as_responses(MESSAGES))) == MESSAGES


def test_plain_messages_become_those_of_a_chat() -> None:
    assert as_chat(MESSAGES) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "How is Lisbon?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Lisbon"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "blue"},
        {"role": "assistant", "content": "It is blue."},
    ]
