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
from clew.core.values import HISTORY, MEMORY, Enqueue, Job, Put, Record, RecordQuery, Summary
from clew.database.database import Database, owner_database
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.values import ARCS, FACTS
from clew.runtime.memory.vectors.embedding import VECTOR, current_space, embed_some

log = logging.getLogger("clew")
EMBED = "embed"
RENEW = "embed everything"
NOTED = "embedder"
LEASE_MS = 240_000
"""For one batch, with all the patience that an embedder may have."""

PAGE = 100
CANCEL_AGAIN = 0.1
KNOWN = (FACTS, ARCS)


def embedding(thread: str, owner: str | None, reason: str, logs: Sequence[str] = KNOWN) -> Enqueue:
    """A job for the vectors of what is new in a thread. For each reason it waits only once."""
    body = {"thread": thread, "logs": list(logs)}
    id, key = f"embed-{secrets.token_hex(10)}", f"embed {thread} {reason}"
    return Enqueue(job=Job(id=id, kind=EMBED, key=key, owner=owner, body=body))


@check_arguments
async def embed_due(db: Database, embedder: EmbeddingProvider) -> int:
    """Do the jobs for vectors that are due; how many were made. One that fails is tried again later.

    If the embedder is not the one that made the vectors so far, all of them are asked for anew.
    """
    worker = _Worker(db, embedder)
    noted = await _noted(db)
    if noted is None or not str(noted.body["space"]).startswith(f"{embedder.name}:"):
        try:
            await worker.space()
        except Exception as error:  # noqa: BLE001  # an embedder is not ours; the jobs will tell of it too
            log.warning("All vectors are to be made anew, and cannot be: %s", _told(error))
    made = 0
    while jobs := await db.jobs.claim([EMBED, RENEW], lease_ms=LEASE_MS):
        for job in jobs:
            made += await worker.worked(job)
    return made


class Embeddings:
    """The jobs for vectors that this process does beside everything else, if it has an embedder."""

    def __init__(self, db: Database, embedder: EmbeddingProvider | None) -> None:
        self._db = db
        self._embedder = embedder
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look for jobs that are due, unless that is still going on."""
        if self._embedder is not None and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._work(self._embedder))

    async def idle(self) -> None:
        """Wait until nothing is due any more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop where it is; what is not done is given back, for somebody else to do."""
        while self._task is not None and not self._task.done():
            self._task.cancel()
            # A cancel that comes just as a driver's call is done may be lost, so one may not do.
            await asyncio.wait([self._task], timeout=CANCEL_AGAIN)

    async def _work(self, embedder: EmbeddingProvider) -> None:
        try:
            await embed_due(self._db, embedder)
        except ClewError as error:  # it is looked for again at the next sweep
            log.warning("Vectors are made later: %s", error)


class _Worker:
    """Does jobs with an embedder, which is asked only once in which space it works."""

    def __init__(self, db: Database, embedder: EmbeddingProvider) -> None:
        self._db = db
        self._embedder = embedder
        self._space: str | None = None

    async def space(self) -> str:
        """The space that vectors are made in. If it is another than before, everything is made anew."""
        if self._space is None:
            space = await current_space(self._embedder)
            await _note(self._db, space)
            self._space = space
        return self._space

    async def worked(self, job: Job) -> int:
        """Finish a job, or give it back with what went wrong; how many vectors it made."""
        made = 0
        try:
            if job.kind == RENEW:
                await _renew(self._db, job, await self.space())
            else:
                made = await self._embed(job, await self.space())
            await self._db.jobs.finish(job)
        except ClaimLost:
            log.info("Job %s is in other hands.", job.id)
        except asyncio.CancelledError:
            with suppress(ClewError):  # then its claim runs out
                await asyncio.shield(self._db.jobs.release(job))
            raise
        except Exception as error:  # noqa: BLE001  # an embedder is not ours; the job keeps what it said
            log.warning("Vectors are made later: %s", _told(error))
            with suppress(ClaimLost):
                await self._db.jobs.fail(job, _told(error))
        return made

    async def _embed(self, job: Job, space: str) -> int:
        """Make the vectors of a thread with the rights of the job's owner."""
        db, thread, made = owner_database(self._db, job.owner), job.body["thread"], 0
        for name in job.body["logs"]:
            try:
                while some := await embed_some(db, thread, job.owner, name, self._embedder, space):
                    made += some
                    await db.jobs.extend(job, lease_ms=LEASE_MS)
            except ThreadNotFound:
                break  # it was deleted, and nothing of it is to be found
        return made


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, ClewError) else f"{type(error).__name__}: {error}"


async def _noted(db: Database) -> Record | None:
    """In which space the vectors are made."""
    try:
        return await db.records.get(NOTED, VECTOR)
    except RecordNotFound:
        return None


async def _note(db: Database, space: str) -> None:
    before = await _noted(db)
    if before is not None and before.body["space"] == space:
        return
    record = Record(kind=NOTED, id=VECTOR, body={"space": space})
    walk = Job(id=f"embed-{secrets.token_hex(10)}", kind=RENEW, key=f"{RENEW} {space}")
    with suppress(RevisionConflict):  # another process has just done so
        await db.commit([Put(record=record, expect=before.revision if before else 0), Enqueue(job=walk)])


async def _renew(db: Database, job: Job, space: str) -> None:
    """Ask for the vectors of every memory, and of every thread whose items had some."""
    has_items = bool(await db.records.find(RecordQuery(kind=VECTOR, tags=(HISTORY,), limit=1)))
    after: str | None = None
    while True:
        page = await db.threads(limit=PAGE, after=after, system=True)
        writes = [
            embedding(thread.id, thread.owner, space, logs)
            for thread in page.threads
            if (logs := await _logs(db, thread, has_items=has_items))
        ]
        if writes:
            await db.commit(writes)
        after = page.next
        if after is None:
            return
        await db.jobs.extend(job, lease_ms=LEASE_MS)


async def _logs(db: Database, thread: Summary, *, has_items: bool) -> Sequence[str]:
    if thread.id.startswith(MEMORY):
        return KNOWN
    query = RecordQuery(kind=VECTOR, tags=(thread.id, HISTORY), limit=1)
    return (HISTORY,) if has_items and await db.records.find(query) else ()
