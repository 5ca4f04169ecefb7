"""Episodes: stretches of a thread's life, each with an id of its own, from a first turn until it is ended.

The row of the active episode has the id of its thread, so a turn finds it at once and the sweeper finds the
idle ones. When it is ended, the row moves to the episode's own id and stays.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from clew.core.encoding import JSON, as_json
from clew.core.errors import (
    NotFound,
    RecordNotFound,
    RevisionConflict,
    StoreDamaged,
    ThreadOfAnotherAgent,
)
from clew.core.log.jobs import claim_job
from clew.core.values import ACTIVE_EPISODE_KIND, Drop, Enqueue, Job, Put, Record, RecordQuery, Write
from clew.database.database import Database, owner_database
from clew.database.records import record_pages
from clew.runtime.attempts import Attempts
from clew.runtime.model.messages import Message, message_of
from clew.runtime.records.feedback import FEEDBACK, Feedback, check_label, feedback_record, read_feedback
from clew.runtime.records.refusals import REFUSED, Refusals
from clew.runtime.records.runs import DEFAULT_AGENT

ACTIVE_EPISODE, EPISODE = ACTIVE_EPISODE_KIND, "episode"
ACTIVE, ENDING, ENDED = "active", "ending", "ended"
TEXT, VOICE = "text", "voice"
LEASED = "leased"
"""The tag of an active episode whose client has promised to say that it is there."""


class Episode(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One stretch of a thread's life.

    ``user`` is whose thread it is, ``agent`` the agent that ran its turns. ``first`` is the place in the
    history where its transcript starts, ``last`` the version where it ends. ``level`` is the highest that a
    turn noted, ``candidates`` are what may be remembered once it ends. ``modality`` is that of its last turn.
    ``until`` is when a call is taken for lost, if its client has promised to say that it is there.
    ``write_counts`` is what its end wrote: the candidates that were held, and the facts, rules and arcs that
    came of them; ``rejected`` are findings of a model whose quote is not in the turn they name.
    """

    id: str
    thread: str
    user: str | None = None
    agent: str = DEFAULT_AGENT
    status: str = ACTIVE
    modality: str = TEXT
    started: int
    touched: int
    first: int = 0
    last: int | None = None
    turns: int = 0
    level: int = 0
    candidates: tuple[JSON, ...] = ()
    until: int | None = None
    ended: int | None = None
    ended_by: str | None = None
    feedback: str | None = None
    arc: JSON = None
    write_counts: dict[str, int] = {}
    revision: int = 0


def new_episode_id() -> str:
    """Return an id that no other episode has."""
    return f"episode-{secrets.token_hex(10)}"


async def active_episode(db: Database, thread: str) -> Episode | None:
    """Return the episode that a thread is in, if it is in one."""
    try:
        return episode_of(await db.records.get(ACTIVE_EPISODE, thread))
    except RecordNotFound:
        return None


async def read_episode(db: Database, id: str) -> Episode:
    """Read an episode that is being ended, or was.

    Raises:
        RecordNotFound: There is none of that id.
    """
    return episode_of(await db.records.get(EPISODE, id))


def episode_of(record: Record) -> Episode:
    """Return the episode of a row.

    Raises:
        StoreDamaged: The row cannot be read, or is not the row of what it holds.
    """
    try:
        episode = msgspec.structs.replace(msgspec.convert(record.body, Episode), revision=record.revision)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"episode {record.id!r}", problem=str(error)) from error
    # An action on the episode writes to the row that its body leads to, and for the user that it names.
    own = episode_record(episode, record.owner)
    if (own.kind, own.id) != (record.kind, record.id) or episode.user not in (None, record.owner):
        problem = f"its {record.kind} row is not that of episode {episode.id!r} of thread {episode.thread!r}"
        raise StoreDamaged(store=f"episode {record.id!r}", problem=problem)
    return episode


def episode_record(episode: Episode, owner: str | None) -> Record:
    """Return the row of an episode."""
    active = episode.status == ACTIVE
    return Record(
        kind=ACTIVE_EPISODE if active else EPISODE,
        id=episode.thread if active else episode.id,
        owner=owner,
        tags=_active_tags(episode) if active else (f"thread:{episode.thread}", episode.status),
        sort=episode.touched,
        body=as_json(msgspec.structs.replace(episode, revision=0)),
    )


