"""A session with half a tool call goes on: ADK itself shows a model whole calls alone."""

from __future__ import annotations

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.genai import types

import clew
from clew.adapters.adk import SessionService
from tests.adapters.adk.agents import ScriptedLlm, text
from tests.adapters.adk.contract import ALICE, APP, begin_session, load_session, text_event

pytestmark = pytest.mark.promise("B-05", "B-10")


def call(id: str) -> Event:
    """An event in which a model calls a tool."""
    part = types.Part(function_call=types.FunctionCall(id=id, name="look", args={}))
    return Event(author="agent", invocation_id="t1", content=types.Content(role="model", parts=[part]))


def result(id: str) -> Event:
    """An event with what a tool gave."""
    part = types.Part(function_response=types.FunctionResponse(id=id, name="look", response={"n": 1}))
    return Event(author="agent", invocation_id="t1", content=types.Content(role="user", parts=[part]))


HISTORIES: dict[str, tuple[list[Event], int]] = {
    "whole": ([text_event("Hi"), call("c1"), result("c1"), text_event("Fine.", author="agent")], 1),
    "an open call": ([text_event("Hi"), call("c1")], 0),
    "a call that was passed over": ([text_event("Hi"), call("c1"), text_event("Hello?")], 0),
    "a result without a call": ([result("c1"), text_event("Hi")], 0),
    "a result at the end": ([text_event("Hi"), text_event("Fine.", author="agent"), result("c1")], 0),
    "one of two": ([text_event("Hi"), call("c1"), call("c2"), result("c2")], 1),
}


@pytest.mark.parametrize("history", HISTORIES)
async def test_a_model_is_never_shown_a_half(
    db: clew.Database, service: SessionService, history: str
) -> None:
    events, pairs = HISTORIES[history]
    calls: list[str | None] = []
    results: list[str | None] = []

    def listen(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        calls.extend(part.function_call.id for part in parts if part.function_call)
        results.extend(part.function_response.id for part in parts if part.function_response)

    session = await begin_session(service)
    for event in events:
        await service.append_event(session, event.model_copy(deep=True))
    agent = LlmAgent(name="agent", model=ScriptedLlm(answers=[text("Yes.")]), before_model_callback=listen)
    runner = Runner(app_name=APP, agent=agent, session_service=service)
    message = types.Content(role="user", parts=[types.Part(text="Next.")])
    async for _ in runner.run_async(user_id=ALICE, session_id="s1", new_message=message):
        pass

    assert (len(calls), calls) == (pairs, results)
    assert len((await load_session(service)).events) == len(events) + 2
