"""Vectors are made in the queue: a job for what is new in a thread, and a walk when the embedder changes.

Every process of a tenant should have the same embedder: each makes all vectors anew in its own space.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress

from clew.core.arguments import check_arguments
from clew.core.errors import (
    ClaimLost,
    ClewError,
    RecordNotFound,
    RevisionConflict,
    ThreadNotFound,
)
from clew.core.log.vectors import VECTOR_KIND
from clew.core.values import HISTORY, MEMORY_PREFIX, Enqueue, Job, Put, Record, RecordQuery, ThreadSummary
from clew.database.database import Database, owner_database
from clew.runtime.attempts import cancel_tasks
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.values import ARCS, FACTS
from clew.runtime.memory.vectors.embedding import current_space, embed_batch
from clew.runtime.records.runs import DEFAULT_AGENT
from clew.runtime.telemetry.scope import TelemetryScope
from clew.runtime.telemetry.telemetry import Telemetry

log = logging.getLogger("clew")
EMBED_JOB = "embed"
RENEW_JOB = "embed everything"
SPACE_KIND = "embedder"
LEASE_MS = 240_000
"""Long enough for one batch, with all the attempts of an embedder's retry policy."""

THREADS_PER_PAGE = 100
MEMORY_LOGS = (FACTS, ARCS)


def embedding_job(thread: str, owner: str | None, reason: str, logs: Sequence[str] = MEMORY_LOGS) -> Enqueue:
    """A job for the vectors of what is new in a thread. For each reason it waits only once."""
    body = {"thread": thread, "logs": list(logs)}
    id, key = f"embed-{secrets.token_hex(10)}", f"embed {thread} {reason}"
    return Enqueue(job=Job(id=id, kind=EMBED_JOB, key=key, owner=owner, body=body))


@check_arguments
async def run_embedding_jobs(
    db: Database,
    embedder: EmbeddingProvider,
    *,
    telemetry: Telemetry | None = None,
    agent: str = DEFAULT_AGENT,
) -> int:
    """Do the jobs for vectors that are due; how many were made. One that fails is tried again later.

    If the embedder is not the one that made the vectors so far, all of them are asked for anew.
    """
    runner = _JobRunner(db, embedder, telemetry or Telemetry(), agent)
    record = await _space_record(db)
    if record is None or not str(record.body["space"]).startswith(f"{embedder.name}:"):
        try:
            await runner.ensure_space()
        except Exception as error:  # noqa: BLE001  # an embedder is not ours; the jobs will tell of it too
            log.warning("All vectors are to be made anew, and cannot be: %s", _error_text(error))
    count = 0
    while jobs := await db.jobs.claim([EMBED_JOB, RENEW_JOB], lease_ms=LEASE_MS):
        for job in jobs:
            count += await runner.run_job(job)
    return count


class EmbeddingWorker:
    """The jobs for vectors that this process does beside everything else, if it has an embedder."""

    def __init__(
        self, db: Database, embedder: EmbeddingProvider | None, telemetry: Telemetry, agent: str
    ) -> None:
        self._db = db
        self._embedder = embedder
        self._telemetry = telemetry
        self._agent = agent
        self._task: asyncio.Task[None] | None = None

    def start_worker(self) -> None:
        """Look for jobs that are due, unless that is still going on."""
        if self._embedder is not None and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run_due_jobs(self._embedder))

    async def wait_until_idle(self) -> None:
        """Wait until nothing is due any more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop at once; jobs that are not finished are released, for another process to do."""
        if self._task is not None:
            await cancel_tasks([self._task])

    async def _run_due_jobs(self, embedder: EmbeddingProvider) -> None:
        try:
            await run_embedding_jobs(self._db, embedder, telemetry=self._telemetry, agent=self._agent)
        except ClewError as error:  # it is looked for again at the next sweep
            log.warning("Vectors are made later: %s", error)


