"""The lease of a run: renewed while a turn is long, and its loss is noticed."""

import asyncio
from collections.abc import Callable

from clew.core.errors import RecordNotFound, RevisionConflict, StoreFailed
from clew.runtime.attempts import ATTEMPTS
from clew.runtime.records.runs import RUNNING
from clew.runtime.turn.journal import ThreadJournal


class Lease:
    """Renews the lease of a run until it is ended. A turn that ends before the first pays nothing for it."""

    def __init__(
        self, journal: ThreadJournal, seconds: float, clock: Callable[[], int], stop: Callable[[], object]
    ) -> None:
        self._journal = journal
        self._seconds = seconds
        self._clock = clock
        self._stop = stop
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Schedule the first renewal."""
        self._timer = asyncio.get_running_loop().call_later(self._seconds / 3, self._begin)

    async def end(self) -> None:
        """Stop renewing; a renewal under way ends first."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._renew_until_lost())

    async def _renew_until_lost(self) -> None:
        while True:
            try:
                if not await self._renew_once():
                    self._stop()
                    return
            except StoreFailed:
                pass  # the lease may end meanwhile; the version guards every commit all the same
            await asyncio.sleep(self._seconds / 3)

    async def _renew_once(self) -> bool:
        """Renew the lease; return whether the run is still ours, as far as is known."""
        for _ in range(ATTEMPTS):
            until = self._clock() + int(self._seconds * 1000)
            renewal = asyncio.ensure_future(self._journal.renew_lease(until))
            try:
                await asyncio.shield(renewal)
                return True
            except RevisionConflict:
                if not await self._is_still_ours():
                    return False
            except asyncio.CancelledError:
                await asyncio.wait([renewal])
                raise
        return False

    async def _is_still_ours(self) -> bool:
        """Return whether the run is still ours, though its record was changed."""
        try:
            run = await self._journal.reload_run()
        except RecordNotFound:
            return False
        return run.status == RUNNING and not run.cancel
