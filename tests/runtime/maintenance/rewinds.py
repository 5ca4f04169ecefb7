"""What the tests about going back share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from clew.core.errors import (
    ModelFailed,
)
from clew.core.patch import append, merge
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.log import StateLog
from clew.runtime.state.schema import State, input
from clew.runtime.tools.tool import Effect, Tool, tool
from clew.runtime.turn.draft import Delta
from clew.testing.scripted_model import ScriptedModel

FAILURE = ModelFailed(model="m", problem="it is down")
PAY = ("c1", "pay", {"amount": 5})


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(effect=Effect.NONE)
async def look(amount: int) -> str:
    """Look."""
    return "seen"


class Diary(State):
    message: Annotated[str, input]
    history: Annotated[StateLog[Message], append]
    moods: Annotated[StateLog[str], append]
    progress: Annotated[dict[str, int], merge]
    reply: str = ""


async def note(state: Diary, ctx: Context) -> Delta:
    return {"moods": [f"mood {state.message}"], "progress": {state.message: 1}}


def runs() -> Callable[[], str]:
    """run1, run2, …"""
    numbers = iter(range(1, 100))
    return lambda: f"run{next(numbers)}"


def runtime_of(db: Database, *script: object, tools: list[Tool] | None = None) -> Runtime:
    return Runtime(db, model=ScriptedModel(*script), tools=tools or [], config=RuntimeConfig(new_id=runs()))  # type: ignore[arg-type]  # lines


async def contents(db: Database, at: int | None = None, log: str = "history") -> list[object]:
    items = await db.thread("a").items(at=at, log=log)
    return [item.body.get("content", item.body.get("value", item.kind)) for item in items]


async def failing_turn(runtime: Runtime[Any, Any], message: str) -> None:
    with pytest.raises(ModelFailed):
        await runtime.run_turn("a", message)


def waiting_stage(start: asyncio.Event, go: asyncio.Event):  # type: ignore[no-untyped-def]  # a stage
    async def wait(state: State, ctx: Context) -> None:
        start.set()
        await go.wait()

    return wait
