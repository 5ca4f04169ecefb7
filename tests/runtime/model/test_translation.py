"""Our messages as a provider hears them: valid whatever the history, or what a callback made of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from clew.runtime.model.messages import CALL, REPAIR, RESULT, Message
from clew.runtime.model.translation import calls_of, provider_messages, repair_surrogates

IDS = some.sampled_from(["c1", "c2", "c3"])
MESSAGES = some.one_of(
    some.builds(
        Message, role=some.sampled_from(["user", "system", "assistant"]), content=some.text(max_size=3)
    ),
    some.builds(
        Message,
        role=some.just("assistant"),
        kind=some.just(CALL),
        call=IDS,
        name=some.just("weather"),
        arguments=some.one_of(
            some.none(), some.text(max_size=2), some.dictionaries(some.text(max_size=2), some.integers())
        ),
    ),
    some.builds(
        Message, role=some.just("tool"), kind=some.just(RESULT), call=IDS, content=some.text(max_size=3)
    ),
    some.builds(
        Message, role=some.just("tool"), kind=some.just(REPAIR), content=some.just("It was interrupted.")
    ),
)


def calls_in(message: ModelMessage) -> list[str]:
    return [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]


def results_in(message: ModelMessage) -> list[str]:
    return [part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)]


@pytest.mark.promise("B-05", "S-09")
@given(some.lists(MESSAGES, max_size=12))
def test_every_call_is_answered_right_behind_it_and_nothing_else_is(messages: list[Message]) -> None:
    requests = provider_messages(messages)

    before: list[str] = []
    for message in requests:
        assert results_in(message) == before
        before = calls_in(message)
        assert len(set(before)) == len(before)
    assert before == []


@pytest.mark.promise("B-05")
@given(some.lists(MESSAGES, max_size=12))
def test_the_two_sides_take_turns_and_the_model_is_asked_last(messages: list[Message]) -> None:
    requests = provider_messages(messages)

    assert all(
        isinstance(before, ModelRequest) != isinstance(right, ModelRequest)
        for before, right in pairwise(requests)
    )
    assert isinstance(requests[-1], ModelRequest)


@given(some.lists(MESSAGES, max_size=12))
def test_nothing_that_was_said_is_lost(messages: list[Message]) -> None:
    replies = [
        part.content
        for message in provider_messages(messages)
        for part in message.parts
        if isinstance(part, TextPart)
    ]
    prompts = [
        part.content
        for message in provider_messages(messages)
        for part in message.parts
        if isinstance(part, UserPromptPart | SystemPromptPart)
    ]

    plain = [message for message in messages if message.kind == "message"]
    assert replies == [
        message.content for message in plain if message.role == "assistant" and message.content
    ]
    assert prompts == [message.content for message in plain if message.role != "assistant"]


def test_a_summary_is_told_by_the_system() -> None:
    requests = provider_messages(
        [Message(role="system", kind="summary", content="They spoke of Oslo."), Message(role="user")]
    )

    assert [type(part) for part in requests[0].parts] == [SystemPromptPart, UserPromptPart]


def test_a_call_that_is_shown_twice_is_two_calls_each_answered() -> None:
    call = Message(role="assistant", kind=CALL, call="c1", name="weather", arguments={})
    result = Message(role="tool", kind=RESULT, call="c1", content="dry")

    requests = provider_messages([call, result, call, result])

    assert [calls_in(message) + results_in(message) for message in requests] == [["c1"]] * 4


@given(some.text(some.characters(codec=None), max_size=6))
def test_a_mended_text_can_be_stored(text: str) -> None:
    assert repair_surrogates(text).encode().decode() == repair_surrogates(text)


@given(some.text(max_size=6))
def test_a_sound_text_needs_no_mending(text: str) -> None:
    assert repair_surrogates(text) == text


@pytest.mark.parametrize(
    "arguments", ["{", "{'city': 'Oslo'}", '{"n": NaN}', '{"city": "Oslo"} and', "\ud800"]
)
def test_arguments_that_are_not_json_are_refused_with_the_name_of_the_tool(arguments: str) -> None:
    response = ModelResponse(parts=[ToolCallPart("weather", arguments, tool_call_id="c1")])

    with pytest.raises(ValueError, match="the arguments for tool 'weather' are not JSON"):
        calls_of(response, [])
