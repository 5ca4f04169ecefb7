"""The plain agent: a model with short instructions, for where no other agent is installed."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from clew.agents.agent import Agent, AgentSettings
from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.runtime import Runtime

T = TypeVar("T")
PLAIN = "plain"
INSTRUCTIONS = "You are a helpful assistant. Be brief, and say so where you do not know."
NO_MODEL = (
    "No language model is connected, so nothing can answer you yet. Start again with --model PROVIDER:NAME, "
    "such as --model openai:gpt-5, and with the key of the provider in the environment, such as "
    "OPENAI_API_KEY."
)


class UnconfiguredModel:
    """Replaces a model where none is configured: every reply says how to configure one."""

    name = "offline"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """Reply how to configure a model."""
        yield TextChunk(NO_MODEL)
        yield Reply(text=NO_MODEL, usage=Usage())

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Fail: there is no model that could fill anything."""
        raise ModelFailed(model=self.name, problem="no language model is connected")


def make_plain_runtime(db: Database, settings: AgentSettings) -> Runtime[Any, Any]:
    """A runtime that answers with the model of the settings, and learns nothing."""
    return Runtime(
        db,
        agent=PLAIN,
        model=settings.model or UnconfiguredModel(),
        instructions=INSTRUCTIONS,
        config=settings.config,
    )


plain_agent = Agent(
    name=PLAIN,
    description="A model with short instructions, and no memory.",
    make_runtime=make_plain_runtime,
    offline_notices=(NO_MODEL,),
)