def check_episode_agent(episode: Episode, agent: str) -> None:
    """Refuse the episode of another agent.

    Raises:
        ThreadOfAnotherAgent: It is.
    """
    if episode.agent != agent:
        raise ThreadOfAnotherAgent(thread=episode.thread, agent=agent, other=episode.agent)


def modality_tag(modality: str, agent: str) -> str:
    """Return the tag by which an agent finds its active episodes of a modality."""
    return f"modality:{modality}:{agent}"


def _active_tags(episode: Episode) -> tuple[str, ...]:
    tags = (modality_tag(episode.modality, episode.agent),)
    return tags if episode.until is None else (*tags, LEASED)


def episode_for_turn(
    before: Episode | None,
    thread: str,
    user: str | None,
    *,
    agent: str,
    now: int,
    first: int,
    modality: str = TEXT,
) -> Episode:
    """Return the episode that a turn belongs to: the active one, or a new one that starts with it."""
    if before is None:
        return Episode(
            id=new_episode_id(),
            thread=thread,
            user=user,
            agent=agent,
            modality=modality,
            started=now,
            touched=now,
            first=first,
            turns=1,
        )
    until = before.until if modality == VOICE else None
    return msgspec.structs.replace(
        before, agent=agent, touched=now, turns=before.turns + 1, modality=modality, until=until
    )


async def late_episode_write(db: Database, episode: Episode) -> Write | None:
    """Return the write of what a turn noticed if its episode was ended meanwhile; None if it is over."""
    current = await active_episode(db, episode.thread)
    if current is None or current.id != episode.id:
        try:
            current = await read_episode(db, episode.id)
        except RecordNotFound:
            return None
    if current.status == ENDED:
        return None
    merge = msgspec.structs.replace(
        current, candidates=episode.candidates, level=max(current.level, episode.level)
    )
    return episode_write(merge, episode.user)


def episode_write(episode: Episode, owner: str | None) -> Write:
    """Return the write that stores an episode, if it was not changed meanwhile."""
    return Put(record=episode_record(episode, owner), expect=episode.revision)


def move_writes(before: Episode, after: Episode, owner: str | None) -> list[Write]:
    """Return the writes that move an episode from its thread's row to its own."""
    return [
        Drop(kind=ACTIVE_EPISODE, id=before.thread, expect=before.revision),
        Put(record=episode_record(after, owner), expect=0),
    ]


END_JOB = "end episode"
EPISODES_PER_PAGE = 256


class EpisodeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an episode's end: the episode with its arc, and the other writes of the same commit.

    ``replan`` makes it again for the episode as it is by then, from what models have said already. It is
    called if others have changed the episode or a thread that the writes are for; without it the whole
    end is tried again later.
    """

    episode: Episode
    writes: Sequence[Write] = ()
    replan: "Callable[[Episode], Awaitable[EpisodeResult]] | None" = None


Finalize: TypeAlias = Callable[[Database, Episode, Sequence[Message]], Awaitable[EpisodeResult]]
"""Makes of an episode's transcript what it is to leave behind: a summary, an arc, what was held and is worth
keeping. If it raises, it is tried again later."""


async def finalize_nothing(db: Database, episode: Episode, transcript: Sequence[Message]) -> EpisodeResult:
    """End an episode with nothing but its own row."""
    return EpisodeResult(episode=episode)


async def request_end(
    db: Database,
    thread: str,
    *,
    by: str,
    now: int,
    feedback: str | None = None,
    untouched_since: int | None = None,
    claim: tuple[str, int] | None = None,
    agent: str | None = None,
) -> Episode | None:
    """End the episode that a thread is in; None if there is none, or if it was touched meanwhile.

    With ``agent``, an episode of another agent is left as it is.

    What a person thought of it is recorded with it, in the row that earlier feedback on it has. The next turn
    starts a new episode. With a claim, a token and until when, the job that does the rest is held from the
    start.

    Raises:
        InvalidArgument: The feedback is no label.
        RevisionConflict: Others changed the episode again and again.
        StoreDamaged: The row of the episode cannot be read, or is another's.
    """
    if feedback is not None:
        check_label(feedback)
    attempts = Attempts()
    while True:
        before = await active_episode(db, thread)
        if before is None or agent not in (None, before.agent):
            return None
        if untouched_since is not None and before.touched > untouched_since:
            return None
        last = await _version(db, thread)
        earlier = await _earlier_feedback(db, before.id)
        after, writes = plan_end(
            before, by=by, now=now, last=last, feedback=feedback, earlier=earlier, claim=claim
        )
        try:
            await db.commit(writes)
        except RevisionConflict as conflict:
            if conflict.kind not in (ACTIVE_EPISODE, FEEDBACK):
                raise
            attempts.count(conflict)
            continue  # a turn has just touched it, or another process has just ended it
        return after


def plan_end(
    before: Episode,
    *,
    by: str,
    now: int,
    last: int | None,
    feedback: str | None = None,
    earlier: Feedback | None = None,
    claim: tuple[str, int] | None = None,
) -> tuple[Episode, list[Write]]:
    """Return an episode as it is once it has ended after a version of its thread, and the writes for it.

    ``earlier`` is feedback from before the end. It stands unless there is other feedback now.
    """
    label = earlier.label if feedback is None and earlier is not None else feedback
    after = msgspec.structs.replace(before, status=ENDING, ended_by=by, ended=now, feedback=label, last=last)
    job = _job(after) if claim is None else job_with_claim(after, *claim)
    return after, [
        *move_writes(before, after, before.user),
        Enqueue(job=job),
        *([] if feedback is None else [_feedback_write(after, by, now, earlier)]),
    ]


def _job(episode: Episode) -> Job:
    return Job(
        id=job_id(episode.id),
        kind=end_job_kind(episode.agent),
        key=episode.id,
        owner=episode.user,
        body={"episode": episode.id},
    )


def end_job_kind(agent: str) -> str:
    """Return the kind of the jobs that do the rest for an agent: no other knows what it learns."""
    return f"{END_JOB}:{agent}"


def job_id(episode: str) -> str:
    """Return the id of the job that does the rest when an episode has ended."""
    return f"end {episode}"


def job_with_claim(episode: Episode, token: str, until: int) -> Job:
    """Return the job that does the rest, claimed by the holder of a token."""
    return claim_job(_job(episode), token, until)


async def _version(db: Database, thread: str) -> int | None:
    try:
        return (await db.thread(thread).head()).version
    except NotFound:
        return None


async def _earlier_feedback(db: Database, episode: str) -> Feedback | None:
    """Return the feedback from before an end; None if it cannot be read, which blocks no end."""
    try:
        return await read_feedback(db, episode)
    except StoreDamaged:
        return None


def _feedback_write(episode: Episode, source: str, now: int, earlier: Feedback | None) -> Write:
    """Return the write of a person's feedback on an episode, in the row of what they said before."""
    feedback = Feedback(
        id=episode.id,
        thread=episode.thread,
        user=episode.user,
        label=episode.feedback or "",
        source=source,
        modality=episode.modality,
        turns=episode.turns,
        recorded=now,
        keys=earlier.keys if earlier is not None else {},
    )
    return Put(record=feedback_record(feedback), expect=earlier.revision if earlier is not None else None)


async def end_expired_episodes(
    db: Database, *, idle_ms: int, now: int, agent: str = DEFAULT_AGENT, refusals: Refusals | None = None
) -> int:
    """End text episodes of an agent that were not touched for so long; return how many.

    Expiry counts when it commits.

    Each is ended with the rights of its owner. One that cannot be keeps no other waiting.
    """
    count = 0
    refusals = refusals or Refusals()
    query = RecordQuery(
        kind=ACTIVE_EPISODE,
        tags=(modality_tag(TEXT, agent),),
        until=now - idle_ms,
        limit=EPISODES_PER_PAGE,
    )
    async for records in record_pages(db.records, query):
        # Each process takes them in an order of its own: several would come upon the same one at once.
        for record in sorted(records, key=lambda _: secrets.token_bytes(8)):
            if refusals.covers(record):
                continue
            own = owner_database(db, record.owner)
            try:
                episode = await request_end(
                    own, record.id, by="timeout", now=now, untouched_since=now - idle_ms, agent=agent
                )
            except REFUSED as error:
                refusals.add(record, error)
                continue
            count += episode is not None
    return count


async def transcript(db: Database, episode: Episode) -> list[Message]:
    """Return the messages of an episode, compacted or not."""
    try:
        items = await db.thread(episode.thread).items(after=episode.first - 1, at=episode.last, whole=True)
    except NotFound:
        return []  # the thread was deleted; its episode ends all the same
    return [message_of(item) for item in items]
