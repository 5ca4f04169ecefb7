"""The placement of threads: in the runtime's database, or, incognito, in the memory of this process alone.

Every incognito session has a store of its own, so dropping the store drops all that was said in it.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from clew.core.arguments import check_arguments
from clew.core.erasure.receipts import RETAINED_KIND
from clew.core.errors import ModeRefused, ThreadExists
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.database.records import record_pages
from clew.database.thread import Thread
from clew.runtime.context import MemoryMode
from clew.runtime.records.episodes import VOICE, active_episode, finalize_nothing
from clew.runtime.records.feedback import FEEDBACK
from clew.runtime.settings import Settings
from clew.runtime.turn.live_text import LiveTexts
from clew.stores.memory import MemoryStore

SHARED_STORES = ("postgres",)
"""The stores that several machines can share, by name."""
RECORDS_PER_PAGE = 100


def default_mode(db: Database) -> MemoryMode:
    """Return the mode of a runtime that is given none: synced on a store that several machines share."""
    return MemoryMode.SYNCED if db.store.name in SHARED_STORES else MemoryMode.LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A database, and the settings of the turns that run on it."""

    db: Database
    settings: Settings

    def for_user(self, user: str | None) -> "Placement":
        """The same placement, with the database as one user sees it."""
        if user is None:
            return self
        return dataclasses.replace(self, db=self.db.scope(tenant=self.db.tenant, user=user))


@dataclass(slots=True, kw_only=True, eq=False)
class IncognitoSession:
    """An incognito session: its user, its placement, and when it was last touched."""

    user: str | None
    placement: Placement
    last_used: int


