"""The session service in ADK's own runner: tools, state, streaming, agents side by side, rewind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents._streaming_mode import StreamingMode
from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.runners import Runner
from google.genai import types

import clew
from clew.adapters.adk import SessionService, thread_id_of
from clew.core.messages.plain import PlainMessage, PlainToolCall, PlainToolResult
from clew.core.messages.projection import plain_messages
from tests.adapters.adk.agents import ScriptedLlm, call, parallel, sequence, text, weather_agent
from tests.adapters.adk.contract import ALICE, APP, load_session, texts

pytestmark = pytest.mark.promise("B-10")


def runner(agent: BaseAgent, service: SessionService) -> Runner:
    return Runner(app_name=APP, agent=agent, session_service=service, auto_create_session=True)


async def say(running: Runner, words: str, config: RunConfig | None = None) -> list[Event]:
    message = types.Content(role="user", parts=[types.Part(text=words)])
    events = running.run_async(user_id=ALICE, session_id="s1", new_message=message, run_config=config)
    return [event async for event in events]


async def test_a_turn_with_a_tool_is_stored_event_by_event(service: SessionService) -> None:
    agent = weather_agent(call("weather", city="Lisbon"), text("It is blue."))
    await say(runner(agent, service), "How is Lisbon?")
    session = await load_session(service)

    assert [event.author for event in session.events] == ["user", "agent", "agent", "agent"]
    assert texts(session) == ["How is Lisbon?", None, None, "It is blue."]
    assert session.state == {"last_city": "Lisbon", "user:asked": 1, "app:cities": ["Lisbon"]}


async def test_the_next_turn_goes_on_where_the_last_one_ended(service: SessionService) -> None:
    await say(runner(weather_agent(text("Hello!")), service), "Hi")
    agent = weather_agent(text("You said hi."))
    await say(runner(agent, service), "What did I say?")
    assert isinstance(agent.model, ScriptedLlm)

    assert agent.model.prompts == [["Hi", "Hello!", "What did I say?"]]


async def test_parts_of_a_stream_are_shown_and_not_stored(service: SessionService) -> None:
    events = await say(
        runner(weather_agent(text("Hello!")), service), "Hi", RunConfig(streaming_mode=StreamingMode.SSE)
    )

    assert [event.partial for event in events] == [True] * 6 + [None]
    assert texts(await load_session(service)) == ["Hi", "Hello!"]


@pytest.mark.parametrize("db", ["memory", "sqlite"], indirect=True)
async def test_the_blocking_way_to_run_works_too(service: SessionService) -> None:
    running = runner(weather_agent(text("Hello!")), service)
    message = types.Content(role="user", parts=[types.Part(text="Hi")])

    def run() -> list[Event]:
        return list(running.run(user_id=ALICE, session_id="s1", new_message=message))

    await asyncio.to_thread(run)

    assert texts(await load_session(service)) == ["Hi", "Hello!"]


@pytest.mark.filterwarnings("ignore:.* is deprecated in favor of Workflow:DeprecationWarning")
@pytest.mark.parametrize("agent", [parallel, sequence])
async def test_several_agents_write_to_one_session(
    service: SessionService, agent: Callable[[], BaseAgent]
) -> None:
    await say(runner(agent(), service), "Who is there?")
    session = await load_session(service)

    assert sorted(filter(None, texts(session))) == ["I am one", "I am two", "Who is there?"]
    assert session.state == {"said_by_one": "I am one", "said_by_two": "I am two"}


async def test_a_turn_can_be_taken_back(service: SessionService) -> None:
    await say(runner(weather_agent(text("Hello!")), service), "Hi")
    agent = LlmAgent(name="agent", model=ScriptedLlm(answers=[text("wild")]), output_key="mood")
    wild = runner(agent, service)
    events = await say(wild, "How are you?")
    await wild.rewind_async(
        user_id=ALICE, session_id="s1", rewind_before_invocation_id=events[0].invocation_id
    )

    assert (await load_session(service)).state.get("mood") is None


async def test_a_thread_of_adk_is_plain_to_read(db: clew.Database, service: SessionService) -> None:
    agent = weather_agent(call("weather", city="Lisbon"), text("It is blue."))
    await say(runner(agent, service), "How is Lisbon?")
    messages = plain_messages(await db.thread(thread_id_of(APP, ALICE, "s1")).items())
    id = messages[1].calls[0].id

    assert messages == [
        PlainMessage(role="user", text="How is Lisbon?"),
        PlainMessage(
            role="assistant", calls=(PlainToolCall(id=id, name="weather", arguments={"city": "Lisbon"}),)
        ),
        PlainMessage(role="tool", results=(PlainToolResult(id=id, name="weather", output={"sky": "blue"}),)),
        PlainMessage(role="assistant", text="It is blue."),
    ]
