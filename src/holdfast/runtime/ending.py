"""How an episode ends, whoever ends it: it is taken from its thread at once, and a job does the rest.

The job is leased and retried with growing pauses, across restarts, until everything that the end is to leave
behind commits together with the job's own end. So nothing is lost, and nothing is left behind twice.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from holdfast.core.errors import ClaimLost, HoldfastError, NotThere, RevisionConflict, StoreDamaged
from holdfast.core.jobs import claimed
from holdfast.core.values import Enqueue, Finish, Job, Put, Record, RecordQuery, Write
from holdfast.runtime.episodes import (
    ACTIVE_ROW,
    ENDED,
    ENDING,
    TEXT,
    Episode,
    active_episode,
    episode,
    moved,
    row_of,
)
from holdfast.runtime.messages import Message, message_of
from holdfast.threads.database import Database

log = logging.getLogger("holdfast")
JOB = "end episode"
FEEDBACK = "feedback"
LEASE_MS = 60_000
PAGE = 256


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode leaves behind: the episode with its arc, and what else is to be written with it."""

    episode: Episode
    writes: Sequence[Write] = ()


Finalize: TypeAlias = Callable[[Database, Episode, Sequence[Message]], Awaitable[Left]]
"""Makes of an episode's transcript what it is to leave behind: a summary, an arc, what was held and is worth
keeping. If it raises, it is tried again later."""


async def nothing_left(db: Database, episode: Episode, transcript: Sequence[Message]) -> Left:
    """An end that leaves nothing but the episode's own row."""
    return Left(episode=episode)


async def request_end(
    db: Database,
    thread: str,
    *,
    by: str,
    now: int,
    feedback: str | None = None,
    untouched_since: int | None = None,
    token: str | None = None,
) -> Episode | None:
    """End the episode that a thread is in; None if there is none, or if it was touched meanwhile.

    What a person thought of it is recorded with it, once. The next turn starts a new episode. With a token
    the job that does the rest is claimed from the start, by whoever has it.
    """
    while True:
        before = await active_episode(db, thread)
        if before is None or (untouched_since is not None and before.touched > untouched_since):
            return None
        after = msgspec.structs.replace(
            before,
            status=ENDING,
            ended_by=by,
            ended=now,
            feedback=feedback,
            last=await _version(db, thread),
        )
        owner = before.user
        job = _job(after, now, token)
        writes = [*moved(before, after, owner), Enqueue(job=job), *_felt(after, by, now)]
        try:
            await db.commit(writes)
        except RevisionConflict:
            continue  # a turn has just touched it, or somebody else has just ended it
        return after


def _job(of: Episode, now: int, token: str | None) -> Job:
    job = Job(id=f"end {of.id}", kind=JOB, key=of.id, owner=of.user, body={"episode": of.id})
    return job if token is None else claimed(job, token, now + LEASE_MS)


async def end_now(
    db: Database, thread: str, finalize: Finalize, *, by: str, now: int, feedback: str | None = None
) -> Episode | None:
    """End the episode that a thread is in and do what is left to do, and no other episode's; None if none.

    If that fails, the episode is still ``ending``, and its job is tried again like any other.
    """
    token = secrets.token_hex(16)
    requested = await request_end(db, thread, by=by, now=now, feedback=feedback, token=token)
    if requested is None:
        return None
    await _worked(db, _job(requested, now, token), finalize)
    return await episode(db, requested.id)


async def _version(db: Database, thread: str) -> int | None:
    try:
        return (await db.thread(thread).head()).version
    except NotThere:
        return None


def _felt(ended: Episode, source: str, now: int) -> list[Write]:
    """What a person thought of an episode: a label and numbers, never text."""
    if ended.feedback is None:
        return []
    body = {
        "label": ended.feedback,
        "source": source,
        "modality": ended.modality,
        "turns": ended.turns,
        "recorded": now,
        "thread": ended.thread,
    }
    return [Put(record=Record(kind=FEEDBACK, id=ended.id, owner=ended.user, sort=now, body=body), expect=0)]


async def end_expired(db: Database, *, idle_ms: int, now: int) -> int:
    """End text episodes that nobody touched for so long; how many. Expiry counts when it commits."""
    ended = 0
    query = RecordQuery(kind=ACTIVE_ROW, tags=(f"modality:{TEXT}",), until=now - idle_ms, limit=PAGE)
    while found := await db.records.find(query):
        for record in found:
            try:
                done = await request_end(db, record.id, by="timeout", now=now, untouched_since=now - idle_ms)
            except StoreDamaged as error:
                log.warning("An episode cannot be ended: %s", error)  # it must not keep the others waiting
                continue
            ended += done is not None
        if len(found) < PAGE:
            break
        query = msgspec.structs.replace(query, after=(found[-1].sort, found[-1].id))
    return ended


async def work(db: Database, finalize: Finalize) -> int:
    """Do the jobs of ended episodes that are due; how many were finished."""
    finished = 0
    while jobs := await db.jobs.claim([JOB], limit=1, lease_ms=LEASE_MS):
        for job in jobs:
            finished += await _worked(db, job, finalize)
    return finished


async def _worked(db: Database, job: Job, finalize: Finalize) -> bool:
    """Finish one job, or give it back with what went wrong."""
    try:
        before = await episode(db, job.body["episode"])
        left = await finalize(db, before, await transcript(db, before))
        over = msgspec.structs.replace(left.episode, status=ENDED)
        row = Put(record=row_of(over, before.user), expect=before.revision)
        await db.commit([row, *left.writes, Finish(job=job.id, token=job.token or "")])
    except ClaimLost:
        return False  # the claim runs out, and somebody else takes the job
    except Exception as error:  # noqa: BLE001  # whatever went wrong is kept with the job, which is tried again
        problem = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
        log.warning("The end of %s is tried again: %s", job.body, problem)
        with suppress(ClaimLost):  # then somebody else is at it already
            await db.jobs.fail(job, problem)
        return False
    return True


async def transcript(db: Database, of: Episode) -> list[Message]:
    """What was said in an episode, compacted or not."""
    try:
        items = await db.thread(of.thread).items(after=of.first - 1, at=of.last, whole=True)
    except NotThere:
        return []  # the thread was deleted; its episode ends all the same
    return [message_of(item) for item in items]
