"""How an episode ends, whoever ends it: it is taken from its thread at once, and a job does the rest.

The job is leased and retried with growing pauses, across restarts, until everything that the end is to leave
behind commits together with the job's own end. So nothing is lost, and nothing is left behind twice.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from clew.core.errors import InvalidArgument, NotThere, RevisionConflict
from clew.core.jobs import claimed
from clew.core.text import is_label
from clew.core.values import Enqueue, Job, Put, Record, RecordQuery, Write
from clew.runtime.attempts import Attempts
from clew.runtime.episodes import (
    ACTIVE_ROW,
    ENDING,
    TEXT,
    Episode,
    active_episode,
    moved,
)
from clew.runtime.messages import Message, message_of
from clew.runtime.refusals import REFUSED, Refusals
from clew.threads.database import Database, owner_database

JOB = "end episode"
FEEDBACK = "feedback"
PAGE = 256


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode leaves behind: the episode with its arc, and what else is to be written with it.

    ``replan`` makes it again for the episode as it is by then, from what models have said already. It is
    called if somebody else has changed the episode or a thread that the writes are for; without it the whole
    end is tried again later.
    """

    episode: Episode
    writes: Sequence[Write] = ()
    replan: "Replan | None" = None


Replan: TypeAlias = Callable[[Episode], Awaitable[Left]]
"""Makes what an episode leaves behind once more, without asking a model."""

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
    claim: tuple[str, int] | None = None,
) -> Episode | None:
    """End the episode that a thread is in; None if there is none, or if it was touched meanwhile.

    What a person thought of it is recorded with it, once. The next turn starts a new episode. With a
    claim, a token and until when, the job that does the rest is held from the start.

    Raises:
        InvalidArgument: The feedback is no label.
        RevisionConflict: Others changed the episode again and again.
        StoreDamaged: The row of the episode cannot be read, or is another's.
    """
    if feedback is not None and not is_label(feedback):
        raise InvalidArgument(problem="Feedback is a label of one word, such as positive, and never text.")
    attempts = Attempts()
    while True:
        before = await active_episode(db, thread)
        if before is None or (untouched_since is not None and before.touched > untouched_since):
            return None
        last = await _version(db, thread)
        after, writes = end_of(before, by=by, now=now, last=last, feedback=feedback, claim=claim)
        try:
            await db.commit(writes)
        except RevisionConflict as conflict:
            if conflict.kind != ACTIVE_ROW:
                raise
            attempts.count(conflict)
            continue  # a turn has just touched it, or somebody else has just ended it
        return after


def end_of(
    before: Episode,
    *,
    by: str,
    now: int,
    last: int | None,
    feedback: str | None = None,
    claim: tuple[str, int] | None = None,
) -> tuple[Episode, list[Write]]:
    """An episode as it is once it has ended after a version of its thread, and the writes that end it."""
    after = msgspec.structs.replace(
        before, status=ENDING, ended_by=by, ended=now, feedback=feedback, last=last
    )
    job = _job(after) if claim is None else claimed_job(after, *claim)
    return after, [*moved(before, after, before.user), Enqueue(job=job), *_felt(after, by, now)]


def _job(of: Episode) -> Job:
    return Job(id=job_id(of.id), kind=JOB, key=of.id, owner=of.user, body={"episode": of.id})


def job_id(episode: str) -> str:
    """The id of the job that does the rest when an episode has ended."""
    return f"end {episode}"


def claimed_job(of: Episode, token: str, until: int) -> Job:
    """The job that does the rest, in the hands of whoever has the token."""
    return claimed(_job(of), token, until)


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
    tags = (f"thread:{ended.thread}",)
    return [Put(record=Record(kind=FEEDBACK, id=ended.id, owner=ended.user, tags=tags, sort=now, body=body))]


async def end_expired(db: Database, *, idle_ms: int, now: int, refusals: Refusals | None = None) -> int:
    """End text episodes that nobody touched for so long; how many. Expiry counts when it commits.

    Each is ended with the rights of its owner. One that cannot be keeps no other waiting.
    """
    ended = 0
    refusals = refusals or Refusals()
    query = RecordQuery(kind=ACTIVE_ROW, tags=(f"modality:{TEXT}",), until=now - idle_ms, limit=PAGE)
    while found := await db.records.find(query):
        # Each process takes them in an order of its own: several would come upon the same one at once.
        for record in sorted(found, key=lambda _: secrets.token_bytes(8)):
            if refusals.covers(record):
                continue
            own = owner_database(db, record.owner)
            try:
                done = await request_end(own, record.id, by="timeout", now=now, untouched_since=now - idle_ms)
            except REFUSED as error:
                refusals.add(record, error)
                continue
            ended += done is not None
        if len(found) < PAGE:
            break
        query = msgspec.structs.replace(query, after=(found[-1].sort, found[-1].id))
    return ended


async def transcript(db: Database, of: Episode) -> list[Message]:
    """What was said in an episode, compacted or not."""
    try:
        items = await db.thread(of.thread).items(after=of.first - 1, at=of.last, whole=True)
    except NotThere:
        return []  # the thread was deleted; its episode ends all the same
    return [message_of(item) for item in items]
