"""What reading a head costs: rows since the last anchor, never the whole log."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

import clew
from clew.core.log.rows import AskChangesets, StoreRead
from clew.core.values import Scope
from clew.database.database import Database
from clew.stores.memory import MemoryStore

MANY = 1_000
MOST = 70
"""How many small changesets an anchor may stand back."""


class Counting(MemoryStore):
    """A store that counts the changesets it hands out."""

    changesets = 0

    async def read(self, scope: Scope, asking: StoreRead[Any]) -> Any:
        return await super().read(scope, self._count(asking))

    def _count(self, asking: StoreRead[Any]) -> Generator[Any, Any, Any]:
        answer: Any = None
        while True:
            try:
                question = asking.send(answer)
            except StopIteration as end:
                return end.value
            answer = yield question
            self.changesets += len(answer) if isinstance(question, AskChangesets) else 0


async def rows_of_a_head(*, state_at: int) -> int:
    """How many changesets are read for the head of a long thread whose state was set at some version."""
    store = Counting()
    thread = await Database(store).create("a")
    for number in range(MANY):
        patches = [clew.set(["mood"], "calm")] if number == state_at else []
        await thread.append(items=[clew.user("Hi")], patches=patches)
    store.changesets = 0
    await thread.head()
    return store.changesets


@pytest.mark.parametrize("state_at", [0, MANY // 2, MANY - 1])
async def test_a_head_never_costs_the_whole_log(state_at: int) -> None:
    assert await rows_of_a_head(state_at=state_at) <= MOST


async def test_a_head_without_a_state_costs_nothing() -> None:
    assert await rows_of_a_head(state_at=MANY) == 0
