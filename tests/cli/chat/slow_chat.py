"""The chat with a model that stops in the middle of an answer, and goes on once a file is there."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from clew.agents import AgentSettings
from clew.cli.app import run
from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.runtime import Runtime
from clew_companion.agent import companion
from clew_companion.entry_point import agent as companion_agent

T = TypeVar("T")
GO_ON = "GO_ON"


def may_go_on() -> bool:
    """Whether the file is there that says so."""
    return Path(os.environ[GO_ON]).exists()


class SlowModel:
    """Says a few words, and the rest when it may."""

    name = "slow"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        yield TextChunk("It begins well. It goes on. ")
        while not may_go_on():  # noqa: ASYNC110 - another process says so
            await asyncio.sleep(0.01)
        yield TextChunk("And it ends well.")
        yield Reply(text="It begins well. It goes on. And it ends well.", usage=Usage(calls=1))

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        raise ModelFailed(model=self.name, problem="it gives no typed answers")


def slow_runtime(db: Database, settings: AgentSettings) -> Runtime[Any, Any]:
    return companion(db, settings.model, response_model=SlowModel())


slow_agent = msgspec.structs.replace(companion_agent, make_runtime=slow_runtime)

if __name__ == "__main__":
    os.environ["CLEW_AGENT"] = "tests.cli.chat.slow_chat:slow_agent"
    sys.exit(run(sys.argv[1:]))
