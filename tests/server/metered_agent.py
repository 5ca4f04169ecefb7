"""An agent for servers whose metrics are looked at: its model calls a tool, and then answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

import clew
from clew.database.database import Database
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, ToolCall, Usage
from clew.runtime.records.steps import Price
from clew.runtime.runtime import Runtime
from clew.runtime.settings import MemoryConfig, RuntimeConfig, SessionConfig
from clew.runtime.state.schema import Conversation
from clew.runtime.tools.tool import Effect, tool

T = TypeVar("T")
CONFIG = RuntimeConfig(
    prices={"acme:talker": Price(input=1.0, output=2.0)},
    memory=MemoryConfig(),
    sessions=SessionConfig(finalize_active_sessions_on_close=False),
)


class ToolUser:
    """Looks something up in each turn, and then answers; each call reads 10 tokens and writes 5."""

    name = "acme:talker"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """A call of a tool, or the answer once there is its result."""
        usage = Usage(calls=1, input_tokens=10, output_tokens=5)
        if request.messages[-1].role == "tool":
            yield Reply(text="Found.", usage=usage)
        else:
            yield Reply(calls=(ToolCall(id="c1", name="look_up", arguments={"word": "x"}),), usage=usage)

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing."""
        raise NotImplementedError


@tool(effect=Effect.NONE)
async def look_up(word: str) -> str:
    """Look a word up."""
    return word


def make_runtime(db: Database) -> Runtime[Conversation, None]:
    """Make the runtime of a tenant."""
    return clew.Runtime(db, agent="desk", model=ToolUser(), tools=[look_up], config=CONFIG)
