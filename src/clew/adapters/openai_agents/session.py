"""A session of the OpenAI Agents SDK, kept as a thread."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import Annotated, Any, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from agents import RunContextWrapper, SessionSettings
from agents.items import TResponseInputItem
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from clew.adapters.openai_agents.items import check_format, given, stored
from clew.adapters.openai_agents.run_states import Paused
from clew.adapters.openai_agents.usage import KIND, Meter, Spent, Turn, added_up, spent_in
from clew.core.arguments import check_arguments
from clew.core.encoding import Id, same
from clew.core.errors import InvalidArgument, StoreClosed, ThreadExists, ThreadNotFound, VersionConflict
from clew.core.shapes import described
from clew.core.text.words import text_of, words
from clew.core.values import (
    Absent,
    Anywhere,
    AppendTo,
    Broken,
    Changeset,
    Committed,
    Cut,
    Exact,
    Expect,
    Item,
    RecordQuery,
    Window,
    Write,
)
from clew.database.database import Database
from clew.database.thread import Thread


class Ground:
    """A database that was given and stays open, or one that is opened here and closed again.

    The SDK runs one session in several event loops, so what is awaited here belongs to one loop only.
    """

    def __init__(self, database: Database | Awaitable[Database]) -> None:
        self.closed = False
        self._given = isinstance(database, Database)
        self._database = database if isinstance(database, Database) else None
        self._opening = None if isinstance(database, Database) else database
        self._doors: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def database(self) -> Database:
        """The database, open.

        Raises:
            StoreClosed: The session was closed.
        """
        if self.closed:
            raise StoreClosed
        return self._database or await self._opened()

    async def close(self) -> None:
        """Close the database, if it was opened here."""
        if not self._given and self._database is not None:
            await self._database.close()

    async def _opened(self) -> Database:
        assert self._opening is not None
        async with self._doors.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._database is None:
                await self._keep(await self._opening)
        assert self._database is not None
        return self._database

    async def _keep(self, found: Database) -> None:
        """Keep a database, unless another event loop was quicker."""
        if self._database is None:
            self._database = found
        else:
            await found.close()


def check_database(database: object, what: str) -> None:
    """Refuse what is neither a database nor about to be one.

    Raises:
        InvalidArgument: It is something else, such as a URL.
    """
    if not isinstance(database, Database | Awaitable):
        raise InvalidArgument(
            problem=f"{what} must be a Database or clew.open(url), not {described(database)}."
        )


DatabaseOrOpening: TypeAlias = Annotated[Database | Awaitable[Database], check_database]
"""A database that is open, or one that is about to be opened."""


PAGE = 256


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the newest items, whether they are all, and how to put others in place of their last ones."""

    items: list[TResponseInputItem]
    complete: bool
    replace_suffix: Callable[[int, list[TResponseInputItem]], Awaitable[bool]]


def cuts_of(window: Window) -> tuple[Cut, ...]:
    """The end of every item of a window, but not of those among them that cannot be read.

    A guest's calls are never held open, so none is open afterwards.
    """
    runs: list[list[Item]] = []
    broken = sorted(entry.place for entry in window.broken)
    for item in window:
        last = runs[-1][-1].place if runs else 0
        if runs and not any(last < place < item.place for place in broken):
            runs[-1].append(item)
        else:
            runs.append([item])
    return tuple(Cut(first=run[0].place, last=run[-1].place, count=len(run)) for run in runs)


async def replaced(
    thread: Thread, seen: Window, cuts: Sequence[Cut], added: Sequence[Item], reason: str
) -> bool:
    """Whether the changeset was committed: not if the thread has moved on since it was seen."""
    change = Changeset(cuts=tuple(cuts), items=tuple(added), reason=reason)
    try:
        await thread.append(change, expect=Exact(seen.version))
    except VersionConflict:
        return False
    return True


async def expired(
    thread: Thread, seen: Window, is_expired: Callable[[TResponseInputItem], bool]
) -> tuple[Cut, ...]:
    """The end of the oldest items that are over, up to the first that is not."""
    cuts: list[Cut] = []
    after, before = 0, seen[0].place
    while page := await thread.items(first=PAGE, after=after, before=before, at=seen.version):
        over = _leading(page, is_expired)
        if over:
            cuts += cuts_of(Window(over, page.broken, page.version))
        if len(over) < len(page):
            break
        after = page[-1].place
    return tuple(cuts)


def _leading(page: Window, is_expired: Callable[[TResponseInputItem], bool]) -> list[Item]:
    first = next((index for index, item in enumerate(page) if not is_expired(item.body)), len(page))
    broken = min((entry.place for entry in page.broken), default=None)
    return [item for item in page[:first] if broken is None or item.place < broken]


