"""Whole turns on a provider's model: plain, with tools, through every fault, and past a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import clew
from clew.core.errors import DeadlineExceeded, ModelFailed
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.call import Deadlines, RetryPolicy
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Usage
from clew.runtime.model.provider import ProviderModel
from clew.runtime.records.events import ErrorEvent, Event, RunFinished, TextDelta
from clew.runtime.records.runs import DONE, ERROR, KIND, Run, run_of
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.schema import Conversation
from clew.runtime.tools.tool import Effect, Tool, tool
from clew.runtime.turn.draft import Delta
from tests.support.openai_server import (
    ChatReply,
    ChatServer,
    ErrorReply,
    Line,
    Raw,
    chat_server,
    refusing_url,
)

QUICK = RetryPolicy(pause=0.001, longest_pause=0.002)
SSE = "text/event-stream"
WEATHER = ChatReply(calls=[("c1", "weather", '{"city": "Oslo"}'), ("c2", "weather", '{"city": "Rome"}')])


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    return f"sunny in {city}"


@asynccontextmanager
async def runtime_on(
    db: Database,
    *script: Line | str,
    config: RuntimeConfig = RuntimeConfig(retry_policy=QUICK),
    tools: Sequence[Tool] = (),
    **more: Any,
) -> AsyncIterator[tuple[Runtime, ChatServer]]:
    """A runtime whose model is a server that plays a script."""
    async with chat_server(*script) as server:
        chat = OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=server.url, api_key="sk-secret"))
        async with (
            ProviderModel(chat) as model,
            Runtime(db, model=model, config=config, tools=tools, **more) as runtime,
        ):
            yield runtime, server


@pytest.fixture
async def memory() -> AsyncIterator[Database]:
    """A database in memory, where the store is not what is tested."""
    async with clew.open("memory://") as database:
        yield database


async def last_run(db: Database) -> Run:
    change = (await db.thread("a").changesets())[-1]
    assert change.run_id is not None
    return run_of(await db.records.get(KIND, change.run_id))


async def test_a_plain_turn(db: Database) -> None:
    async with runtime_on(db, "Hello, Ann.", instructions="Be kind.") as (runtime, server):
        result = await runtime.run_turn("a", "Hi, I am Ann")

    assert result.text == "Hello, Ann."
    assert server.requests[0]["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi, I am Ann"},
    ]


async def test_the_next_turn_knows_what_was_said(db: Database) -> None:
    async with runtime_on(db, "Hello, Ann.", "You are Ann.") as (runtime, server):
        await runtime.run_turn("a", "Hi, I am Ann")
        await runtime.run_turn("a", "Who am I?")

    assert [message["content"] for message in server.requests[1]["messages"]] == [
        "Hi, I am Ann",
        "Hello, Ann.",
        "Who am I?",
    ]


async def test_a_turn_with_tools(db: Database) -> None:
    async with runtime_on(db, WEATHER, "Sunny in both.", tools=[weather]) as (runtime, server):
        result = await runtime.run_turn("a", "Weather?")

    assert result.text == "Sunny in both."
    assert [(m["role"], m.get("tool_call_id"), m.get("content")) for m in server.requests[1]["messages"]][
        2:
    ] == [
        ("tool", "c1", "sunny in Oslo"),
        ("tool", "c2", "sunny in Rome"),
    ]


@pytest.mark.promise("T-17")
async def test_tokens_and_cost_reach_the_result_and_the_record(db: Database) -> None:
    reply = ChatReply(text="Sunny.", tokens=(2000, 10))
    async with runtime_on(db, WEATHER, reply, tools=[weather]) as (runtime, _):
        result = await runtime.run_turn("a", "Weather?")

    assert result.usage == (await last_run(db)).usage
    assert result.usage == Usage(calls=2, input_tokens=2011, output_tokens=17, cost=84 + 2600)


async def test_text_is_told_while_the_model_still_speaks(memory: Database) -> None:
    rest = asyncio.Event()
    async with runtime_on(memory, ChatReply(text="Hello, Ann", pieces=2, midway=rest)) as (runtime, _):
        texts: list[str] = []
        async for event in runtime.stream_turn("a", "Hi"):
            if isinstance(event, TextDelta):
                texts.append(event.text)
                rest.set()

    assert texts == ["Hello", ", Ann"]


FAULTS: dict[str, Line] = {
    "too many requests": ErrorReply(status=429, headers={"retry-after": "0"}),
    "a broken server": ErrorReply(status=500),
    "a cut stream": ChatReply(text="Hello?", cut=2),
    "a stream that quietly ends": ChatReply(text="Hello?", cut=2, quietly=True),
    "malformed JSON": Raw(body="data: {nope\n\n", content_type=SSE),
    "malformed arguments": ChatReply(calls=[("c1", "weather", '{"city": ')]),
    "a page instead of an answer": Raw(body="<html>", content_type="text/html"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_turn_goes_on_after(memory: Database, fault: str) -> None:
    async with runtime_on(memory, FAULTS[fault], "Hello.", tools=[weather]) as (runtime, server):
        result = await runtime.run_turn("a", "Hi")

    items = (await memory.thread("a").items()).items
    assert (result.text, len(server.requests)) == ("Hello.", 2)
    assert [item.body for item in items] == [{"content": "Hi"}, {"content": "Hello."}]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_turn_that_cannot_go_on_ends_and_the_next_begins_after(memory: Database, fault: str) -> None:
    async with runtime_on(memory, *[FAULTS[fault]] * 3, "Hello.", tools=[weather]) as (runtime, _):
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "Hi")
        run = await last_run(memory)
        result = await runtime.run_turn("a", "Are you there?", busy="refuse")

    assert (run.status, run.termination) == (DONE, ERROR)
    assert result.text == "Hello."


async def test_a_provider_that_is_not_there_ends_the_turn_and_not_the_thread(memory: Database) -> None:
    away = OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=refusing_url(), api_key="sk-secret"))
    async with (
        ProviderModel(away) as model,
        Runtime(memory, model=model, config=RuntimeConfig(retry_policy=QUICK)) as runtime,
    ):
        with pytest.raises(ModelFailed, match="could not be reached"):
            await runtime.run_turn("a", "Hi")
    async with runtime_on(memory, "Hello.") as (runtime, _):
        result = await runtime.run_turn("a", "Are you back?", busy="refuse")

    assert result.text == "Hello."


async def test_a_slow_first_word_is_waited_for_until_the_deadline(memory: Database) -> None:
    slow = asyncio.Event()
    async with runtime_on(memory, ChatReply(text="Hello.", before=slow)) as (runtime, server):
        turn = asyncio.create_task(runtime.run_turn("a", "Hi"))
        await server.arrival.wait()
        slow.set()
        result = await turn

    assert (result.text, len(server.requests)) == ("Hello.", 1)


@pytest.mark.promise("R-24")
async def test_a_missed_deadline_ends_the_run_and_the_thread_takes_the_next_turn_at_once(
    db: Database,
) -> None:
    config = RuntimeConfig(retry_policy=RetryPolicy(call_seconds=0.3, attempts=1))
    slow = ChatReply(text="Hello?", midway=asyncio.Event())
    events: list[Event] = []
    async with runtime_on(db, slow, "Hello.", config=config) as (runtime, server):
        with pytest.raises(DeadlineExceeded):
            await collect(runtime.stream_turn("a", "Hi"), events)
        run = await last_run(db)
        result = await runtime.run_turn("a", "Still there?", busy="refuse")

    assert (run.status, run.termination, result.text) == (DONE, ERROR, "Hello.")
    assert [event.code for event in events if isinstance(event, ErrorEvent)] == ["deadline_exceeded"]
    assert isinstance(events[-1], RunFinished)
    assert [m["content"] for m in server.requests[1]["messages"]] == ["Hi", "Still there?"]


async def collect(events: AsyncIterator[Event], into: list[Event]) -> None:
    async for event in events:
        into.append(event)  # noqa: PERF401  # what was told before the error counts


async def test_the_deadline_of_the_turn_ends_it_too(memory: Database) -> None:
    slow = ChatReply(text="Hello?", midway=asyncio.Event())
    config = RuntimeConfig(deadlines=Deadlines(turn_seconds=0.3))
    async with runtime_on(memory, slow, config=config) as (runtime, server):
        with pytest.raises(DeadlineExceeded, match="The turn"):
            await runtime.run_turn("a", "Hi")
        async with asyncio.timeout(2):
            await server.departure.wait()

    assert (await last_run(memory)).termination == ERROR


async def test_a_cancelled_turn_hangs_up(memory: Database) -> None:
    async with runtime_on(memory, ChatReply(text="Hello?", midway=asyncio.Event())) as (runtime, server):
        turn = asyncio.create_task(runtime.run_turn("a", "Hi"))
        await server.arrival.wait()
        await runtime.cancel("a")
        async with asyncio.timeout(2):
            await server.departure.wait()
        result = await turn

    assert result.termination == "cancelled"


class Mood(msgspec.Struct):
    """What a stage asks its model for."""

    word: str
    strength: int


async def test_a_stage_gets_a_typed_answer(memory: Database) -> None:
    async def weigh(state: Conversation, ctx: Context) -> Delta:
        request = ModelRequest(
            messages=[Message(role="user", content=state.message)], instructions="Name the mood."
        )
        mood = await ctx.turn.fill(ctx.control_llm, request, Mood)
        return {"reply": f"{mood.word} {mood.strength}"}

    wrong = ChatReply(calls=[("c1", "answer", '{"word": "calm"}')])
    right = ChatReply(calls=[("c1", "answer", '{"word": "calm", "strength": 2}')])
    async with runtime_on(memory, wrong, right, stages=[weigh]) as (runtime, _):
        result = await runtime.run_turn("a", "I feel fine")

    assert (result.text, result.usage.calls, result.usage.input_tokens) == ("calm 2", 2, 22)


async def test_a_secret_is_nowhere_in_the_thread(memory: Database) -> None:
    refusal = ErrorReply(status=401, message="Incorrect API key provided: sk-secret")
    async with runtime_on(memory, refusal) as (runtime, _):
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "Hi")

    stored_bytes = msgspec.json.encode([await memory.thread("a").changesets(), await last_run(memory)])
    assert b"401" in stored_bytes
    assert b"sk-secret" not in stored_bytes
