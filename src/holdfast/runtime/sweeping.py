"""What a runtime does beside its turns: close runs that died, and begin turns that were left queued."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.errors import StoreFailed
from holdfast.core.values import RecordQuery
from holdfast.runtime import queueing
from holdfast.runtime.recovery import recover
from holdfast.runtime.settings import Settings
from holdfast.threads.database import Database

log = logging.getLogger("holdfast")
PAGE = 100


class Sweeper:
    """Looks around at once, and then every so many seconds, until it is ended."""

    def __init__(
        self, db: Database, settings: Settings, seconds: float, drain: Callable[[Database, str], None]
    ) -> None:
        self._db = db
        self._settings = settings
        self._seconds = seconds
        self._drain = drain
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look around."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self.once()
            except StoreFailed as error:
                log.warning("The sweep is tried again in %s s: %s", self._seconds, error)
            await asyncio.sleep(self._seconds)

    async def once(self) -> None:
        """Look around once."""
        for run in await recover(self._db, self._settings):
            log.info("Run %s of thread %s was interrupted and is closed.", run.id, run.thread)
        waiting = await self._db.records.find(RecordQuery(kind=queueing.KIND, limit=PAGE))
        for record in waiting:
            self._drain(self._db, queueing.queued_of(record).asked.thread)
