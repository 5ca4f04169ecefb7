"""The chat with a model that stops in the middle of an answer, and goes on once a file is there."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

from clew.cli.app import run
from clew.cli.chat import session
from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.model.protocol import Model, ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.runtime import Runtime
from clew_companion.agent import companion

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


def slow_runtime(db: Database, model: Model | None) -> Runtime[Any, Any]:
    return companion(db, model, response_model=SlowModel())


if __name__ == "__main__":
    session.make_runtime = slow_runtime
    sys.exit(run(sys.argv[1:]))
