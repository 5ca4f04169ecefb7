"""Verifying a thread that somebody writes to meanwhile."""

from __future__ import annotations

from typing import TypeVar

import pytest

from clew.core.items import user
from clew.core.log.rows import StoreRead
from clew.core.values import Scope
from clew.database.database import Database
from clew.stores.memory import MemoryStore
from clew.testing.faults import FailingStore

T = TypeVar("T")


class RacingStore(FailingStore):
    """A store in which somebody appends to the thread just before its nth read."""

    async def read(self, scope: Scope, asking: StoreRead[T]) -> T:
        self.calls += 1
        if self.calls == self._fail_at:
            await Database(self._store).thread("a").append(items=[user("meanwhile")])
        return await self._store.read(scope, asking)


@pytest.mark.promise("B-06")
@pytest.mark.parametrize("number", range(1, 8))
async def test_a_changeset_that_comes_while_a_thread_is_verified_is_no_problem(number: int) -> None:
    store = MemoryStore()
    thread = await Database(store).create("a")
    await thread.append(items=[user("one")])

    verdict = await Database(RacingStore(store, fail_at=number)).thread("a").verify()

    assert verdict.problems == ()
