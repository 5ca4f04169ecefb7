"""Google ADK on Clew: a runner whose sessions and state outlive the process, and refuse stale writers."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.tools.tool_context import ToolContext
from google.genai import types

import clew
from clew.adapters.adk import SessionService, thread_id_of


class Offline(BaseLlm):
    """A model that needs no network: it looks up the weather, then says what it found."""

    model: str = "offline"

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - ADK calls it so
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts or []
        answer = last[0].function_response
        part = types.Part(text=f"It is {answer.response['sky']}.") if answer and answer.response else CALL
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=USAGE)


CALL = types.Part(function_call=types.FunctionCall(name="weather", args={"city": "Lisbon"}))
USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=8, candidates_token_count=4)


def weather(city: str, tool_context: ToolContext) -> dict[str, str]:
    """How the weather is in a city."""
    tool_context.state["city"] = city
    tool_context.state["user:questions"] = tool_context.state.get("user:questions", 0) + 1
    return {"sky": "blue"}


async def ask(service: SessionService, words: str) -> str:
    agent = LlmAgent(name="forecaster", model=Offline(), tools=[weather])
    runner = Runner(app_name="weather", agent=agent, session_service=service, auto_create_session=True)
    answer = ""
    async for event in runner.run_async(user_id="alice", session_id="s1", new_message=content_of(words)):
        if event.is_final_response() and event.content and event.content.parts:
            answer = event.content.parts[0].text or ""
    return answer


def content_of(words: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=words)])


async def session(service: SessionService) -> Session:
    current = await service.get_session(app_name="weather", user_id="alice", session_id="s1")
    assert current is not None
    return current


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/agent.db"
        for words in ("How is Lisbon?", "And now?"):
            async with clew.open(url) as db:  # each time as a new process would
                print(words, "→", await ask(SessionService(db), words))

        async with clew.open(url) as db:
            service = SessionService(db)
            mine, theirs = await session(service), await session(service)
            print(len(mine.events), "events, state", mine.state)

            await service.append_event(mine, Event(author="user", content=content_of("I was first.")))
            try:
                await service.append_event(theirs, Event(author="user", content=content_of("So was I.")))
            except StaleSessionError as error:
                print("refused:", error)
            thread = db.thread(thread_id_of("weather", "alice", "s1"))
            print("the thread is whole:", (await thread.verify()).ok)


asyncio.run(main())
