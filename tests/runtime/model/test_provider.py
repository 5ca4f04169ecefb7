"""A provider's model against a local server: what goes out, what comes in, and answers of a type."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec
import pytest

from clew.core.errors import InvalidArgument
from clew.runtime.model import call as model_call
from clew.runtime.model.messages import CALL, REPAIR, RESULT, Message
from clew.runtime.model.protocol import ModelRequest, Reply, TextChunk, ToolCall, ToolSpec, Usage
from clew.runtime.model.provider import ProviderModel
from tests.runtime.model.scripted_provider import HI, QUICK, chat, reply_to, scripted_provider
from tests.support.openai_server import ChatReply, Raw, chat_server

WEATHER = ToolSpec(
    name="weather",
    description="Say what the weather is like.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


# What goes out.


async def body_of(
    *messages: Message, instructions: str = "", tools: tuple[ToolSpec, ...] = ()
) -> dict[str, Any]:
    """The request that a provider gets for some messages."""
    async with scripted_provider("Hello.") as (model, server):
        await reply_to(model, ModelRequest(messages=messages, instructions=instructions, tools=tools))
        return server.requests[0]


def call_message(id: str, city: str) -> Message:
    return Message(role="assistant", kind=CALL, call=id, name="weather", arguments={"city": city})


def result_message(id: str, output: Any) -> Message:
    return Message(role="tool", kind=RESULT, call=id, content=output)


def wire_call(id: str, city: str) -> dict[str, Any]:
    function = {"name": "weather", "arguments": f'{{"city":"{city}"}}'}
    return {"id": id, "type": "function", "function": function}


QUESTION = Message(role="user", content="Weather?")


async def test_a_conversation_goes_out_in_order() -> None:
    body = await body_of(
        Message(role="system", content="Ann lives in Oslo."),
        Message(role="user", content="Hi"),
        Message(role="assistant", content="Hello."),
        Message(role="user", content="Bye"),
        instructions="Be brief.",
    )

    assert body["messages"] == [
        {"role": "system", "content": "Ann lives in Oslo."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Bye"},
    ]


async def test_tools_go_out_with_their_schema() -> None:
    body = await body_of(QUESTION, tools=(WEATHER,))

    assert [(tool["function"]["name"], tool["function"]["description"]) for tool in body["tools"]] == [
        ("weather", "Say what the weather is like.")
    ]
    assert body["tools"][0]["function"]["parameters"]["required"] == ["city"]


@pytest.mark.promise("B-05")
async def test_calls_of_one_answer_go_out_together_with_their_results_behind() -> None:
    remark = Message(role="assistant", content="Let me look.")
    body = await body_of(
        QUESTION,
        remark,
        call_message("c1", "Oslo"),
        call_message("c2", "Bergen"),
        result_message("c2", {"rain": 3}),
        result_message("c1", "dry"),
    )

    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [wire_call("c1", "Oslo"), wire_call("c2", "Bergen")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "dry"},
        {"role": "tool", "tool_call_id": "c2", "content": '{"rain":3}'},
    ]


@pytest.mark.promise("B-05")
async def test_one_call_after_another_stays_one_after_another() -> None:
    body = await body_of(
        QUESTION,
        call_message("c1", "Oslo"),
        result_message("c1", "dry"),
        call_message("c2", "Bergen"),
        result_message("c2", "wet"),
    )

    assert [message["role"] for message in body["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]


@pytest.mark.promise("B-05")
async def test_a_repair_is_a_result_that_says_the_call_was_not_answered() -> None:
    repair = Message(role="tool", kind=REPAIR, content="The run was interrupted before the tool answered.")
    body = await body_of(
        QUESTION,
        call_message("c1", "Oslo"),
        call_message("c2", "Rome"),
        result_message("c1", "dry"),
        repair,
        QUESTION,
    )

    results = [message for message in body["messages"] if message["role"] == "tool"]
    assert [(result["tool_call_id"], "interrupted" in result["content"]) for result in results] == [
        ("c1", False),
        ("c2", True),
    ]
    assert body["messages"][-1] == {"role": "user", "content": "Weather?"}


@pytest.mark.promise("B-05")
async def test_a_call_without_any_answer_is_closed_all_the_same() -> None:
    body = await body_of(QUESTION, call_message("c1", "Oslo"), Message(role="user", content="Well?"))

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "user"]


@pytest.mark.promise("B-05")
async def test_a_result_whose_call_is_out_of_sight_is_left_out() -> None:
    body = await body_of(result_message("c0", "dry"), Message(role="assistant", content="Dry."), QUESTION)

    assert [message["role"] for message in body["messages"]] == ["assistant", "user"]


async def test_content_that_is_not_text_goes_out_as_json() -> None:
    body = await body_of(Message(role="user", content={"mood": "calm"}))

    assert body["messages"] == [{"role": "user", "content": '{"mood":"calm"}'}]


async def test_settings_go_out_with_every_request() -> None:
    async with scripted_provider("Hello.", settings={"max_tokens": 50, "seed": 7}) as (model, server):
        await reply_to(model)

    assert (server.requests[0]["max_completion_tokens"], server.requests[0]["seed"]) == (50, 7)


# What comes in.


async def test_text_comes_as_it_is_said() -> None:
    rest = asyncio.Event()
    async with scripted_provider(ChatReply(text="Hello, Ann", pieces=2, midway=rest)) as (model, _):
        parts = model.stream(HI)
        first = await anext(parts)
        rest.set()
        others = [part async for part in parts]

    assert first == TextChunk("Hello")
    assert others[0] == TextChunk(", Ann")
    assert isinstance(others[1], Reply)
    assert others[1].text == "Hello, Ann"


async def test_tool_calls_come_whole() -> None:
    answer = ChatReply(calls=[("c1", "weather", '{"city": "Oslo"}'), ("c2", "weather", '{"city": "Rome"}')])
    async with scripted_provider(answer) as (model, _):
        reply = await reply_to(model, ModelRequest(messages=[QUESTION], tools=[WEATHER]))

    assert reply.calls == (
        ToolCall(id="c1", name="weather", arguments={"city": "Oslo"}),
        ToolCall(id="c2", name="weather", arguments={"city": "Rome"}),
    )


async def test_no_arguments_are_an_empty_object() -> None:
    async with scripted_provider(ChatReply(calls=[("c1", "now", "")])) as (model, _):
        reply = await reply_to(model)

    assert reply.calls == (ToolCall(id="c1", name="now", arguments={}),)


@pytest.mark.promise("B-05")
async def test_a_call_id_that_was_used_before_is_replaced() -> None:
    past = [QUESTION, call_message("call_0", "Oslo"), result_message("call_0", "dry"), QUESTION]
    async with scripted_provider(
        ChatReply(calls=[("call_0", "weather", "{}"), ("call_0", "weather", "{}")])
    ) as (
        model,
        _,
    ):
        reply = await reply_to(model, ModelRequest(messages=past, tools=[WEATHER]))

    assert len({"call_0", *(call.id for call in reply.calls)}) == 3


async def test_halves_of_a_sign_that_came_apart_are_joined() -> None:
    pieces = [
        '"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]',
        '"choices":[{"index":0,"delta":{"content":"\\ude00"}}]',
    ]
    end = '"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]'
    head = '"id":"1","object":"chat.completion.chunk","created":1,"model":"gpt-5"'
    body = "".join(f"data: {{{head},{piece}}}\n\n" for piece in [*pieces, end])
    async with scripted_provider(Raw(body=body, content_type="text/event-stream")) as (model, _):
        reply = await reply_to(model)

    assert reply.text == "😀"


async def test_tokens_and_price_are_counted() -> None:
    async with scripted_provider(ChatReply(text="Hello.", tokens=(1000, 100))) as (model, _):
        reply = await reply_to(model)

    assert reply.usage == Usage(calls=1, input_tokens=1000, output_tokens=100, cost=2250)


async def test_a_model_without_a_known_price_costs_nothing_known() -> None:
    async with chat_server("Hello.") as server, ProviderModel(chat(server.url, "house-model")) as model:
        reply = await reply_to(model)

    assert reply.usage == Usage(calls=1, input_tokens=11, output_tokens=7, cost=0)


# Typed answers.


class Person(msgspec.Struct):
    """What a model is asked for."""

    name: str
    age: int


class Deeper(msgspec.Struct):
    """A shape with a shape inside."""

    people: list[Person]
    mood: Literal["calm", "tense"] | None = None


def reply_of(json: str) -> ChatReply:
    return ChatReply(calls=[("c1", "answer", json)])


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Person, '{"name": "Ann", "age": 7}', Person(name="Ann", age=7)),
        (
            Deeper,
            '{"people": [{"name": "Ann", "age": 7}], "mood": "calm"}',
            Deeper(people=[Person(name="Ann", age=7)], mood="calm"),
        ),
        (int, '{"value": 7}', 7),
        (list[str], '{"value": ["a", "b"]}', ["a", "b"]),
        (Literal["yes", "no"], '{"value": "yes"}', "yes"),
        (dict[str, int], '{"value": {"a": 1}}', {"a": 1}),
        (Person | None, '{"value": null}', None),
    ],
)
async def test_an_answer_has_the_type_asked_for(kind: Any, text: str, value: Any) -> None:
    async with scripted_provider(reply_of(text)) as (model, server):
        answer, usage = await model.fill(HI, kind)

    assert (answer, usage.calls) == (value, 1)
    assert server.requests[0]["tools"][0]["function"]["name"] == "answer"
    assert server.requests[0]["tool_choice"]


async def test_an_answer_said_as_text_is_taken_if_it_fits() -> None:
    async with scripted_provider('{"name": "Ann", "age": 7}') as (model, _):
        answer, _ = await model.fill(HI, Person)

    assert answer == Person(name="Ann", age=7)


@pytest.mark.parametrize("text", ['{"name": "Ann"}', '{"name": "Ann", "age": "7"}', "{", "[]"])
async def test_an_answer_that_does_not_fit_is_asked_for_again_and_paid(text: str) -> None:
    usages: list[Usage] = []
    async with scripted_provider(reply_of(text), reply_of('{"name": "Ann", "age": 7}')) as (model, _):
        answer, _ = await model_call.fill(model, HI, Person, QUICK, usages.append)

    assert answer == Person(name="Ann", age=7)
    assert [usage.input_tokens for usage in usages] == [11]


async def test_a_type_that_no_schema_describes_is_refused() -> None:
    async with scripted_provider() as (model, server):
        with pytest.raises(InvalidArgument):
            await model.fill(HI, asyncio.Event)

    assert server.requests == []
