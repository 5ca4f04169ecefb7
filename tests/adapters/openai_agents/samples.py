"""Items as the SDK sends them, and agents whose model follows a script."""

from __future__ import annotations

from typing import Any, cast

from agents import Agent, RunConfig, Runner, RunResult, RunResultStreaming, Usage
from agents.items import TResponseInputItem
from agents.memory import Session as Protocol
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

QUIET = RunConfig(tracing_disabled=True)
USAGE = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)


def item(**body: Any) -> TResponseInputItem:
    """An item of the SDK."""
    return cast(TResponseInputItem, body)


def user(text: str) -> TResponseInputItem:
    """What a person said."""
    return item(role="user", content=text)


def sample_items(count: int, start: int = 0) -> list[TResponseInputItem]:
    """Some messages."""
    return [user(f"message {number}") for number in range(start, start + count)]


def texts(items: list[TResponseInputItem]) -> list[str]:
    """What items say, or what they are."""
    return [_text(cast(dict[str, Any], entry)) for entry in items]


def _text(body: dict[str, Any]) -> str:
    content = body.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(body.get("output", body.get("type")))


def says(text: str) -> ModelStep:
    """A step in which the model answers."""
    return ModelStep(output=[assistant_message(text)], usage=USAGE)


def calls(name: str, call_id: str = "call-1", arguments: str = "{}") -> ModelStep:
    """A step in which the model calls a tool."""
    return ModelStep(output=[function_call(name, arguments, call_id=call_id)], usage=USAGE)


def agent(*steps: ModelStep | Exception, **more: Any) -> Agent[Any]:
    """An agent whose model follows a script."""
    return Agent(name=more.pop("name", "helper"), model=ScriptedModel(steps), **more)


async def run(
    who: Agent[Any], prompt: Any, session: Protocol, *, way: str = "whole", config: RunConfig = QUIET
) -> RunResult | RunResultStreaming:
    """One run of an agent, streamed or not, to its end."""
    if way == "whole":
        return await Runner.run(who, prompt, session=session, run_config=config)
    result = Runner.run_streamed(who, prompt, session=session, run_config=config)
    async for _ in result.stream_events():
        pass
    return result
