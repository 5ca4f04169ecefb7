"""What a runtime does beside its turns: close what died, begin what was queued, end what nobody touches."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from holdfast.core.errors import HoldfastError
from holdfast.core.values import RecordQuery
from holdfast.runtime import queueing
from holdfast.runtime.ending import end_expired, end_now, work
from holdfast.runtime.recovery import recover
from holdfast.runtime.settings import Settings
from holdfast.threads.database import Database

log = logging.getLogger("holdfast")
PAGE = 100
CANCEL_AGAIN = 0.1


class Sweeper:
    """Looks around at once, and then every so many seconds, until it is ended."""

    def __init__(
        self, db: Database, settings: Settings, seconds: float, drain: Callable[[Database, str], None]
    ) -> None:
        self._db = db
        self._settings = settings
        self._seconds = seconds
        self._drain = drain
        self._ended = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look around."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        """Look no more."""
        self._ended = True
        while self._task is not None and not self._task.done():
            self._task.cancel()
            # asyncio.wait_for loses a cancel that comes just as what it waits for is done, so one may not do.
            await asyncio.wait([self._task], timeout=CANCEL_AGAIN)

    async def _run(self) -> None:
        while not self._ended:  # a driver may swallow the cancellation, so that it shows only here
            try:
                await self.once()
            except HoldfastError as error:  # whatever one of them met, the next look around comes
                log.warning("The sweep is tried again in %s s: %s", self._seconds, error)
            if not self._ended:
                await asyncio.sleep(self._seconds)

    async def once(self) -> None:
        """Look around once."""
        for run in await recover(self._db, self._settings):
            log.info("Run %s of thread %s was interrupted and is closed.", run.id, run.thread)
        waiting = await self._db.records.find(RecordQuery(kind=queueing.KIND, limit=PAGE))
        for record in waiting:
            self._drain(self._db, queueing.queued_of(record).asked.thread)
        settings = self._settings
        await end_expired(self._db, idle_ms=int(settings.idle_seconds * 1000), now=settings.clock())
        await work(self._db, settings.finalize)


async def end_all(threads: Mapping[str, tuple[Database, int]], settings: Settings, seconds: float) -> None:
    """End the episodes of some threads, as far as it goes in the time; the queue keeps the rest."""
    try:
        async with asyncio.timeout(seconds):
            for thread, (db, _) in threads.items():
                await end_now(db, thread, settings.finalize, by="shutdown", now=settings.clock())
    except TimeoutError:
        log.warning("Not every episode was ended in %s s; what is left is ended later.", seconds)
    except HoldfastError as error:
        log.warning("Episodes are left open until somebody can end them: %s", error)
