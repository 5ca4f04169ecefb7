"""The sweeper: closes runs that died, starts queued turns, ends idle episodes, lets go, beside the turns."""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from clew.core.errors import ClewError, StoreDamaged, ThreadOfAnotherAgent
from clew.core.values import RecordQuery
from clew.database.database import Database, owner_database
from clew.database.records import record_pages
from clew.runtime.attempts import cancel_tasks
from clew.runtime.execution import queue
from clew.runtime.maintenance.recovery import recover_runs
from clew.runtime.memory.vectors.jobs import EmbeddingWorker
from clew.runtime.records.episodes import end_expired_episodes
from clew.runtime.sessions.finish import EpisodeFinisher, end_episode
from clew.runtime.settings import Settings

log = logging.getLogger("clew")
TURNS_PER_PAGE = 100
HOUR_MS = 60 * 60 * 1000


class Sweeper:
    """Sweeps at once, and then every so many seconds, until it is stopped.

    It does the work of its own agent alone: another one over the same database sweeps for itself.
    Ended episodes are finished, and vectors made, beside it: a sweep never waits for a slow model.
    """

    def __init__(
        self,
        db: Database,
        settings: Settings,
        drain_queue: Callable[[Database, str], None],
        *,
        chores: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self._db = db
        self._settings = settings
        self._seconds = settings.config.leases.sweep_seconds
        self._drain_queue = drain_queue
        self._chores = chores
        self._finisher = EpisodeFinisher(db, settings)
        self._embedding_worker = EmbeddingWorker(
            db, settings.embedding_provider, settings.telemetry, settings.agent
        )
        self._next_retention = 0
        self._is_stopped = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to sweep in the background."""
        # In a context of its own: what it does for ever is no part of the request that opened the runtime.
        self._task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())

    async def stop(self) -> None:
        """Stop sweeping, and start no more ends. Those at work go on."""
        self._is_stopped = True
        self._finisher.stop()
        if self._task is not None:
            await cancel_tasks([self._task])

    async def finish_ends(self) -> None:
        """Wait for the ends that are at work."""
        await self._finisher.wait_until_idle()

    async def close(self) -> None:
        """Stop sweeping, and release the jobs that are at work."""
        await self.stop()
        await self._finisher.close()
        await self._embedding_worker.close()

    async def _run(self) -> None:
        while not self._is_stopped:  # a driver may swallow the cancellation, so that it shows only here
            await self.sweep()
            self._finisher.start_worker()
            self._embedding_worker.start_worker()
            if not self._is_stopped:
                await asyncio.sleep(self._seconds)

    async def sweep_and_wait(self) -> None:
        """Sweep once, and wait until the jobs that are due are finished."""
        await self.sweep()
        self._finisher.start_worker()
        await self._finisher.wait_until_idle()
        self._embedding_worker.start_worker()
        await self._embedding_worker.wait_until_idle()

    async def sweep(self) -> None:
        """Sweep once. A part that fails does not keep the others from being done."""
        parts: list[Callable[[], Awaitable[None]]] = [
            self._recover,
            self._start_queued_turns,
            self._end_expired,
        ]
        for part in (*parts, *self._chores, self._apply_retention):
            try:
                await part()
            except ClewError as error:  # the next sweep tries again
                log.warning("The sweep is tried again in %s s: %s", self._seconds, error)
            except Exception:  # nobody awaits the sweeps, so it would end them without a word
                log.exception("A part of the sweep failed, and is tried again in %s s.", self._seconds)

    async def _recover(self) -> None:
        for run in await recover_runs(self._db, self._settings):
            log.info("Run %s of thread %s was interrupted and is closed.", run.id, run.thread)

    async def _start_queued_turns(self) -> None:
        refusals, tags = self._settings.refusals, (queue.agent_tag(self._settings.agent),)
        query = RecordQuery(kind=queue.KIND, tags=tags, limit=TURNS_PER_PAGE)
        async for records in record_pages(self._db.records, query):
            for record in records:
                if refusals.covers(record):
                    continue
                try:
                    thread = queue.request_of(record).thread
                except StoreDamaged as error:
                    refusals.add(record, error)
                    continue
                self._drain_queue(owner_database(self._db, record.owner), thread)

    async def _end_expired(self) -> None:
        settings = self._settings
        await end_expired_episodes(
            self._db,
            idle_ms=settings.config.sessions.idle_ms,
            now=settings.clock(),
            agent=settings.agent,
            refusals=settings.refusals,
        )

    async def _apply_retention(self) -> None:
        """Purge the records whose date has come, and apply the rules of the tenant at once, then every hour.

        The database of one user has neither.
        """
        now, retention = self._settings.clock(), self._db.retention
        if self._db.user is not None:
            return
        await retention.purge(now=now)
        if now < self._next_retention:
            return
        self._next_retention = now + HOUR_MS
        await retention.settle()
        for result in await retention.apply(now=now):
            if result.threads:
                log.info("Retention rule %s let go of %d threads.", result.rule, len(result.threads))


async def end_episodes(
    threads: Mapping[str, Database], settings: Settings, seconds: float, sweeper: Sweeper
) -> None:
    """End the episodes of some threads, and wait for the ends of the sweeper, as far as the time allows.

    The jobs of the rest stay in the store.
    """
    slots = asyncio.Semaphore(settings.config.sessions.concurrent_ends)

    async def end(thread: str, db: Database) -> None:
        async with slots:
            try:
                await end_episode(db, thread, settings, by="shutdown")
            except ThreadOfAnotherAgent:
                return  # a turn was refused here, or the thread was handed over since
            except ClewError as error:  # it must not keep the others from ending
                log.warning("The episode of thread %s is left open until it can be ended: %s", thread, error)

    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            group.create_task(sweeper.finish_ends())
            for thread, db in threads.items():
                group.create_task(end(thread, db))
    except TimeoutError:
        log.warning("Not every episode was ended in %s s; what is left is ended later.", seconds)
