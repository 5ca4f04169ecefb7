"""Feedback on a session apart from its end: about the episode that a thread is in, or was in last."""

import hashlib

import msgspec

from clew.core.errors import InvalidArgument, KeyReused, RevisionConflict
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.records.feedback import (
    FEEDBACK,
    Feedback,
    check_label,
    feedback_of,
    feedback_record,
    key_tag,
    read_feedback,
)
from clew.runtime.sessions.status import newest_episode
from clew.runtime.state.thread_agent import check_thread_agent


async def record_session_feedback(
    db: Database, thread: str, label: str, *, agent: str, source: str, key: str | None, now: int
) -> Feedback:
    """Record what a person thought of a session so far; the episode has one row, whoever answers again.

    Raises:
        InvalidArgument: It is no label, or the thread has had no session.
        KeyReused: The key was used for another label.
        ThreadNotFound: There is no such thread.
        ThreadOfAnotherAgent: The thread is not this agent's to write.
        RevisionConflict: Others changed the row again and again.
    """
    check_label(label)
    head = await db.thread(thread).head()
    await check_thread_agent(db.thread(thread), head, agent)
    key_hash = None if key is None else hashlib.sha256(f"{thread}\0{key}".encode()).hexdigest()
    attempts = Attempts()
    while True:
        if key_hash is not None and (stored := await _feedback_by_key(db, key_hash)) is not None:
            if stored.keys[key_hash] != label:
                raise KeyReused(thread=thread, key=key or "")
            return stored
        episode = await newest_episode(db, thread)
        if episode is None:
            raise InvalidArgument(
                problem=f"Thread {thread!r} has had no session that feedback could be about."
            )
        before = await read_feedback(db, episode.id)
        feedback = Feedback(
            id=episode.id,
            thread=thread,
            user=head.owner,
            label=label,
            source=source,
            modality=episode.modality,
            turns=episode.turns,
            recorded=now,
            keys={**(before.keys if before else {}), **({key_hash: label} if key_hash else {})},
        )
        try:
            record = await db.records.put(feedback_record(feedback), expect=before.revision if before else 0)
        except RevisionConflict as conflict:
            attempts.count(conflict)  # the session was just ended with feedback, or a person clicked twice
            continue
        return msgspec.structs.replace(feedback, revision=record.revision)


async def _feedback_by_key(db: Database, key_hash: str) -> Feedback | None:
    """Return the feedback that was given with an idempotency key."""
    query = RecordQuery(kind=FEEDBACK, tags=(key_tag(key_hash),), limit=1)
    return next((feedback_of(record) for record in await db.records.find(query)), None)
