"""What the tests about compaction share."""

from __future__ import annotations

from collections.abc import Sequence

from clew.database.database import Database
from clew.runtime.model.messages import Message
from clew.runtime.runtime import Runtime
from clew.testing.scripted_model import ScriptedModel


async def shortly(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


async def contents(db: Database, at: int | None = None) -> list[object]:
    return [item.body.get("content", item.kind) for item in await db.thread("a").items(at=at)]


async def runtime_after(db: Database, turns: int) -> Runtime:
    """A thread ``a`` with some turns behind it."""
    model = ScriptedModel(*(f"answer {number}" for number in range(turns)))
    async with Runtime(db, model=model) as runtime:
        for number in range(turns):
            await runtime.run_turn("a", f"question {number}")
    return runtime
