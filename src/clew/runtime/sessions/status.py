"""The status of a thread: one word that says what a caller can do next, and the facts behind it."""

from typing import Final

import msgspec

from clew.core.errors import NotFound, RecordNotFound
from clew.core.values import Head, RecordQuery
from clew.database.database import Database
from clew.runtime.records.episodes import (
    ACTIVE,
    ENDED,
    ENDING,
    EPISODE,
    TEXT,
    Episode,
    active_episode,
    episode_of,
    job_id,
)
from clew.runtime.records.feedback import read_feedback
from clew.runtime.records.runs import INTERRUPTED, KIND, RUNNING, WAITING, is_orphaned, run_of
from clew.runtime.settings import Settings
from clew.runtime.state.call_state import Approval
from clew.runtime.state.run_state import RunState

NONE, DEAD = "none", "dead"
MOST_UNFINISHED: Final = 10
"""How many ended episodes are looked at whose end is not finished."""
ADVICE: Final = {
    NONE: "Send the first message.",
    ACTIVE: "Send the next message, or end the session.",
    ENDING: "Send the next message, or wait; what the session leaves behind is being made.",
    ENDED: "Send the next message; it begins a new episode.",
    RUNNING: "Wait for the turn that is at work, or cancel it.",
    WAITING: "Resume with a decision about each waiting call, or cancel the run.",
    INTERRUPTED: "Resume the run where it stopped, or send the next message.",
}
DEAD_JOB_ADVICE: Final = "Look at the problem of the dead job, cure it, and retry the job."


class UnfinishedEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """An ended episode that is not finished, and the state of its job.

    ``job`` is ``waiting``, ``running`` or ``dead``; None if there is none any more. ``next_try`` is when
    it is tried again, or when its worker is taken for lost.
    """

    episode: str
    job: str | None = None
    attempts: int = 0
    next_try: int | None = None
    problem: str | None = None


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a thread.

    ``status`` is ``running``, ``waiting`` or ``interrupted`` if a run is; otherwise that of the newest
    episode, ``active``, ``ending`` or ``ended``; otherwise ``none``. ``feedback`` is the label that was
    given for that episode. ``unfinished`` also names ends of earlier episodes that still have to be made.
    """

    thread: str
    status: str = NONE
    run: str | None = None
    waiting: tuple[Approval, ...] = ()
    episode: Episode | None = None
    feedback: str | None = None
    idle_since: int | None = None
    expires_at: int | None = None
    unfinished: tuple[UnfinishedEpisode, ...] = ()

    @property
    def advice(self) -> str:
        """The next action of a caller, in a sentence."""
        has_dead_job = self.status == ENDING and any(end.job == DEAD for end in self.unfinished)
        return DEAD_JOB_ADVICE if has_dead_job else ADVICE[self.status]


async def session_status(db: Database, thread: str, settings: Settings) -> SessionStatus:
    """The status of a thread. One that does not exist, or is another user's, has the status ``none``."""
    try:
        head = await db.thread(thread).head()
    except NotFound:
        return SessionStatus(thread=thread)
    run_state = RunState.of(head.state)
    run = await _run_status(db, head, run_state, settings)
    newest = await newest_episode(db, thread)
    feedback = await read_feedback(db, newest.id) if newest is not None else None
    active = newest if newest is not None and newest.status == ACTIVE else None
    return SessionStatus(
        thread=thread,
        status=run or (newest.status if newest is not None else NONE),
        run=run_state.id if run else None,
        waiting=run_state.approvals if run == WAITING else (),
        episode=newest,
        feedback=feedback.label if feedback is not None else None,
        idle_since=active.touched if active is not None else None,
        expires_at=_expiry(active, settings) if active is not None else None,
        unfinished=await _unfinished_episodes(db, thread),
    )


def _expiry(active: Episode, settings: Settings) -> int | None:
    """The time at which an episode ends by itself; a call has one only if its client keeps it alive."""
    return active.touched + settings.config.sessions.idle_ms if active.modality == TEXT else active.until


async def _run_status(db: Database, head: Head, run_state: RunState, settings: Settings) -> str | None:
    """Return the status of the run that a thread names; None if it is over."""
    if not run_state.is_open:
        return None
    if run_state.status != RUNNING:
        return run_state.status
    try:
        run = run_of(await db.records.get(KIND, run_state.id))
    except RecordNotFound:
        return INTERRUPTED
    at_work = run.thread == head.id and run.status == RUNNING and not is_orphaned(run, settings.clock())
    return RUNNING if at_work else INTERRUPTED


async def newest_episode(db: Database, thread: str) -> Episode | None:
    """Return the episode that a thread is in, or else the one that it was in last."""
    if (active := await active_episode(db, thread)) is not None:
        return active
    query = RecordQuery(kind=EPISODE, tags=(f"thread:{thread}",), newest=True, limit=1)
    return next((episode_of(record) for record in await db.records.find(query)), None)


async def _unfinished_episodes(db: Database, thread: str) -> tuple[UnfinishedEpisode, ...]:
    query = RecordQuery(kind=EPISODE, tags=(f"thread:{thread}", ENDING), limit=MOST_UNFINISHED)
    return tuple([await _unfinished_episode(db, record.id) for record in await db.records.find(query)])


async def _unfinished_episode(db: Database, episode: str) -> UnfinishedEpisode:
    try:
        job = await db.jobs.get(job_id(episode))
    except RecordNotFound:
        return UnfinishedEpisode(episode=episode)
    return UnfinishedEpisode(
        episode=episode,
        job=job.status,
        attempts=job.attempts,
        next_try={"waiting": job.due, "running": job.until}.get(job.status),
        problem=job.problem,
    )
