"""Episodes: stretches of a thread's life, each with an id of its own, from a first turn until it is ended.

The row of the active episode stands under its thread's id, so a turn finds it at once and the sweeper finds
the ones that nobody touched. When it is ended, the row moves under the episode's own id and stays.
"""

import secrets
from collections.abc import Sequence
from typing import Protocol

import msgspec

from clew.core.encoding import JSON, plain
from clew.core.errors import RecordNotFound, StoreDamaged
from clew.core.values import Drop, Put, Record, Write
from clew.threads.database import Database

ACTIVE_ROW, ROW = "active episode", "episode"
ACTIVE, ENDING, ENDED = "active", "ending", "ended"
TEXT, VOICE = "text", "voice"
LEASED = "leased"
"""The tag of an active episode whose client has promised to say that it is there."""


class Notes(Protocol):
    """Where a turn keeps what it notices for the end of its episode."""

    episode: "Episode | None"

    def notice(self, *, candidates: Sequence[JSON] = (), crisis: int = 0) -> None:
        """Keep it with the episode, with the next commit."""
        ...


class Buffer:
    """The candidates of the episode that a turn belongs to."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def hold(self, candidate: JSON) -> None:
        """Keep a candidate for the end of the session."""
        self._notes.notice(candidates=[plain(candidate)])

    def held(self) -> Sequence[JSON]:
        """The candidates so far."""
        return self._notes.episode.candidates if self._notes.episode is not None else ()


class Episode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stretch of a thread's life.

    ``user`` is whose thread it is, ``first`` the place in the history where its transcript starts, ``last``
    the version where it ends, ``crisis`` the highest level seen, ``candidates`` what may be remembered once
    it ends. ``modality`` is that of its last turn. ``until`` is when a call is taken for lost, if its client
    has promised to say that it is there.
    """

    id: str
    thread: str
    user: str | None = None
    status: str = ACTIVE
    modality: str = TEXT
    started: int
    touched: int
    first: int = 0
    last: int | None = None
    turns: int = 0
    crisis: int = 0
    candidates: tuple[JSON, ...] = ()
    until: int | None = None
    ended: int | None = None
    ended_by: str | None = None
    feedback: str | None = None
    arc: JSON = None
    revision: int = 0


def new_episode_id() -> str:
    """A name that no other episode has."""
    return f"episode-{secrets.token_hex(10)}"


async def active_episode(db: Database, thread: str) -> Episode | None:
    """The episode that a thread is in, if it is in one."""
    try:
        return episode_of(await db.records.get(ACTIVE_ROW, thread))
    except RecordNotFound:
        return None


async def episode(db: Database, id: str) -> Episode:
    """An episode that is being ended, or was.

    Raises:
        RecordNotFound: There is none of that id.
    """
    return episode_of(await db.records.get(ROW, id))


def episode_of(record: Record) -> Episode:
    """The episode behind a row.

    Raises:
        StoreDamaged: The row cannot be read, or is not the row of what it holds.
    """
    try:
        episode = msgspec.structs.replace(msgspec.convert(record.body, Episode), revision=record.revision)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"episode {record.id!r}", problem=str(error)) from error
    # Whoever acts on the episode writes to the row that its body leads to, and for the user that it names.
    own = row_of(episode, record.owner)
    if (own.kind, own.id) != (record.kind, record.id) or episode.user not in (None, record.owner):
        problem = f"its {record.kind} row is not that of episode {episode.id!r} of thread {episode.thread!r}"
        raise StoreDamaged(store=f"episode {record.id!r}", problem=problem)
    return episode


def row_of(episode: Episode, owner: str | None) -> Record:
    """The row that an episode is kept as."""
    active = episode.status == ACTIVE
    return Record(
        kind=ACTIVE_ROW if active else ROW,
        id=episode.thread if active else episode.id,
        owner=owner,
        tags=_active_tags(episode) if active else (f"thread:{episode.thread}", episode.status),
        sort=episode.touched,
        body=plain(msgspec.structs.replace(episode, revision=0)),
    )


def _active_tags(episode: Episode) -> tuple[str, ...]:
    tags = (f"modality:{episode.modality}",)
    return tags if episode.until is None else (*tags, LEASED)


def touched(
    before: Episode | None, thread: str, user: str | None, now: int, first: int, modality: str = TEXT
) -> Episode:
    """The episode that a turn belongs to: the active one, or a new one that starts with it."""
    if before is None:
        return Episode(
            id=new_episode_id(),
            thread=thread,
            user=user,
            modality=modality,
            started=now,
            touched=now,
            first=first,
            turns=1,
        )
    until = before.until if modality == VOICE else None
    return msgspec.structs.replace(
        before, touched=now, turns=before.turns + 1, modality=modality, until=until
    )


async def rehomed(db: Database, kept: Episode) -> Write | None:
    """The write that keeps what a turn noticed if its episode was ended meanwhile; None if it is over."""
    now = await active_episode(db, kept.thread)
    if now is None or now.id != kept.id:
        try:
            now = await episode(db, kept.id)
        except RecordNotFound:
            return None
    if now.status == ENDED:
        return None
    noticed = msgspec.structs.replace(now, candidates=kept.candidates, crisis=max(now.crisis, kept.crisis))
    return saved(noticed, kept.user)


def saved(episode: Episode, owner: str | None) -> Write:
    """The write that keeps an episode, if nobody changed it meanwhile."""
    return Put(record=row_of(episode, owner), expect=episode.revision)


def moved(before: Episode, after: Episode, owner: str | None) -> list[Write]:
    """The writes that take an episode from its thread's row to its own."""
    return [
        Drop(kind=ACTIVE_ROW, id=before.thread, expect=before.revision),
        Put(record=row_of(after, owner), expect=0),
    ]
