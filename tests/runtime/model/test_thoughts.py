"""What a model thought goes back to its provider, from any process, and is shown to nobody else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

import clew
from clew.core.messages.projection import plain_messages
from clew.database.database import Database
from clew.runtime.model.messages import Message, item_of, message_of
from clew.runtime.model.protocol import Reply
from clew.runtime.model.provider import ProviderModel
from clew.runtime.model.translation import calls_of, provider_messages, response_text, thoughts_of
from clew.runtime.records.events import MessageAdded
from clew.runtime.respond.view import messages_of_reply
from clew.runtime.runtime import Runtime
from clew.testing.scripted_model import ScriptedModel
from tests.runtime.model.scripted_provider import chat
from tests.support.openai_server import Raw, chat_server

SECRET = "perhaps an umbrella"


def thinking_part(content: str, **options: Any) -> ThinkingPart:
    return ThinkingPart(content, provider_name="anthropic", **options)


def parts_sent_back(*parts: ModelResponsePart) -> list[ModelResponsePart]:
    """What a provider gets back of an answer that was kept in the history."""
    response = ModelResponse(parts=parts, provider_name="anthropic", model_name="m")
    reply = Reply(
        text=response_text(response), calls=calls_of(response, []), thoughts=thoughts_of(response).text
    )
    messages = [message_of(item_of(message)) for message in messages_of_reply(reply, [])[0]]
    results = [Message(role="tool", kind="result", call=call.id, content="ok") for call in reply.calls]
    again = next(one for one in provider_messages([*messages, *results]) if isinstance(one, ModelResponse))
    assert (again.provider_name, again.model_name) in (("anthropic", "m"), (None, None))
    return list(again.parts)


@pytest.mark.promise("S-09")
@pytest.mark.parametrize(
    "parts",
    [
        [thinking_part("hm", signature="s1"), TextPart("Hello.")],
        [thinking_part("", signature="redacted", id="r1"), ToolCallPart("look", {"a": 1}, tool_call_id="c1")],
        [
            thinking_part("one", signature="s1", provider_details={"raw": ["x"]}),
            TextPart("Let me see."),
            thinking_part("two", signature="s2"),
            ToolCallPart("look", {"a": 1}, tool_call_id="c1"),
            thinking_part("three", signature="s3"),
            ToolCallPart("look", {"a": 2}, tool_call_id="c2"),
        ],
        [
            ToolCallPart(
                "look",
                {"a": 1},
                tool_call_id="c1",
                provider_name="google",
                provider_details={"thought_signature": "abc"},
            ),
            ToolCallPart("look", {"a": 2}, tool_call_id="c2"),
        ],
        [thinking_part("hm", id="rs_1"), TextPart("Hello.", id="msg_1", provider_name="anthropic")],
    ],
)
def test_thoughts_and_signatures_go_back_where_they_stood(parts: list[ModelResponsePart]) -> None:
    assert parts_sent_back(*parts) == parts


def test_a_thought_before_an_empty_text_goes_with_the_call_behind_it() -> None:
    before, call = thinking_part("hm", signature="s1"), ToolCallPart("look", {}, tool_call_id="c1")

    assert parts_sent_back(before, TextPart(""), call) == [before, call]


def test_an_answer_without_thoughts_keeps_nothing_more() -> None:
    response = ModelResponse(parts=[TextPart("Hi.", id="msg_1"), ToolCallPart("look", {}, tool_call_id="c1")])

    assert thoughts_of(response).text == ()
    assert [call.thoughts for call in calls_of(response, [])] == [()]


def test_a_thought_that_cannot_be_read_any_more_is_left_out() -> None:
    message = Message(
        role="assistant", content="Hi.", thoughts=({"kind": "thinking", "content": 5}, "?", None)
    )

    assert provider_messages([message])[0].parts == [TextPart("Hi.")]


class Thinker:
    """A model that thinks before it looks and before it answers, and keeps what it was told."""

    def __init__(self) -> None:
        self.requests: list[list[ModelMessage]] = []

    async def stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]]:
        self.requests.append(list(messages))
        yield {0: DeltaThinkingPart(content=SECRET, signature=f"signed {len(self.requests)}")}
        if len(self.requests) == 1:
            yield {1: DeltaToolCall(name="look", json_args="{}", tool_call_id="c1")}
        else:
            yield f"Answer {len(self.requests)}."

    def thoughts(self, request: int) -> list[tuple[str, str | None]]:
        """The thoughts that a request gave back."""
        parts = [part for message in self.requests[request] for part in message.parts]
        return [(part.content, part.signature) for part in parts if isinstance(part, ThinkingPart)]


@clew.tool
async def look() -> str:
    """Look out of the window."""
    return "rain"


def thinking_model(thinker: Thinker) -> ProviderModel:
    return ProviderModel(FunctionModel(stream_function=thinker.stream))


@pytest.mark.promise("S-09", "R-03")
async def test_a_model_gets_its_thoughts_back_after_a_tool_and_in_the_next_turn(db: Database) -> None:
    thinker = Thinker()
    async with thinking_model(thinker) as model:
        await Runtime(db, model=model, tools=[look]).run_turn("a", "Do I need a coat?")
        await Runtime(db, model=model, tools=[look]).run_turn("a", "And a hat?")

    assert [thinker.thoughts(request) for request in range(3)] == [
        [],
        [(SECRET, "signed 1")],
        [(SECRET, "signed 1"), (SECRET, "signed 2")],
    ]


async def messages_of(runtime: Runtime, thread: str, message: str) -> Sequence[Message]:
    events = [event async for event in runtime.stream_turn(thread, message)]
    return [event.message for event in events if isinstance(event, MessageAdded)]


async def test_nobody_is_shown_what_a_model_thought(db: Database) -> None:
    async with thinking_model(Thinker()) as model:
        messages = await messages_of(Runtime(db, model=model, tools=[look]), "a", "Do I need a coat?")
    items = await db.thread("a").items()
    await db.index()

    assert any(SECRET in json.dumps(item.body) for item in items)
    assert [message.thoughts for message in messages] == [()] * 4
    assert SECRET not in repr(plain_messages(items))
    assert await db.search("umbrella") == []
    assert [hit.thread for hit in await db.search("coat")] == ["a"]


def chunks(*deltas: dict[str, Any]) -> Raw:
    """A streamed chat answer, piece by piece."""
    lines = [
        {
            "id": "x",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": "stop" if last else None}],
        }
        for delta, last in zip(deltas, [False] * (len(deltas) - 1) + [True], strict=True)
    ]
    body = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
    return Raw(body=body, content_type="text/event-stream")


async def test_a_chat_server_gets_its_reasoning_back_in_the_field_it_came_in(db: Database) -> None:
    first = chunks({"role": "assistant", "reasoning_content": SECRET}, {"content": "Take a coat."})
    async with chat_server(first, "Yes.") as server, ProviderModel(chat(server.url)) as model:
        runtime = Runtime(db, model=model)
        result = await runtime.run_turn("a", "Do I need a coat?")
        await runtime.run_turn("a", "Sure?")
        [answer] = [one for one in server.requests[1]["messages"] if one["role"] == "assistant"]

    assert result.text == "Take a coat."
    assert (answer["content"], answer["reasoning_content"]) == ("Take a coat.", SECRET)


async def test_another_providers_model_is_not_told_what_the_first_one_thought(db: Database) -> None:
    async with thinking_model(Thinker()) as model:
        await Runtime(db, model=model, tools=[look]).run_turn("a", "Do I need a coat?")
    async with chat_server("Yes.") as server, ProviderModel(chat(server.url)) as model:
        await Runtime(db, model=model, tools=[look]).run_turn("a", "Sure?")

    assert SECRET not in json.dumps(server.requests[0])


async def test_a_reply_of_any_model_can_have_thoughts(db: Database) -> None:
    model = ScriptedModel(Reply(text="Hi.", thoughts=({"kind": "mine", "is": 1},)))
    await Runtime(db, model=model).run_turn("a", "Hello")
    *_, answer = await db.thread("a").items()

    assert answer.body == {"content": "Hi.", "thoughts": [{"kind": "mine", "is": 1}]}
