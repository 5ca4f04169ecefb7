"""A store that fails, or is cancelled, at its nth call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from clew.core.errors import OutcomeUnknown, StoreUnavailable
from clew.core.log.commit import Plan, Planner
from clew.core.log.rows import StoreRead
from clew.core.ports import ScrubResult, Store, StoreReport
from clew.core.values import Job, Limits, Scope

T = TypeVar("T")


class FailingStore:
    """Another store, except that call number ``fail_at`` (counted from 1) goes wrong, once.

    ``how`` says in which way: ``error`` fails before the call reaches the store; ``after`` lets the store
    finish and loses its answer, as a broken connection does; ``cancel`` cancels the call while the store is
    at it. With ``only`` just the calls of that kind count. ``calls`` counts the calls so far, so that a test
    can fail each one in turn.
    """

    def __init__(
        self,
        store: Store,
        *,
        fail_at: int,
        how: Literal["error", "cancel", "after"] = "error",
        only: Literal["read", "change"] | None = None,
    ) -> None:
        self.name = store.name
        self.limits: Limits = store.limits
        self.calls = 0
        self._store = store
        self._fail_at = fail_at
        self._how = how
        self._only = only

    async def read(self, scope: Scope, read: StoreRead[T]) -> T:
        """The result of a reading."""
        return await self._call(lambda: self._store.read(scope, read), "read")

    async def change(self, scope: Scope, planner: Planner) -> Plan:
        """The plan that was applied."""
        return await self._call(lambda: self._store.change(scope, planner), "change")

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Jobs that are due."""
        return await self._call(lambda: self._store.claim(scope, kinds, limit, lease_ms))

    async def wait_for_change(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version."""
        await self._call(lambda: self._store.wait_for_change(scope, thread, after, timeout))

    async def wait_for_any_change(self, after: int, timeout: float) -> int:
        """Return a number other than ``after`` once any thread may have changed, or when the time is over."""
        return await self._call(lambda: self._store.wait_for_any_change(after, timeout))

    def now(self) -> int:
        """The time by the clock that all who write share."""
        return self._store.now()

    async def report(self) -> StoreReport:
        """The store's report of its health."""
        return await self._store.report()

    async def scrub(self) -> ScrubResult:
        """Leave no trace of rows that were removed."""
        return await self._store.scrub()

    async def close(self) -> None:
        """Close the store behind."""
        await self._store.close()

    async def _call(self, call: Callable[[], Awaitable[T]], kind: str = "other") -> T:
        if self._only not in (None, kind):
            return await call()
        self.calls += 1
        if self.calls != self._fail_at:
            return await call()
        if self._how == "error":
            raise StoreUnavailable(problem="it fails on purpose, before the call")
        if self._how == "cancel":
            await _cancel_at_first_pause(call)
            raise asyncio.CancelledError
        await call()
        raise OutcomeUnknown(problem="it fails on purpose, after the call")


async def _cancel_at_first_pause(call: Callable[[], Awaitable[object]]) -> None:
    """Begin a call and cancel it at its first pause."""
    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()