class Placements:
    """The placement of every thread of a runtime."""

    def __init__(self, durable: Placement) -> None:
        self.incognito_records = Database(MemoryStore(), owns_store=True)
        self._durable = durable
        self._sessions: dict[str, IncognitoSession] = {}
        mode = durable.settings.memory_mode
        if mode is MemoryMode.SYNCED and durable.db.store.name not in SHARED_STORES:
            problem = f"a {durable.db.store.name} store is not shared between machines"
            raise _refusal(mode, MemoryMode.LOCAL, problem)
        if mode is MemoryMode.INCOGNITO:
            self._check_pinned()

    @property
    def default_mode(self) -> MemoryMode:
        """The mode of a thread that asks for none."""
        return self._durable.settings.memory_mode

    def is_incognito(self, thread: str) -> bool:
        """Return whether a thread is kept in this process's memory alone."""
        return thread in self._sessions

    def of(self, thread: str, user: str | None = None, mode: MemoryMode | None = None) -> Placement:
        """The placement of a thread, for one user.

        Raises:
            ModeRefused: The mode cannot be had, or the thread is another user's incognito thread.
        """
        session = self._sessions.get(thread)
        if session is not None:
            self._check_access(session, user, mode)
            return session.placement.for_user(user)
        if self._check_mode(mode) is MemoryMode.INCOGNITO:
            return self._new_incognito_placement().for_user(user)
        return self._durable.for_user(user)

    def listing_database(self, user: str | None) -> Database:
        """The database whose threads are listed: incognito threads are in no list."""
        is_incognito = self.default_mode is MemoryMode.INCOGNITO
        placement = self._new_incognito_placement() if is_incognito else self._durable  # a new one is empty
        return placement.for_user(user).db

    def begin_turn(self, thread: str, user: str | None, mode: MemoryMode | None) -> Placement:
        """Return the placement of a turn. The first turn begins an incognito session, and each touches it.

        Raises:
            ModeRefused: The mode cannot be had, or the thread is another user's incognito thread.
        """
        placement = self.of(thread, user, mode)
        if placement.settings.memory_mode is MemoryMode.INCOGNITO:
            now = placement.settings.clock()
            session = self._sessions.setdefault(
                thread, IncognitoSession(user=user, placement=placement, last_used=now)
            )
            session.last_used = now
        return placement

    async def fork(self, thread: str, new_id: str, user: str | None, at: int | None) -> Thread:
        """Fork a thread; the fork is placed where its parent is.

        Raises:
            ThreadExists: The id is taken.
            ModeRefused: The thread is another user's incognito thread.
        """
        placement = self.of(thread, user)
        if new_id in self._sessions:
            raise ThreadExists(thread=new_id)
        fork = await placement.db.thread(thread).fork(new_id, at=at)
        if thread in self._sessions:
            self._sessions[new_id] = self._sessions[thread]
        return fork

    async def drop(self, thread: str) -> None:
        """Forget an incognito thread. Of what it left, retained records and feedback stay until the close."""
        session = self._sessions.pop(thread, None)
        if session is None or session in self._sessions.values():
            return  # a fork still uses it
        db = session.placement.db.scope(tenant=self._durable.db.tenant)
        for kind in (RETAINED_KIND, FEEDBACK):
            await _copy_records(db, self.incognito_records.scope(tenant=db.tenant), kind)
        await db.store.close()

    async def drop_idle(self, is_busy: Callable[[str], bool]) -> None:
        """Forget the incognito threads that were idle for too long."""
        now = self._durable.settings.clock()
        idle_before = now - self._durable.settings.config.sessions.idle_ms
        for thread, session in list(self._sessions.items()):
            if await _is_expired(thread, session, idle_before, now) and not is_busy(thread):
                await self.drop(thread)

    async def close(self) -> None:
        """Forget everything incognito."""
        for thread in list(self._sessions):
            await self.drop(thread)
        await self.incognito_records.close()

    def _new_incognito_placement(self) -> Placement:
        db = Database(MemoryStore()).scope(tenant=self._durable.db.tenant)
        settings = dataclasses.replace(
            self._durable.settings,
            memory_mode=MemoryMode.INCOGNITO,
            memory_store=db.records,
            record_backend=db.records,
            finalize=finalize_nothing,
            live_texts=LiveTexts(longest=0),  # of what is said incognito no text is kept anywhere
        )
        return Placement(db=db, settings=settings)

    def _check_mode(self, mode: MemoryMode | None) -> MemoryMode:
        if mode in (None, self.default_mode):
            return self.default_mode
        if mode is not MemoryMode.INCOGNITO:
            problem = "a request may step down to incognito, and to nothing else"
            raise _refusal(mode, self.default_mode, problem)
        self._check_pinned()
        return mode

    def _check_pinned(self) -> None:
        if not self._durable.settings.config.pinned:
            problem = "an incognito thread lives in one process, and requests may reach another here"
            incognito = self.default_mode is MemoryMode.INCOGNITO
            offered = MemoryMode.LOCAL if incognito else self.default_mode
            raise _refusal(MemoryMode.INCOGNITO, offered, problem)

    def _check_access(self, session: IncognitoSession, user: str | None, mode: MemoryMode | None) -> None:
        """Refuse access that would take an incognito thread to disk, or show it to another user."""
        if session.user != user:
            problem = "the thread is incognito, and another user began it; take another id"
            raise _refusal(mode or self.default_mode, MemoryMode.INCOGNITO, problem)
        if mode not in (None, MemoryMode.INCOGNITO):
            problem = "the thread began incognito and stays so until its session ends"
            raise _refusal(mode, MemoryMode.INCOGNITO, problem)


def _refusal(asked: MemoryMode, offered: MemoryMode, problem: str) -> ModeRefused:
    """The refusal of a mode where there is another, on the thread or in the runtime."""
    return ModeRefused(asked=asked.value, offered=offered.value, problem=problem)


@check_arguments
def user_for_mode(mode: MemoryMode | None, user: str | None) -> str | None:
    """The user id that an edge hands on: none in incognito."""
    return None if mode is MemoryMode.INCOGNITO else user


async def _is_expired(thread: str, session: IncognitoSession, idle_before: int, now: int) -> bool:
    """Return whether a session is over: left idle, or, for a call, without a sign of life from its client."""
    episode = await active_episode(session.placement.db, thread)
    if episode is not None and episode.modality == VOICE:
        return episode.until is not None and episode.until <= now
    return session.last_used <= idle_before


async def _copy_records(source: Database, target: Database, kind: str) -> None:
    """Copy the records of a kind."""
    query = RecordQuery(kind=kind, limit=RECORDS_PER_PAGE)
    async for records in record_pages(source.records, query):
        for record in records:
            await target.records.put(msgspec.structs.replace(record, revision=0))
