"""The finish of ended episodes: jobs, several at once, each leased while it is worked on."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Never

import msgspec

from clew.core.errors import (
    ClaimLost,
    ClewError,
    DeadlineExceeded,
    NotFound,
    RevisionConflict,
    StoreFailed,
    ThreadExists,
    VersionConflict,
)
from clew.core.values import AppendTo, Finish, Job, Put
from clew.database.database import Database, owner_database
from clew.runtime.attempts import cancel_tasks
from clew.runtime.context import MemoryMode
from clew.runtime.records.episodes import (
    ENDED,
    Episode,
    EpisodeResult,
    active_episode,
    check_episode_agent,
    end_job_kind,
    episode_record,
    job_with_claim,
    read_episode,
    request_end,
    transcript,
)
from clew.runtime.settings import Settings
from clew.runtime.telemetry.scope import TelemetryScope, current_scope

log = logging.getLogger("clew")
EPISODE_ENDED = "EpisodeEnded"
"""The reason of a commit that ends an episode, for its span."""


class EpisodeFinisher:
    """The ends that this process is at, up to so many at once."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self.finished_count = 0
        self._db = db
        self._settings = settings
        self._is_closed = False
        self._workers: set[asyncio.Task[None]] = set()

    def start_worker(self) -> None:
        """Look for an end that is due, if there is room. A task that finds one starts another that looks."""
        if self._is_closed or len(self._workers) >= self._settings.config.sessions.concurrent_ends:
            return
        worker = asyncio.get_running_loop().create_task(self._finish_due_jobs())
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def wait_until_idle(self) -> None:
        """Wait until nothing is due any more."""
        while self._workers:
            await asyncio.wait(set(self._workers))

    def stop(self) -> None:
        """Begin no more."""
        self._is_closed = True

    async def close(self) -> None:
        """Stop at once; jobs that are not finished are released, for another process to do."""
        self.stop()
        await cancel_tasks(self._workers)

    async def _finish_due_jobs(self) -> None:
        try:
            while not self._is_closed and (job := await self._claim_job()) is not None:
                self.start_worker()
                is_finished = await finish_job(self._db, job, self._settings)
                self.finished_count += is_finished
        except ClewError as error:  # it is looked for again at the next sweep
            log.warning("Ended episodes are finished later: %s", error)

    async def _claim_job(self) -> Job | None:
        lease_ms, kind = self._settings.config.leases.ms, end_job_kind(self._settings.agent)
        return next(iter(await self._db.jobs.claim([kind], limit=1, lease_ms=lease_ms)), None)


async def end_episode(
    db: Database, thread: str, settings: Settings, *, by: str, feedback: str | None = None
) -> Episode | None:
    """End the episode that a thread is in and do what is left to do, and no other episode's; None if none.

    If that fails, the episode is still ``ending``, and its job is tried again like any other.

    Raises:
        ThreadOfAnotherAgent: The episode is another agent's.
    """
    now, token = settings.clock(), secrets.token_hex(16)
    until = now + settings.config.leases.ms
    episode = await request_end(
        db, thread, by=by, now=now, feedback=feedback, claim=(token, until), agent=settings.agent
    )
    if episode is None:
        if (active := await active_episode(db, thread)) is not None:
            check_episode_agent(active, settings.agent)
        return None
    await finish_job(db, job_with_claim(episode, token, until), settings)
    return await read_episode(db, episode.id)


async def finish_job(db: Database, job: Job, settings: Settings) -> bool:
    """Finish one job with the rights of its owner, or give it back with what went wrong."""
    with settings.telemetry.job(settings.agent, job) as scope:
        return await _finish_watched_job(owner_database(db, job.owner), job, settings, scope)


async def _finish_watched_job(db: Database, job: Job, settings: Settings, scope: TelemetryScope) -> bool:
    try:
        before = await read_episode(db, job.body["episode"])
        if settings.memory_mode is not MemoryMode.INCOGNITO:
            scope.name_thread(before.thread)
        async with _hold(db, job, settings.config.leases.seconds) as holding:
            result = await _finalize_under_claim(db, settings, before, holding)
            await _commit_end(db, job, before, result, settings.config.deadlines.turn_seconds)
    except ClaimLost:
        scope.fail_job(None)
        return False  # another worker has taken the job
    except asyncio.CancelledError:
        with suppress(ClewError):  # then its claim runs out
            await asyncio.shield(db.jobs.release(job))
        raise
    except Exception as error:  # noqa: BLE001  # whatever went wrong is kept with the job, which is tried again
        problem = str(error) if isinstance(error, ClewError) else f"{type(error).__name__}: {error}"
        scope.fail_job(error)
        log.warning("The end of %s is tried again: %s", job.body, problem)
        with suppress(ClaimLost):  # then another worker has it already
            await db.jobs.fail(job, problem)
        return False
    return True


