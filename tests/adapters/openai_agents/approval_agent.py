"""An agent that may send a parcel only if somebody agrees."""

from __future__ import annotations

from typing import Any

from agents import Agent, function_tool
from agents.testing import ModelStep, ScriptedModel

from tests.adapters.openai_agents.samples import calls, says


@function_tool(needs_approval=True)
def send() -> str:
    """Send the parcel."""
    return "sent"


def sender() -> Agent[Any]:
    """The agent, as every process builds it: it sends, then it says so."""

    def answer(call: Any) -> ModelStep:
        is_sent = any(part.get("type") == "function_call_output" for part in call.input)
        return says("It is sent.") if is_sent else calls("send")

    steps = [ModelStep.respond(answer) for _ in range(4)]
    return Agent(name="sender", model=ScriptedModel(steps), tools=[send])
