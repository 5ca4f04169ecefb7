"""A process that ends in the middle of a turn, without one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from clew.core.errors import StoreUnavailable
from clew.testing.faults import FailingStore

T = TypeVar("T")


class DeadStore(FailingStore):
    """A store that answers nothing from its nth change on, as if the process had ended there."""

    async def _call(self, call: Callable[[], Awaitable[T]], kind: str = "other") -> T:
        self.calls += kind == "change"
        if self.calls >= self._fail_at:
            raise StoreUnavailable(problem="the process is gone")
        return await call()