async def _commit_end(db: Database, job: Job, before: Episode, left: EpisodeResult, seconds: float) -> None:
    """Commit what an episode leaves behind with the end of its job; planned anew if others were quicker.

    All episodes of a user end in one memory thread. Each refusal means that another commit went through, so
    that everybody gets there, and nobody asks a model a second time.

    Raises:
        ClaimLost: Another worker has the job; nothing was committed.
        VersionConflict: Others were quicker, for so many ``seconds``.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while True:
        over = msgspec.structs.replace(left.episode, status=ENDED)
        row = Put(record=episode_record(over, before.user), expect=before.revision)
        try:
            with current_scope().watch_commit(EPISODE_ENDED, _changeset_count(left)):
                await db.commit([row, *left.writes, Finish(job=job.id, token=job.token or "")])
        except (VersionConflict, ThreadExists, RevisionConflict):
            if left.replan is None or clock() > deadline:
                raise
        else:
            return
        before = await read_episode(db, before.id)
        left = await left.replan(before)


def _changeset_count(result: EpisodeResult) -> int:
    return sum(isinstance(write, AppendTo) for write in result.writes)


async def _finalize_under_claim(
    db: Database, settings: Settings, episode: Episode, claim: "asyncio.Task[Never]"
) -> EpisodeResult:
    """Make the result of an ended episode while its job is leased.

    Raises:
        ClaimLost: Another worker has the job, so the result is dropped.
        DeadlineExceeded: It took too long.
    """
    work = asyncio.create_task(_finalize_in_time(db, settings, episode))
    try:
        await asyncio.wait([work, claim], return_when=asyncio.FIRST_COMPLETED)
        if work.cancelled():  # not by us: if this were cancelled, we would not be here
            raise RuntimeError("It cancelled itself.")
        return work.result() if work.done() else await claim
    finally:
        work.cancel()
        await asyncio.wait([work])


async def _finalize_in_time(db: Database, settings: Settings, episode: Episode) -> EpisodeResult:
    seconds = settings.config.deadlines.turn_seconds
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            if not await _is_whole(db, episode):
                log.warning(
                    "Episode %s of thread %s leaves nothing: the thread is not its user's.",
                    episode.id,
                    episode.thread,
                )
                return EpisodeResult(episode=msgspec.structs.replace(episode, candidates=()))
            return await settings.finalize(db, episode, await transcript(db, episode))
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise DeadlineExceeded(what=f"The end of episode {episode.id!r}", seconds=seconds) from error


@asynccontextmanager
async def _hold(db: Database, job: Job, seconds: float) -> AsyncIterator["asyncio.Task[Never]"]:
    """Lease a job until this is left. The task that it gives ends earlier only if the lease is lost."""
    holding = asyncio.create_task(_keep_claim(db, job, seconds))
    try:
        yield holding
    finally:
        await cancel_tasks([holding])
        if not holding.cancelled():
            holding.exception()  # it may have lost the job to our own commit; if not, that was refused


async def _is_whole(db: Database, of: Episode) -> bool:
    """Return whether an episode and its thread belong to the same user.

    If the thread was deleted, what is left of a user's is theirs; what was nobody's went with the thread.
    """
    try:
        return (await db.thread(of.thread).head()).owner == of.user
    except NotFound:
        return of.user is not None


async def _keep_claim(db: Database, job: Job, seconds: float) -> Never:
    """Hold a job for as long as this runs.

    Raises:
        ClaimLost: Another worker has it.
    """
    while True:
        await asyncio.sleep(seconds / 3)
        try:
            await db.jobs.extend(job, lease_ms=int(seconds * 1000))
        except StoreFailed as error:  # the claim may run out meanwhile; it guards the commit all the same
            log.warning("The claim on %s could not be extended: %s", job.body, error)
