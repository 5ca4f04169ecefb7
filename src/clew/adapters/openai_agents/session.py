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

from clew.adapters.openai_agents.items import (
    HiddenItem,
    check_format,
    hidden_items,
    items_from_sdk,
    keys_of,
    sdk_items,
)
from clew.adapters.openai_agents.run_states import PausedRun
from clew.adapters.openai_agents.usage import (
    KIND,
    ConversationTurn,
    TokenUsage,
    UsageMeter,
    total_usage,
    usage_of_record,
)
from clew.core.arguments import check_arguments
from clew.core.encoding import Id, is_same
from clew.core.errors import InvalidArgument, StoreClosed, ThreadExists, ThreadNotFound, VersionConflict
from clew.core.shapes import describe_value
from clew.core.text.words import text_of, words
from clew.core.values import (
    Absent,
    AnyVersion,
    AppendTo,
    Changeset,
    Committed,
    Cut,
    Exact,
    Expectation,
    Item,
    RecordQuery,
    UnreadableItem,
    Window,
    Write,
)
from clew.database.database import Database
from clew.database.thread import Thread


class LazyDatabase:
    """A database that was given and stays open, or one that is opened here and closed again.

    The SDK runs one session in several event loops, so what is awaited here belongs to one loop only.
    """

    def __init__(self, database: Database | Awaitable[Database]) -> None:
        self.closed = False
        self._is_borrowed = isinstance(database, Database)
        self._database = database if isinstance(database, Database) else None
        self._opening = None if isinstance(database, Database) else database
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def database(self) -> Database:
        """The database, open.

        Raises:
            StoreClosed: The session was closed.
        """
        if self.closed:
            raise StoreClosed
        return self._database or await self._open_once()

    async def close(self) -> None:
        """Close the database, if it was opened here."""
        if not self._is_borrowed and self._database is not None:
            await self._database.close()

    async def _open_once(self) -> Database:
        assert self._opening is not None
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._database is None:
                await self._adopt(await self._opening)
        assert self._database is not None
        return self._database

    async def _adopt(self, database: Database) -> None:
        """Keep a database, unless another event loop was quicker."""
        if self._database is None:
            self._database = database
        else:
            await database.close()


def check_database(database: object, what: str) -> None:
    """Refuse what is neither a database nor about to be one.

    Raises:
        InvalidArgument: It is something else, such as a URL.
    """
    if not isinstance(database, Database | Awaitable):
        raise InvalidArgument(
            problem=f"{what} must be a Database or clew.open(url), not {describe_value(database)}."
        )


DatabaseOrOpening: TypeAlias = Annotated[Database | Awaitable[Database], check_database]
"""A database that is open, or one that is about to be opened."""


ITEMS_PER_PAGE = 256


class CompactionSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the newest items, whether they are all, and how to put others in place of their last ones."""

    items: list[TResponseInputItem]
    complete: bool
    replace_suffix: Callable[[int, list[TResponseInputItem]], Awaitable[bool]]


def cuts_of(window: Window) -> tuple[Cut, ...]:
    """The end of every item of a window, but not of those among them that cannot be read.

    A guest's calls are never held open, so none is open afterwards.
    """
    stretches: list[list[Item]] = []
    gaps = sorted(entry.place for entry in window.broken)
    for item in window:
        last = stretches[-1][-1].place if stretches else 0
        if stretches and not any(last < place < item.place for place in gaps):
            stretches[-1].append(item)
        else:
            stretches.append([item])
    return tuple(Cut(first=run[0].place, last=run[-1].place, count=len(run)) for run in stretches)


async def try_replace(
    thread: Thread, window: Window, cuts: Sequence[Cut], items: Sequence[Item], reason: str
) -> bool:
    """Commit a changeset unless the thread has moved since it was read; return whether it did."""
    change = Changeset(cuts=tuple(cuts), items=tuple(items), reason=reason)
    try:
        await thread.append(change, expect=Exact(window.version))
    except VersionConflict:
        return False
    return True


async def prefix_cuts(
    thread: Thread, window: Window, is_expired: Callable[[TResponseInputItem], bool]
) -> tuple[Cut, ...]:
    """The end of the oldest items that are over, up to the first that is not."""
    cuts: list[Cut] = []
    after, before = 0, window[0].place
    while page := await thread.items(first=ITEMS_PER_PAGE, after=after, before=before, at=window.version):
        prefix = _leading_items(page, is_expired)
        if prefix:
            cuts += cuts_of(Window(prefix, page.broken, page.version))
        if len(prefix) < len(page):
            break
        after = page[-1].place
    return tuple(cuts)


def _leading_items(page: Window, is_expired: Callable[[TResponseInputItem], bool]) -> list[Item]:
    first = next((index for index, item in enumerate(page) if not is_expired(item.body)), len(page))
    first_gap = min((entry.place for entry in page.broken), default=None)
    return [item for item in page[:first] if first_gap is None or item.place < first_gap]


T = TypeVar("T")


async def shield_write(work: Coroutine[Any, Any, T]) -> T:
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
            task.exception()  # retrieved, so that asyncio does not report it again
        raise


PROTOCOL_METHODS = ("get_items", "add_items", "pop_item", "clear_session")
log = logging.getLogger(__name__)


def _log_unreadable(session: str, unreadable: UnreadableItem) -> None:
    """Say that an item was left out."""
    log.warning("Session %r: item %s cannot be read: %s", session, unreadable.place, unreadable.problem)


def _log_hidden(session: str, hidden: HiddenItem) -> None:
    """Say that an item is not shown to a model."""
    log.warning(
        "Session %r: item %s, a %s, is not shown to the model: %s",
        session,
        hidden.place,
        hidden.type,
        hidden.problem,
    )


HiddenListener = Callable[[str, HiddenItem], None]
"""A callback for items of a session that a model is not shown."""

UnreadableListener = Callable[[str, UnreadableItem], None]
"""A callback for items of a session that cannot be read."""


class Session:
    """The history of one conversation: the SDK's session protocol on a thread of the same id.

    ``database`` is an open one, which stays open, or ``clew.open(url)``, which the session opens when it
    first needs it and closes with itself. The thread is made by the first write.

    With ``heal`` a run is not shown what its provider would refuse: outputs whose call is missing, and
    thoughts that nothing follows. The history keeps them, and ``on_hidden`` is told.
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
        on_unreadable: UnreadableListener = _log_unreadable,
        heal: bool = True,
        on_hidden: HiddenListener = _log_hidden,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._lazy_database = LazyDatabase(database)
        self._owner = owner
        self._on_unreadable = on_unreadable
        self._heal = heal
        self._on_hidden = on_hidden
        self._meter = UsageMeter(session_id, owner)
        self._history_keys: WeakKeyDictionary[RunContextWrapper[Any], frozenset[tuple[str, str]]]
        self._history_keys = WeakKeyDictionary()
        self._is_checked = False

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
        count = resolve_session_limit(limit, self.session_settings)
        # As with the SDK's own: 0 is nothing, less than 0 is everything.
        window = await self._window(await self._thread(), None if count is None or count < 0 else count)
        items = sdk_items(window, self.session_id)
        # The first read of a run makes its model's input; all others of the SDK's compare what is stored. A
        # run that was resumed has asked a model before, and what it adds first are answers, not its input.
        if wrapper is None or not self._meter.register_run(wrapper) or wrapper.usage.requests:
            return items
        self._history_keys[wrapper] = frozenset().union(*map(keys_of, items))
        return self._without_hidden(window, items) if self._heal else items

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Append some items, all of them or none.

        The first that a run adds are its input. Copies of history among them, which a callback of the run may
        have made and changed, are recognised by their ids or calls, and not appended again.

        Raises:
            InvalidValue: One of them is not JSON; nothing was written.
        """
        database = await self._open_database()
        history_keys = self._history_keys.pop(wrapper, None) if wrapper is not None else None
        if history_keys:
            items = [item for item in items if not history_keys & keys_of(item)]
        if items:
            await shield_write(self._append(database, Changeset(items=items_from_sdk(items)), wrapper))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Take away the newest item and give it back; None if there is none."""
        thread = await self._thread()
        return await shield_write(self._pop_newest(thread))

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """End every item. They stay readable by version."""
        thread = await self._thread()
        try:
            await shield_write(thread.log().clear())
        except ThreadNotFound:
            return

    def close(self) -> Awaitable[None]:
        """Refuse further calls from now on; awaited, close the database if the session opened it."""
        self._lazy_database.closed = True
        return _CloseAwaitable(self._lazy_database)

    # What a thread can do besides.

    @check_arguments
    async def rewind(self, items: Sequence[TResponseInputItem]) -> bool:
        """Take away exactly these items in one changeset, if they are the newest; whether they were.

        Nothing is taken if anybody has written after them.
        """
        thread = await self._thread()
        window = await self._window(thread, len(items))
        if (
            not items
            or len(window) < len(items)
            or not is_same(sdk_items(window, self.session_id), list(items))
        ):
            return False
        return await shield_write(try_replace(thread, window, cuts_of(window), (), "Rewind"))

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
        database = await self._open_database()
        return Session(
            session_id,
            database,
            session_settings=self.session_settings,
            owner=self._owner,
            on_unreadable=self._on_unreadable,
            heal=self._heal,
            on_hidden=self._on_hidden,
        )

    @check_arguments
    async def search(self, query: str) -> list[ConversationTurn]:
        """The turns whose items hold all of the words, oldest first."""
        query_words = set(words(query))
        turns: dict[int, ConversationTurn] = {}
        for turn, item in await self._items_by_turn():
            if query_words and query_words <= set(words(text_of(item))):
                turns[turn.version] = turn
        return list(turns.values())

    async def turns(self) -> list[ConversationTurn]:
        """People's messages, oldest first, with the version to branch from and the answer's usage."""
        return list({turn.version: turn for turn, _ in await self._items_by_turn() if turn.version}.values())

    async def usage(self) -> TokenUsage:
        """The usage of all runs of this session."""
        return total_usage((await self._usage_by_version()).values())

    @property
    def paused_run(self) -> PausedRun:
        """The run that waits for an approval."""
        return PausedRun(self._open_database, self.session_id, self._owner)

    # What the SDK's compaction looks for, so that it replaces history in one changeset.

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> CompactionSnapshot | None:
        if not self._has_own_protocol():
            return None
        thread = await self._thread()
        window = await self._window(thread, limit)
        if window.broken:
            return None
        older = await thread.items(last=1, before=window[0].place, at=window.version) if window else ()

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            suffix = Window(window[start:], version=window.version)
            if not suffix:
                return False
            cuts = cuts_of(suffix)
            if prune_prefix is not None:
                cuts = (*await prefix_cuts(thread, suffix, prune_prefix), *cuts)
            return await shield_write(try_replace(thread, suffix, cuts, items_from_sdk(output), "Compact"))

        return CompactionSnapshot(
            items=sdk_items(window, self.session_id), complete=not older, replace_suffix=replace_suffix
        )

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        if not self._has_own_protocol():
            return False
        thread, new_items = await self._thread(), items_from_sdk(items)
        return await shield_write(self._replace_all(thread, new_items))

    def _has_own_protocol(self) -> bool:
        """Return whether reads and writes are the ones defined here; a subclass's own are not bypassed."""
        return all(getattr(type(self), name) is getattr(Session, name) for name in PROTOCOL_METHODS)

    # How it is done.

    async def _open_database(self) -> Database:
        """The database, open."""
        database = await self._lazy_database.database()
        if not self._is_checked:
            await self._check_thread(database.thread(self.session_id))
            self._is_checked = True
        return database

    async def _thread(self) -> Thread:
        return (await self._open_database()).thread(self.session_id)

    async def _check_thread(self, thread: Thread) -> None:
        """Refuse a thread that something else has written, before anything is written to it."""
        try:
            head = await thread.head()
        except ThreadNotFound:
            return
        if head.agent is not None:  # also if all that its turns added was taken back
            raise InvalidArgument(
                problem=f"Thread {head.id!r} belongs to the agent {head.agent!r}. Choose another session id."
            )
        for name in head.counters.logs:
            for item in await thread.items(last=1, log=name, at=head.version):
                check_format(item, self.session_id)

    async def _read(self, at: int | None, last: int | None) -> list[TResponseInputItem]:
        window = await self._window(await self._thread(), last, at=at)
        return sdk_items(window, self.session_id)

    async def _window(self, thread: Thread, last: int | None, *, at: int | None = None) -> Window:
        """The items that can be read; the callback gets the others."""
        try:
            window = await thread.items(last=last, at=at)
        except ThreadNotFound:
            if at:
                raise
            return Window(())
        for unreadable in window.broken:
            self._on_unreadable(self.session_id, unreadable)
        return window

    def _without_hidden(self, window: Window, items: list[TResponseInputItem]) -> list[TResponseInputItem]:
        """The items that a provider takes; the callback gets the others."""
        hidden = hidden_items(window.items)
        for item in hidden:
            self._on_hidden(self.session_id, item)
        places = {item.place for item in hidden}
        return [body for item, body in zip(window, items, strict=True) if item.place not in places]

    async def _append(
        self, database: Database, change: Changeset, run: RunContextWrapper[Any] | None
    ) -> None:
        """Append, together with what the run has used; the first append makes the thread."""
        usage_write = self._meter.usage_write(run) if run is not None else None
        writes: list[Write] = [] if usage_write is None else [usage_write]
        try:
            commit = await self._commit(database, change, AnyVersion(), writes)
        except ThreadNotFound:
            try:
                commit = await self._commit(database, change, Absent(owner=self._owner), writes)
            except ThreadExists:  # by another process that was quicker
                commit = await self._commit(database, change, AnyVersion(), writes)
        if run is not None:
            self._meter.register_version(run, commit.version)

    async def _commit(
        self, database: Database, change: Changeset, expect: Expectation, writes: Sequence[Write]
    ) -> Committed:
        if not writes and not isinstance(expect, Absent):
            return await database.thread(self.session_id).append(change, expect=expect)
        append = AppendTo(thread=self.session_id, change=change, expect=expect)
        result = (await database.commit([append, *writes]))[0]
        assert isinstance(result, Committed)
        return result

    async def _pop_newest(self, thread: Thread) -> TResponseInputItem | None:
        while True:
            window = await self._window(thread, 1)
            if not window:
                return None
            item = sdk_items(window, self.session_id)[0]
            if await try_replace(thread, window, cuts_of(window), (), "Pop"):
                return item

    async def _replace_all(self, thread: Thread, new_items: tuple[Item, ...]) -> bool:
        while True:
            window = await self._window(thread, None)
            if not window:
                return False
            if await try_replace(thread, window, cuts_of(window), new_items, "Compact"):
                return True

    async def _items_by_turn(self) -> list[tuple[ConversationTurn, Item]]:
        """Every item, with the turn it belongs to."""
        window, usage_by_version = (
            await self._window(await self._thread(), None),
            await self._usage_by_version(),
        )
        turn, pairs = ConversationTurn(version=0, text=""), []
        for item in window:
            if item.role == "user":
                usage = usage_by_version.get(item.version, TokenUsage())
                turn = ConversationTurn(version=item.version, text=text_of(item), usage=usage)
            pairs.append((turn, item))
        return pairs

    async def _usage_by_version(self) -> dict[int, TokenUsage]:
        """The usage of each turn, by the version that it begins with."""
        records = (await self._open_database()).records
        usage: dict[int, TokenUsage] = {}
        after: tuple[int, str] | None = None
        while page := await records.find(
            RecordQuery(kind=KIND, tags=(self.session_id,), limit=ITEMS_PER_PAGE, after=after)
        ):
            usage |= {record.sort: usage_of_record(record) for record in page}
            after = (page[-1].sort, page[-1].id)
        return usage


class _CloseAwaitable(Awaitable[None]):
    """The end of a session, to be awaited or not: without an await there is no warning.

    The SDK's own sessions are closed with ``close()`` by some and with ``await close()`` by others.
    """

    def __init__(self, database: LazyDatabase) -> None:
        self._database = database

    def __await__(self) -> Generator[Any, None, None]:
        return self._database.close().__await__()
