"""A conversation moves from one framework to another, tool calls included, and goes on there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.runners import Runner
from google.genai import types
from langchain_core.messages import convert_to_messages, message_to_dict
from pydantic_ai import Agent, Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import clew
from clew.adapters.adk import SessionService, events_of, thread_id_of
from clew.adapters.openai_agents import Session
from clew.adapters.pydantic_ai import Conversations, history_of
from clew.core.messages.plain import (
    PlainMessage,
    PlainToolCall,
    PlainToolResult,
    as_chat,
    as_responses,
    messages_by_role,
)
from clew.core.messages.projection import plain_messages
from tests.adapters.adk.agents import ScriptedLlm, text, weather_agent

pytestmark = pytest.mark.promise("B-10")

RESPONSES: list[Any] = [
    {"role": "user", "content": "How are Lisbon and Porto?"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Lisbon"}'},
    {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": '{"city":"Porto"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "blue"},
    {"type": "function_call_output", "call_id": "c2", "output": '{"sky":"grey"}'},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Blue, and grey."}]},
]


def weather_call(id: str, city: str) -> PlainToolCall:
    return PlainToolCall(id=id, name="weather", arguments={"city": city})


def weather_result(id: str, output: str) -> PlainToolResult:
    return PlainToolResult(id=id, name="weather", output=output)


MESSAGES = [
    PlainMessage(role="user", text="How are Lisbon and Porto?"),
    PlainMessage(role="assistant", calls=(weather_call("c1", "Lisbon"),)),
    PlainMessage(role="assistant", calls=(weather_call("c2", "Porto"),)),
    PlainMessage(role="tool", results=(weather_result("c1", "blue"),)),
    PlainMessage(role="tool", results=(weather_result("c2", '{"sky":"grey"}'),)),
    PlainMessage(role="assistant", text="Blue, and grey."),
]
BY_ROLE = [
    MESSAGES[0],
    PlainMessage(role="assistant", calls=(weather_call("c1", "Lisbon"), weather_call("c2", "Porto"))),
    PlainMessage(role="tool", results=(weather_result("c1", "blue"), weather_result("c2", '{"sky":"grey"}'))),
    MESSAGES[5],
]
"""The same, where a framework keeps what is said at once in one message."""


def merge_roles(messages: list[PlainMessage]) -> list[PlainMessage]:
    """Messages of one role that follow each other as one, so that two ways to cut them compare."""
    return [
        PlainMessage(
            role=role,
            text="".join(each.text for each in group),
            calls=tuple(call for each in group for call in each.calls),
            results=tuple(result for each in group for result in each.results),
        )
        for role, group in messages_by_role(messages)
    ]


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[clew.Database]:
    async with clew.open(f"sqlite:///{tmp_path}/agent.db") as db:
        session = Session("from-openai", db)
        await session.add_items(RESPONSES)
        yield db


async def export_messages(db: clew.Database, thread: str = "from-openai") -> list[PlainMessage]:
    return plain_messages(await db.thread(thread).items())


async def test_a_thread_of_openai_agents_is_plain_messages(db: clew.Database) -> None:
    assert await export_messages(db) == MESSAGES


async def test_it_goes_on_in_pydantic_ai(db: clew.Database) -> None:
    inputs: list[ModelMessage] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        inputs.extend(messages)
        return ModelResponse(parts=[TextPart(content="You are welcome.")])

    history = history_of(await export_messages(db))
    start = Conversation(conversation_id="in-pydantic-ai", messages=history)
    store = Conversations(db)
    await store.save(await Agent(FunctionModel(model)).run("Thanks!", conversation=start))
    messages = await export_messages(db, "in-pydantic-ai")

    assert [message.kind for message in inputs] == ["request", "response", "request", "response", "request"]
    assert merge_roles(messages)[:4] == BY_ROLE
    assert [message.text for message in messages[-2:]] == ["Thanks!", "You are welcome."]


async def test_it_goes_on_in_adk(db: clew.Database) -> None:
    service = SessionService(db)
    session = await service.create_session(app_name="weather", user_id="alice", session_id="s1")
    for event in events_of(await export_messages(db), agent="agent"):
        await service.append_event(session, event)
    agent = weather_agent(text("You are welcome."))
    message = types.Content(role="user", parts=[types.Part(text="Thanks!")])
    running = Runner(app_name="weather", agent=agent, session_service=service)
    async for _ in running.run_async(user_id="alice", session_id="s1", new_message=message):
        pass
    messages = await export_messages(db, thread_id_of("weather", "alice", "s1"))

    assert isinstance(agent.model, ScriptedLlm)
    assert agent.model.prompts == [["How are Lisbon and Porto?", "Blue, and grey.", "Thanks!"]]
    assert messages[:4] == BY_ROLE
    assert [message.text for message in messages[4:]] == ["Thanks!", "You are welcome."]


async def test_it_comes_back_to_openai_agents(db: clew.Database) -> None:
    history = history_of(await export_messages(db))
    await Conversations(db).save(Conversation(conversation_id="in-pydantic-ai", messages=history))
    back = Session("back", db)
    items: list[Any] = as_responses(await export_messages(db, "in-pydantic-ai"))
    await back.add_items(items)

    assert merge_roles(await export_messages(db, "back")) == BY_ROLE
    assert (await back.get_items())[1:3] == RESPONSES[1:3]


async def test_it_comes_back_from_adk(db: clew.Database) -> None:
    service = SessionService(db)
    session = await service.create_session(app_name="weather", user_id="alice", session_id="s1")
    for event in events_of(await export_messages(db), agent="agent"):
        await service.append_event(session, event)
    messages = await export_messages(db, thread_id_of("weather", "alice", "s1"))

    items = [clew.Item(body=body, format="openai.responses") for body in as_responses(messages)]

    assert messages == BY_ROLE
    assert plain_messages(items) == MESSAGES


async def test_it_goes_to_langchain_and_back(db: clew.Database) -> None:
    messages = convert_to_messages(as_chat(await export_messages(db)))
    bodies = [message_to_dict(message) for message in messages]
    round_trip = plain_messages(clew.Item(body=body, format="langchain") for body in bodies)

    assert merge_roles(round_trip) == BY_ROLE


async def test_words_are_found_whatever_framework_wrote_them(db: clew.Database) -> None:
    await Conversations(db).save(
        Conversation(conversation_id="in-pydantic-ai", messages=history_of(await export_messages(db)))
    )
    service = SessionService(db)
    session = await service.create_session(app_name="weather", user_id="alice", session_id="s1")
    for event in events_of(await export_messages(db), agent="agent"):
        await service.append_event(session, event)
    hits = await db.search("Lisbon Porto")

    assert {hit.thread for hit in hits} == {"from-openai", "in-pydantic-ai", "adk/weather/alice/s1"}


async def test_what_another_framework_wrote_is_not_taken_for_ones_own(db: clew.Database) -> None:
    with pytest.raises(clew.ClewError, match="from-openai"):
        await Conversations(db).load("from-openai")
    assert (await db.thread("from-openai").head()).version == 1
