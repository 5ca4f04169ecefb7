"""The lease of a run: renewed while a turn is long; its loss, and a request to stop the run, are noticed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from clew.core.errors import NotFound, RecordNotFound, RevisionConflict, StoreFailed
from clew.runtime.attempts import ATTEMPTS
from clew.runtime.records.runs import RUNNING
from clew.runtime.state.run_state import RunState
from clew.runtime.turn.journal import ThreadJournal

WATCH_AFTER = 0.2
"""Seconds after which the thread of a run is watched: a turn that is quicker pays nothing for it."""
WATCH_SECONDS = 60.0
CONFIRM_SECONDS = 0.01
"""The time in which a commit of the run itself, which wakes its watch too, is confirmed to its journal."""


class Lease:
    """Renews the lease of a run until it is ended, and stops the run if the lease is lost or a turn asks.

    A turn that ends before the first renewal and the first look pays nothing for them.
    """

    def __init__(
        self, journal: ThreadJournal, seconds: float, clock: Callable[[], int], stop: Callable[[], object]
    ) -> None:
        self._journal = journal
        self._seconds = seconds
        self._clock = clock
        self._stop = stop
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        """Schedule the first renewal, and the watch of the thread."""
        loop = asyncio.get_running_loop()
        self._timers = [
            loop.call_later(WATCH_AFTER, self._begin, self._watch_for_stop),
            loop.call_later(self._seconds / 3, self._begin, self._renew_until_lost),
        ]

    async def end(self) -> None:
        """Stop renewing and watching; a renewal under way ends first."""
        self._is_over = True
        for timer in self._timers:
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work()))

    def _stop_run(self) -> None:
        """Stop the run once. When its end is being written, it is too late for that."""
        if not self._is_over:
            self._is_over = True
            self._stop()

    async def _renew_until_lost(self) -> None:
        while True:
            try:
                if not await self._renew_once():
                    self._stop_run()
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
        return run.status == RUNNING and run.stop is None

    async def _watch_for_stop(self) -> None:
        """Stop the run as soon as the thread says that it is to end, in whatever process that was asked."""
        version = self._journal.version
        while not self._is_over:
            try:
                await self._journal.thread.wait_for_change(version, timeout=WATCH_SECONDS)
                await asyncio.sleep(CONFIRM_SECONDS)
                if self._journal.version > version:
                    version = self._journal.version  # a commit of our own
                    continue
                version = await self._look_for_stop()
            except (StoreFailed, NotFound):
                await asyncio.sleep(self._seconds / 3)

    async def _look_for_stop(self) -> int:
        """Stop the run if its thread says so; return the version that was looked at."""
        head = await self._journal.thread.head()
        run_state, run = RunState.of(head.state), self._journal.run
        if run_state.stop is not None and (run_state.id, run_state.epoch) == (run.id, run.epoch):
            await self._journal.reload_run()  # the same commit has marked the record, which the end replaces
            self._stop_run()
        return head.version
