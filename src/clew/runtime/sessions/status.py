"""Where a thread stands: one word that tells a caller what to do next, and the facts behind it."""

from typing import Final

import msgspec

from clew.core.errors import NotThere, RecordNotFound
from clew.core.values import Head, RecordQuery
from clew.database.database import Database
from clew.runtime.execution.start import is_over
from clew.runtime.records.episodes import (
    ACTIVE,
    ENDED,
    ENDING,
    ROW,
    TEXT,
    Episode,
    active_episode,
    episode_of,
    job_id,
)
from clew.runtime.records.runs import DONE, INTERRUPTED, KIND, RUNNING, WAITING, run_of
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import Waiting, suspended_calls
from clew.runtime.turn.inbound import standing

NONE, DEAD = "none", "dead"
UNFINISHED: Final = 10
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
GIVEN_UP: Final = "Look at the problem of the dead job, cure it, and retry the job."


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """An ended episode that is not finished, and how its job stands.

    ``job`` is ``waiting``, ``running`` or ``dead``; None if there is none any more. ``next_try`` is when
    it is tried again, or when its worker is taken for lost.
    """

    episode: str
    job: str | None = None
    attempts: int = 0
    next_try: int | None = None
    problem: str | None = None


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where a thread stands.

    ``status`` is ``running``, ``waiting`` or ``interrupted`` if a run is; otherwise that of the newest
    episode, ``active``, ``ending`` or ``ended``; otherwise ``none``. ``unfinished`` also names ends of
    earlier episodes that still have to be made.
    """

    thread: str
    status: str = NONE
    run: str | None = None
    waiting: tuple[Waiting, ...] = ()
    episode: Episode | None = None
    idle_since: int | None = None
    expires_at: int | None = None
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def advice(self) -> str:
        """What a caller can do, in a sentence."""
        given_up = self.status == ENDING and any(end.job == DEAD for end in self.unfinished)
        return GIVEN_UP if given_up else ADVICE[self.status]


async def session_status(db: Database, thread: str, settings: Settings) -> SessionStatus:
    """Where a thread stands. One that is not there, or is somebody else's, has the status ``none``."""
    try:
        head = await db.thread(thread).head()
    except NotThere:
        return SessionStatus(thread=thread)
    run = await _run_status(db, head, settings)
    active = await active_episode(db, thread)
    newest = active or await _newest(db, thread)
    return SessionStatus(
        thread=thread,
        status=run or (newest.status if newest is not None else NONE),
        run=standing(head.state).id if run else None,
        waiting=suspended_calls(head.state) if run == WAITING else (),
        episode=newest,
        idle_since=active.touched if active is not None else None,
        expires_at=_expiry(active, settings) if active is not None else None,
        unfinished=await _unfinished(db, thread),
    )


def _expiry(active: Episode, settings: Settings) -> int | None:
    """When an episode is ended by itself; a call only if its client has promised to say that it is there."""
    return active.touched + int(settings.idle_seconds * 1000) if active.modality == TEXT else active.until


async def _run_status(db: Database, head: Head, settings: Settings) -> str | None:
    """What a run does to a thread; None if it is over."""
    now = standing(head.state)
    if not now.id or now.status == DONE:
        return None
    if now.status != RUNNING:
        return now.status
    try:
        run = run_of(await db.records.get(KIND, now.id))
    except RecordNotFound:
        return INTERRUPTED
    at_work = run.thread == head.id and run.status == RUNNING and not is_over(run, settings.clock())
    return RUNNING if at_work else INTERRUPTED


async def _newest(db: Database, thread: str) -> Episode | None:
    query = RecordQuery(kind=ROW, tags=(f"thread:{thread}",), newest=True, limit=1)
    return next((episode_of(record) for record in await db.records.find(query)), None)


async def _unfinished(db: Database, thread: str) -> tuple[Unfinished, ...]:
    query = RecordQuery(kind=ROW, tags=(f"thread:{thread}", ENDING), limit=UNFINISHED)
    return tuple([await _end_of(db, record.id) for record in await db.records.find(query)])


async def _end_of(db: Database, episode: str) -> Unfinished:
    try:
        job = await db.jobs.get(job_id(episode))
    except RecordNotFound:
        return Unfinished(episode=episode)
    return Unfinished(
        episode=episode,
        job=job.status,
        attempts=job.attempts,
        next_try={"waiting": job.due, "running": job.until}.get(job.status),
        problem=job.problem,
    )