class _JobRunner:
    """Does jobs with an embedder, which is asked only once in which space it works."""

    def __init__(self, db: Database, embedder: EmbeddingProvider, telemetry: Telemetry, agent: str) -> None:
        self._db = db
        self._embedder = embedder
        self._telemetry = telemetry
        self._agent = agent
        self._space: str | None = None

    async def ensure_space(self) -> str:
        """The space that vectors are made in. If it is another than before, everything is made anew."""
        if self._space is None:
            space = await current_space(self._embedder)
            await _store_space(self._db, space)
            self._space = space
        return self._space

    async def run_job(self, job: Job) -> int:
        """Finish a job, or give it back with what went wrong; how many vectors it made."""
        thread = None if job.kind == RENEW_JOB else job.body["thread"]
        with self._telemetry.job(self._agent, job, thread) as scope:
            return await self._run_watched_job(job, scope)

    async def _run_watched_job(self, job: Job, scope: TelemetryScope) -> int:
        count = 0
        try:
            if job.kind == RENEW_JOB:
                await _enqueue_renewal(self._db, job, await self.ensure_space())
            else:
                count = await self._embed_logs(job, await self.ensure_space())
            await self._db.jobs.finish(job)
        except ClaimLost:
            scope.fail_job(None)
            log.info("Job %s is in other hands.", job.id)
        except asyncio.CancelledError:
            with suppress(ClewError):  # then its claim runs out
                await asyncio.shield(self._db.jobs.release(job))
            raise
        except Exception as error:  # noqa: BLE001  # an embedder is not ours; the job keeps what it said
            scope.fail_job(error)
            log.warning("Vectors are made later: %s", _error_text(error))
            with suppress(ClaimLost):
                await self._db.jobs.fail(job, _error_text(error))
        return count

    async def _embed_logs(self, job: Job, space: str) -> int:
        """Make the vectors of a thread with the rights of the job's owner."""
        db, thread, total = owner_database(self._db, job.owner), job.body["thread"], 0
        for name in job.body["logs"]:
            try:
                while count := await embed_batch(db, thread, job.owner, name, self._embedder, space):
                    total += count
                    await db.jobs.extend(job, lease_ms=LEASE_MS)
            except ThreadNotFound:
                break  # it was deleted, and nothing of it is to be found
        return total


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, ClewError) else f"{type(error).__name__}: {error}"


async def _space_record(db: Database) -> Record | None:
    """In which space the vectors are made."""
    try:
        return await db.records.get(SPACE_KIND, VECTOR_KIND)
    except RecordNotFound:
        return None


async def _store_space(db: Database, space: str) -> None:
    current = await _space_record(db)
    if current is not None and current.body["space"] == space:
        return
    record = Record(kind=SPACE_KIND, id=VECTOR_KIND, body={"space": space})
    renewal = Job(id=f"embed-{secrets.token_hex(10)}", kind=RENEW_JOB, key=f"{RENEW_JOB} {space}")
    with suppress(RevisionConflict):  # another process has just done so
        await db.commit([Put(record=record, expect=current.revision if current else 0), Enqueue(job=renewal)])


async def _enqueue_renewal(db: Database, job: Job, space: str) -> None:
    """Ask for the vectors of every memory, and of every thread whose items had some."""
    has_items = bool(await db.records.find(RecordQuery(kind=VECTOR_KIND, tags=(HISTORY,), limit=1)))
    after: str | None = None
    while True:
        page = await db.threads(limit=THREADS_PER_PAGE, after=after, system=True)
        writes = [
            embedding_job(thread.id, thread.owner, space, logs)
            for thread in page.threads
            if (logs := await _logs_to_embed(db, thread, has_items=has_items))
        ]
        if writes:
            await db.commit(writes)
        after = page.next
        if after is None:
            return
        await db.jobs.extend(job, lease_ms=LEASE_MS)


async def _logs_to_embed(db: Database, thread: ThreadSummary, *, has_items: bool) -> Sequence[str]:
    if thread.id.startswith(MEMORY_PREFIX):
        return MEMORY_LOGS
    query = RecordQuery(kind=VECTOR_KIND, tags=(thread.id, HISTORY), limit=1)
    return (HISTORY,) if has_items and await db.records.find(query) else ()
