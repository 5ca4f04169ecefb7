"""Where a turn is at home: in the runtime's database, or, incognito, in the memory of this process alone.

Every incognito session has a store of its own, so dropping the store drops all that was said in it.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from clew.core.arguments import check_arguments
from clew.core.errors import ModeRefused, ThreadExists
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.context import MemoryMode
from clew.runtime.crises import CRISIS
from clew.runtime.records.episodes import FEEDBACK, VOICE, active_episode, nothing_left
from clew.runtime.settings import Settings
from clew.stores.memory import MemoryStore

SHARED = ("postgres",)
"""The stores that several machines can share, by name."""
PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A database, and how turns are run on it."""

    db: Database
    settings: Settings

    def scoped(self, user: str | None) -> "Home":
        """The same for one user."""
        if user is None:
            return self
        return dataclasses.replace(self, db=self.db.scope(tenant=self.db.tenant, user=user))


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """An incognito session: whose it is, where it is at home, and when it was last touched."""

    user: str | None
    home: Home
    touched: int


class Homes:
    """Which thread is at home where."""

    def __init__(self, durable: Home, *, pinned: bool) -> None:
        self.ended = Database(MemoryStore(), owned=True)
        self._durable = durable
        self._pinned = pinned
        self._sessions: dict[str, Session] = {}
        mode = durable.settings.memory_mode
        if mode is MemoryMode.SYNCED and durable.db.store.name not in SHARED:
            raise self._refused(mode, f"a {durable.db.store.name} store is not shared between machines")
        if mode is MemoryMode.INCOGNITO:
            self._check_pinned()

    @property
    def offered(self) -> MemoryMode:
        """The mode of a thread that asks for none."""
        return self._durable.settings.memory_mode

    def is_incognito(self, thread: str) -> bool:
        """Whether a thread is kept in this process's memory alone."""
        return thread in self._sessions

    def of(self, thread: str, user: str | None = None, mode: MemoryMode | None = None) -> Home:
        """Where a thread is at home, for one user.

        Raises:
            ModeRefused: The mode cannot be had, or the thread is somebody else's incognito thread.
        """
        session = self._sessions.get(thread)
        if session is not None:
            self._check_stays(session, user, mode)
            return session.home.scoped(user)
        if self._checked(mode) is MemoryMode.INCOGNITO:
            return self._fresh().scoped(user)
        return self._durable.scoped(user)

    def listed(self, user: str | None) -> Database:
        """The database whose threads are listed: incognito threads are in no list."""
        home = self._durable if self.offered is not MemoryMode.INCOGNITO else self._fresh()
        return home.scoped(user).db

    def begin(self, thread: str, user: str | None, mode: MemoryMode | None) -> Home:
        """Where a turn on a thread is to run; an incognito session begins with its first, and is touched.

        Raises:
            ModeRefused: The mode cannot be had, or the thread is somebody else's incognito thread.
        """
        home = self.of(thread, user, mode)
        if home.settings.memory_mode is MemoryMode.INCOGNITO:
            now = home.settings.clock()
            session = self._sessions.setdefault(thread, Session(user=user, home=home, touched=now))
            session.touched = now
        return home

    async def fork(self, thread: str, other: str, user: str | None, at: int | None) -> Thread:
        """Fork a thread; the fork is at home where its parent is.

        Raises:
            ThreadExists: The id is taken.
            ModeRefused: The thread is somebody else's incognito thread.
        """
        home = self.of(thread, user)
        if other in self._sessions:
            raise ThreadExists(thread=other)
        fork = await home.db.thread(thread).fork(other, at=at)
        if thread in self._sessions:
            self._sessions[other] = self._sessions[thread]
        return fork

    async def drop(self, thread: str) -> None:
        """Forget an incognito thread. Of what it left, crisis rows and feedback stay until the close."""
        session = self._sessions.pop(thread, None)
        if session is None or session in self._sessions.values():
            return  # a fork still stands on it
        db = session.home.db.scope(tenant=self._durable.db.tenant)
        for kind in (CRISIS, FEEDBACK):
            await _copied(db, self.ended.scope(tenant=db.tenant), kind)
        await db.store.close()

    async def drop_idle(self, is_busy: Callable[[str], bool]) -> None:
        """Forget the incognito threads that nobody has touched for too long."""
        now = self._durable.settings.clock()
        idle = now - int(self._durable.settings.idle_seconds * 1000)
        for thread, session in list(self._sessions.items()):
            if await _is_over(thread, session, idle, now) and not is_busy(thread):
                await self.drop(thread)

    async def close(self) -> None:
        """Forget everything incognito."""
        for thread in list(self._sessions):
            await self.drop(thread)
        await self.ended.close()

    def _fresh(self) -> Home:
        db = Database(MemoryStore()).scope(tenant=self._durable.db.tenant)
        settings = dataclasses.replace(
            self._durable.settings,
            memory_mode=MemoryMode.INCOGNITO,
            memory_store=db.records,
            crisis_log_backend=db.records,
            finalize=nothing_left,
        )
        return Home(db=db, settings=settings)

    def _checked(self, mode: MemoryMode | None) -> MemoryMode:
        if mode in (None, self.offered):
            return self.offered
        if mode is not MemoryMode.INCOGNITO:
            raise self._refused(mode, "a request may step down to incognito, and to nothing else")
        self._check_pinned()
        return mode

    def _check_pinned(self) -> None:
        if not self._pinned:
            problem = "an incognito thread lives in one process, and requests may reach another here"
            raise self._refused(MemoryMode.INCOGNITO, problem)

    def _check_stays(self, session: Session, user: str | None, mode: MemoryMode | None) -> None:
        """Refuse what would take an incognito thread to disk, or show it to somebody else."""
        if mode not in (None, MemoryMode.INCOGNITO):
            raise self._refused(mode, "the thread began incognito and stays so until its session ends")
        if session.user != user:
            raise self._refused(mode or self.offered, "the thread is incognito, and another user began it")

    def _refused(self, mode: MemoryMode | None, problem: str) -> ModeRefused:
        asked = (mode or self.offered).value
        return ModeRefused(asked=asked, offered=self.offered.value, problem=problem)


@check_arguments
def user_in(mode: MemoryMode | None, user: str | None) -> str | None:
    """The user id that an edge hands on: none in incognito, where nobody is to be known by name."""
    return None if mode is MemoryMode.INCOGNITO else user


async def _is_over(thread: str, session: Session, idle: int, now: int) -> bool:
    """Whether a session has been left; a call is not, unless its client stopped saying that it is there."""
    episode = await active_episode(session.home.db, thread)
    if episode is not None and episode.modality == VOICE:
        return episode.until is not None and episode.until <= now
    return session.touched <= idle


async def _copied(source: Database, target: Database, kind: str) -> None:
    """Copy the records of a kind."""
    query = RecordQuery(kind=kind, limit=PAGE)
    while found := await source.records.find(query):
        for record in found:
            await target.records.put(msgspec.structs.replace(record, revision=0))
        query = msgspec.structs.replace(query, after=(found[-1].sort, found[-1].id))
