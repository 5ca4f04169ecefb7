"""A conversation with half a tool call goes on: Pydantic AI repairs most of it, and the store the rest."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic_ai import Agent, Conversation, DeferredToolRequests
from pydantic_ai import messages as m
from pydantic_ai.exceptions import UserError
from pydantic_ai.models.function import AgentInfo, FunctionModel

import clew
from clew.adapters.pydantic_ai import Conversations

pytestmark = pytest.mark.promise("B-05", "B-10")

INTERRUPTED = "The tool call was interrupted before a result was produced."
ASKED = m.ModelRequest(parts=[m.UserPromptPart(content="Where is it?")])
ANSWER = m.ModelResponse(parts=[m.TextPart(content="Fine.")])
CALLS = m.ModelResponse(
    parts=[
        m.ToolCallPart(tool_name="look", args={}, tool_call_id="c1"),
        m.ToolCallPart(tool_name="look", args={}, tool_call_id="c2"),
    ]
)


def result(call: str) -> m.ModelRequest:
    return m.ModelRequest(parts=[m.ToolReturnPart(tool_name="look", content="found", tool_call_id=call)])


class Listener:
    """An agent's model that keeps what it is shown of tools."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, Any]] = []

    def answer(self, messages: list[m.ModelMessage], info: AgentInfo) -> m.ModelResponse:
        """Take note of the parts, and answer."""
        parts = [part for message in messages for part in message.parts]
        self.shown = [
            (part.part_kind, part.tool_call_id, getattr(part, "content", None))
            for part in parts
            if isinstance(part, m.ToolCallPart | m.ToolReturnPart)
        ]
        return m.ModelResponse(parts=[m.TextPart(content="Yes.")])


async def go_on(store: Conversations) -> list[tuple[str, str, Any]]:
    """What a model is shown of tools when a stored conversation goes on with a prompt."""
    listener = Listener()
    conversation = await store.load("c")
    assert conversation is not None
    await store.save(await Agent(FunctionModel(listener.answer)).run("Next.", conversation=conversation))
    return listener.shown


@pytest.fixture
def healer(db: clew.Database) -> Conversations:
    """A store that closes open calls."""
    return Conversations(db, heal=True)


async def keep(store: Conversations, *messages: m.ModelMessage) -> None:
    await store.save(Conversation(conversation_id="c", messages=list(messages)))


@pytest.mark.parametrize(
    ("history", "shown"),
    [
        ([ASKED, CALLS], [("c1", INTERRUPTED), ("c2", INTERRUPTED)]),
        ([ASKED, CALLS, result("c2")], [("c2", "found"), ("c1", INTERRUPTED)]),
        ([ASKED, CALLS, result("c1"), result("c2"), ANSWER], [("c1", "found"), ("c2", "found")]),
        ([ASKED, CALLS, ASKED, ANSWER], [("c1", INTERRUPTED), ("c2", INTERRUPTED)]),
        ([result("c1"), ANSWER], []),
        ([ASKED, ANSWER, result("c1"), ANSWER], []),
    ],
    ids=["open", "half open", "whole", "passed over", "no call", "no call in the middle"],
)
async def test_each_call_that_a_model_is_shown_has_its_result(
    healer: Conversations, history: list[m.ModelMessage], shown: list[tuple[str, str]]
) -> None:
    await keep(healer, *history)
    parts = await go_on(healer)
    calls = [call for kind, call, _ in parts if kind == "tool-call"]

    assert sorted(calls) == sorted(call for call, _ in shown)
    assert sorted((call, content) for kind, call, content in parts if kind == "tool-return") == sorted(shown)


async def test_what_was_stored_stays_and_the_closing_message_follows_it(
    healer: Conversations, db: clew.Database, caplog: pytest.LogCaptureFixture
) -> None:
    await keep(healer, ASKED, CALLS)
    with caplog.at_level(logging.WARNING, "clew"):
        await go_on(healer)
    await go_on(healer)
    items = await db.thread("c").items()

    assert [item.role for item in items] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [record.message for record in caplog.records] == [
        "Conversation 'c' ended with open calls, which are closed: 'c1', 'c2'."
    ]


async def test_without_healing_an_open_call_waits_for_its_result(store: Conversations) -> None:
    await keep(store, ASKED, CALLS)

    with pytest.raises(UserError, match="unprocessed tool calls"):
        await go_on(store)


async def test_calls_that_a_run_has_deferred_stay_open(healer: Conversations) -> None:
    deferred = DeferredToolRequests(calls=[part for part in CALLS.parts if isinstance(part, m.ToolCallPart)])
    await healer.save(
        Conversation(conversation_id="c", messages=[ASKED, CALLS], deferred_tool_requests=deferred)
    )
    conversation = await healer.load("c")

    assert conversation is not None
    assert len(conversation.messages) == 2
