"""An agent of ADK's whose model says what it is told to, without a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import Field


class ScriptedLlm(BaseLlm):
    """Gives its answers one after another, and keeps what it was asked."""

    model: str = "scripted"
    answers: list[list[types.Part]]
    prompts: list[list[str]] = Field(default_factory=list)

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - the interface says so
    ) -> AsyncGenerator[LlmResponse, None]:
        """The next answer; in a stream letter by letter first."""
        self.prompts.append([text for content in llm_request.contents for text in _texts(content)])
        parts = self.answers.pop(0)
        if stream:
            for letter in "".join(part.text or "" for part in parts):
                content = types.Content(role="model", parts=[types.Part(text=letter)])
                yield LlmResponse(content=content, partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts), turn_complete=True)


def _texts(content: types.Content) -> list[str]:
    return [part.text for part in content.parts or () if part.text]


def call(name: str, **args: object) -> list[types.Part]:
    """An answer that calls a tool."""
    return [types.Part(function_call=types.FunctionCall(name=name, args=dict(args)))]


def text(words: str) -> list[types.Part]:
    """An answer in words."""
    return [types.Part(text=words)]


def weather(city: str, tool_context: ToolContext) -> dict[str, str]:
    """How the weather is in a city."""
    tool_context.state["last_city"] = city
    tool_context.state["user:asked"] = tool_context.state.get("user:asked", 0) + 1
    tool_context.state["app:cities"] = [*tool_context.state.get("app:cities", []), city]
    tool_context.state["temp:secret"] = "for this turn only"
    return {"sky": "blue"}


def weather_agent(*answers: list[types.Part]) -> LlmAgent:
    """An agent with a tool."""
    return LlmAgent(name="agent", model=ScriptedLlm(answers=list(answers)), tools=[weather])


def speaker(name: str, words: str) -> LlmAgent:
    """An agent that says one thing, and keeps it in the state."""
    return LlmAgent(name=name, model=ScriptedLlm(answers=[text(words)]), output_key=f"said_by_{name}")


def parallel() -> ParallelAgent:
    """Two agents at once."""
    return ParallelAgent(name="both", sub_agents=[speaker("one", "I am one"), speaker("two", "I am two")])


def sequence() -> SequentialAgent:
    """Two agents, one after another."""
    return SequentialAgent(name="row", sub_agents=[speaker("one", "I am one"), speaker("two", "I am two")])