T = TypeVar("T")


async def settled(work: Coroutine[Any, Any, T]) -> T:
    """The result of a write, which goes on to its end even if who waits for it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue  # it is raised once the outcome is known
        if not task.cancelled():
            task.exception()  # looked at, so that nobody is told of it twice
        raise


PROTOCOL = ("get_items", "add_items", "pop_item", "clear_session")
log = logging.getLogger(__name__)


def _log_broken(session: str, broken: Broken) -> None:
    """Say that an item was left out."""
    log.warning("Session %r: item %s cannot be read: %s", session, broken.place, broken.problem)


Told = Callable[[str, Broken], None]
"""Who is told of an item of a session that cannot be read."""


class Session:
    """The history of one conversation: the SDK's session protocol on a thread of the same id.

    ``database`` is an open one, which stays open, or ``clew.open(url)``, which the session opens when it
    first needs it and closes with itself. The thread is made by the first write.
    """

    session_settings: SessionSettings | None

    @check_arguments
    def __init__(
        self,
        session_id: Id,
        database: DatabaseOrOpening,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        owner: Id | None = None,
        told: Told = _log_broken,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._ground = Ground(database)
        self._owner = owner
        self._told = told
        self._meter = Meter(session_id, owner)
        self._checked = False

    def __repr__(self) -> str:
        return f"Session({self.session_id!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # The protocol: its arguments mean what the SDK says that they mean, so they are not checked here. A
    # parameter named ``wrapper`` is how the SDK offers a session the context of the run.

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[TResponseInputItem]:
        """The latest items in order: as many as asked for, or as the settings say, or all."""
        if wrapper is not None:
            self._meter.meet(wrapper)
        wanted = resolve_session_limit(limit, self.session_settings)
        # As with the SDK's own: 0 is nothing, less than 0 is everything.
        return await self._read(None, None if wanted is None or wanted < 0 else wanted)

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Append some items, all of them or none.

        Raises:
            InvalidValue: One of them is not JSON; nothing was written.
        """
        database = await self._ready()
        if items:
            await settled(self._add(database, Changeset(items=stored(items)), wrapper))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Take away the newest item and give it back; None if there is none."""
        thread = await self._thread()
        return await settled(self._pop(thread))

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """End every item. They stay readable by version."""
        thread = await self._thread()
        try:
            await settled(thread.log().clear())
        except ThreadNotFound:
            return

    def close(self) -> Awaitable[None]:
        """Refuse further calls from now on; awaited, close the database if the session opened it."""
        self._ground.closed = True
        return _Closing(self._ground)

    # What a thread can do besides.

    @check_arguments
    async def rewind(self, items: Sequence[TResponseInputItem]) -> bool:
        """Take away exactly these items in one changeset, if they are the newest; whether they were.

        Nothing is taken if anybody has written after them.
        """
        thread = await self._thread()
        window = await self._window(thread, len(items))
        if not items or len(window) < len(items) or not same(given(window, self.session_id), list(items)):
            return False
        return await settled(replaced(thread, window, cuts_of(window), (), "Rewind"))

    @check_arguments
    async def items_at(self, version: int, limit: int | None = None) -> list[TResponseInputItem]:
        """The items as they were at a version of the thread."""
        return await self._read(version, limit)

    @check_arguments
    async def fork(self, session_id: Id, *, at: int | None = None) -> "Session":
        """A session of its own that goes on from here, or from an earlier version. Nothing is copied.

        It shares the database, and does not close it.
        """
        thread = await self._thread()
        await thread.fork(session_id, at=at)
        database = await self._ready()
        return Session(
            session_id, database, session_settings=self.session_settings, owner=self._owner, told=self._told
        )

    @check_arguments
    async def search(self, query: str) -> list[Turn]:
        """The turns whose items hold all of the words, oldest first."""
        wanted = set(words(query))
        found: dict[int, Turn] = {}
        for turn, item in await self._by_turn():
            if wanted and wanted <= set(words(text_of(item))):
                found[turn.version] = turn
        return list(found.values())

    async def turns(self) -> list[Turn]:
        """What people said, oldest first, with the version to branch from and what each answer used."""
        return list({turn.version: turn for turn, _ in await self._by_turn() if turn.version}.values())

    async def usage(self) -> Spent:
        """What all runs of this session have used."""
        return added_up((await self._spent()).values())

    @property
    def paused(self) -> Paused:
        """The run that waits for an approval."""
        return Paused(self._ready, self.session_id, self._owner)

    # What the SDK's compaction looks for, so that it replaces history in one changeset.

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> Snapshot | None:
        if not self._is_plain():
            return None
        thread = await self._thread()
        window = await self._window(thread, limit)
        if window.broken:
            return None
        older = await thread.items(last=1, before=window[0].place, at=window.version) if window else ()

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            taken = Window(window[start:], version=window.version)
            if not taken:
                return False
            cuts = cuts_of(taken)
            if prune_prefix is not None:
                cuts = (*await expired(thread, taken, prune_prefix), *cuts)
            return await settled(replaced(thread, taken, cuts, stored(output), "Compact"))

        return Snapshot(
            items=given(window, self.session_id), complete=not older, replace_suffix=replace_suffix
        )

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        if not self._is_plain():
            return False
        thread, added = await self._thread(), stored(items)
        return await settled(self._replace_all(thread, added))

    def _is_plain(self) -> bool:
        """Whether reads and writes are as defined here; a subclass that changes them must not be bypassed."""
        return all(getattr(type(self), name) is getattr(Session, name) for name in PROTOCOL)

    # How it is done.

    async def _ready(self) -> Database:
        """The database, open."""
        database = await self._ground.database()
        if not self._checked:
            await self._check(database.thread(self.session_id))
            self._checked = True
        return database

    async def _thread(self) -> Thread:
        return (await self._ready()).thread(self.session_id)

    async def _check(self, thread: Thread) -> None:
        """Refuse a thread that something else has written, before anything is written to it."""
        try:
            head = await thread.head()
        except ThreadNotFound:
            return
        for name in head.counters.logs:
            for item in await thread.items(last=1, log=name, at=head.version):
                check_format(item, self.session_id)

    async def _read(self, at: int | None, last: int | None) -> list[TResponseInputItem]:
        window = await self._window(await self._thread(), last, at=at)
        return given(window, self.session_id)

    async def _window(self, thread: Thread, last: int | None, *, at: int | None = None) -> Window:
        """Items that can be read; who wants to is told of the others."""
        try:
            window = await thread.items(last=last, at=at)
        except ThreadNotFound:
            if at:
                raise
            return Window(())
        for broken in window.broken:
            self._told(self.session_id, broken)
        return window

    async def _add(self, database: Database, change: Changeset, run: RunContextWrapper[Any] | None) -> None:
        """Append, together with what the run has used; the first append makes the thread."""
        due = self._meter.due(run) if run is not None else None
        writes: list[Write] = [] if due is None else [due]
        try:
            done = await self._commit(database, change, Anywhere(), writes)
        except ThreadNotFound:
            try:
                done = await self._commit(database, change, Absent(owner=self._owner), writes)
            except ThreadExists:  # by somebody who was quicker
                done = await self._commit(database, change, Anywhere(), writes)
        if run is not None:
            self._meter.wrote(run, done.version)

    async def _commit(
        self, database: Database, change: Changeset, expect: Expect, writes: Sequence[Write]
    ) -> Committed:
        if not writes and not isinstance(expect, Absent):
            return await database.thread(self.session_id).append(change, expect=expect)
        append = AppendTo(thread=self.session_id, change=change, expect=expect)
        done = (await database.commit([append, *writes]))[0]
        assert isinstance(done, Committed)
        return done

    async def _pop(self, thread: Thread) -> TResponseInputItem | None:
        while True:
            window = await self._window(thread, 1)
            if not window:
                return None
            item = given(window, self.session_id)[0]
            if await replaced(thread, window, cuts_of(window), (), "Pop"):
                return item

    async def _replace_all(self, thread: Thread, added: tuple[Item, ...]) -> bool:
        while True:
            window = await self._window(thread, None)
            if not window:
                return False
            if await replaced(thread, window, cuts_of(window), added, "Compact"):
                return True

    async def _by_turn(self) -> list[tuple[Turn, Item]]:
        """Every item, with the turn it belongs to."""
        window, spent = await self._window(await self._thread(), None), await self._spent()
        turn, found = Turn(version=0, text=""), []
        for item in window:
            if item.role == "user":
                used = spent.get(item.version, Spent())
                turn = Turn(version=item.version, text=text_of(item), spent=used)
            found.append((turn, item))
        return found

    async def _spent(self) -> dict[int, Spent]:
        """What was used, by the version that a turn begins with."""
        records = (await self._ready()).records
        found: dict[int, Spent] = {}
        after: tuple[int, str] | None = None
        while page := await records.find(
            RecordQuery(kind=KIND, tags=(self.session_id,), limit=PAGE, after=after)
        ):
            found |= {record.sort: spent_in(record) for record in page}
            after = (page[-1].sort, page[-1].id)
        return found


class _Closing(Awaitable[None]):
    """The end of a session, for who waits for it; who does not is not told off.

    The SDK's own sessions are closed with ``close()`` by some and with ``await close()`` by others.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def __await__(self) -> Generator[Any, None, None]:
        return self._ground.close().__await__()
