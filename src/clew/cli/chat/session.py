"""A talk: a runtime that is open, and who talks on which thread of it."""

import asyncio
import enum
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from clew.companion.agent import companion, inputs_of
from clew.companion.crisis.floor import floor
from clew.companion.exercises.selection import asked_for
from clew.companion.language.commands import command_in
from clew.companion.offline.model import offline_reply
from clew.companion.values import AgentInput, Channel
from clew.core.encoding import check_id
from clew.core.errors import InvalidArgument, NotThere
from clew.core.messages.plain import PlainMessage
from clew.core.messages.projection import plain_messages
from clew.core.redaction import without_password
from clew.core.values import Scope, Summary
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.values import Arc, Fact, Rule
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model
from clew.runtime.records.events import Event
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.status import SessionStatus
from clew.runtime.state.inputs import free_id
from clew.urls import open_store


class Mode(enum.StrEnum):
    """Whether what is said is kept."""

    GUEST = "guest"
    PERSISTENT = "persistent"


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """A thread, the user on whose behalf it goes on if there is one, and whether it is kept.

    Without a user what is learned belongs to the thread. A guest has no user, whatever was given.
    """

    thread: str
    user: str | None = None
    mode: Mode = Mode.PERSISTENT

    @property
    def is_guest(self) -> bool:
        """Whether nothing is kept."""
        return self.mode is Mode.GUEST

    @property
    def memory_mode(self) -> MemoryMode | None:
        """What the runtime is told about it."""
        return MemoryMode.INCOGNITO if self.is_guest else None

    def on(self, thread: str) -> "Who":
        """The same person on another thread.

        Raises:
            InvalidId: No conversation can have that id.
        """
        return msgspec.structs.replace(self, thread=free_id(thread))


def who_talks(*, thread: str | None, user: str | None, mode: Mode, new_id: Callable[[], str]) -> Who:
    """Who talks; a thread that was not named gets an id of its own, which is never made from the user's.

    Raises:
        InvalidId: An id cannot be one.
    """
    whose = None if mode is Mode.GUEST or not user else check_id(user, "user")
    return Who(thread=free_id(thread or new_id()), user=whose, mode=mode)


NOWHERE = "memory://"
OFFLINE = "offline"
PAGE, MOST = 50, 1000
GUEST = (
    "You are a guest: nothing is kept when you leave. Ask “What do you remember about me?” for what is known "
    "until then."
)
Entry: TypeAlias = Fact | Arc | Rule


def make_runtime(db: Database, model: Model | None) -> Runtime[Any, Any]:
    """What answers: the companion; without a model, one that needs no key and says so."""
    return companion(db, model)


@dataclass(slots=True, kw_only=True)
class Talk:
    """What a chat works with. It moves from thread to thread; who talks stays.

    ``warmed`` is done when the first turn will take no longer than the others.
    """

    runtime: Runtime[Any, Any]
    db: Database
    who: Who
    model: str
    store: str
    new_id: Callable[[], str]
    warmed: Awaitable[object]

    @property
    def memory(self) -> Memory:
        """What is known of the user, or of the thread if there is none.

        Raises:
            InvalidArgument: A guest talks, of whom nothing is kept.
        """
        if self.who.is_guest:
            raise InvalidArgument(problem=GUEST)
        return memory_of(self.own, self.who.thread, self.who.user)

    @property
    def own(self) -> Database:
        """The database as the user sees it."""
        return self.db.scope(tenant=self.db.tenant, user=self.who.user)

    async def turn(self, message: str) -> AsyncIterator[Event]:
        """One turn, as it goes."""
        who = self.who
        given = AgentInput(message=message, channel=Channel.TERMINAL, user_id=who.user, session_id=who.thread)
        await self.warmed
        async for event in self.runtime.stream_turn(
            who.thread, inputs_of(given), user=who.user, mode=who.memory_mode
        ):
            yield event

    async def stop(self) -> None:
        """End the turn that is at work."""
        await self.runtime.cancel(self.who.thread, user=self.who.user)

    async def status(self) -> SessionStatus:
        """Where the thread stands."""
        return await self.runtime.session_status(self.who.thread, user=self.who.user)

    async def said(self, last: int) -> list[PlainMessage]:
        """The newest messages, oldest first; none if nothing was said yet."""
        try:
            window = await self.runtime.history(self.who.thread, last=last, user=self.who.user)
        except NotThere:
            return []
        return plain_messages(item for item in window if item.visibility == "all")

    async def threads(self, limit: int) -> list[Summary]:
        """The threads of whoever talks, newest first: of the user, or those without one."""
        found: list[Summary] = []
        after: str | None = None
        while len(found) < limit and not self.who.is_guest:
            page = await self.runtime.threads(user=self.who.user, limit=PAGE, after=after)
            found += [thread for thread in page.threads if thread.owner == self.who.user]
            after = page.next
            if after is None:
                break
        return found[:limit]

    async def known(self) -> list[Entry]:
        """What is known, newest first of each kind; nothing of a guest."""
        if self.who.is_guest:
            return []
        rules = (await self.memory.profile()).rules
        facts, arcs = await self.memory.page("facts", limit=MOST), await self.memory.page("arcs", limit=MOST)
        return [*rules, *facts.facts, *arcs.arcs]

    async def move(self, thread: str) -> None:
        """Go on with another thread.

        Raises:
            InvalidArgument: It is somebody else's.
            InvalidId: No conversation can have that id.
        """
        who = self.who.on(thread)
        await check_own(self.db, who)
        self.who = who


async def check_own(db: Database, who: Who) -> None:
    """Refuse a thread that is somebody else's.

    Raises:
        InvalidArgument: It is.
    """
    try:
        head = await db.thread(who.thread).head()
    except NotThere:
        return
    if head.owner != who.user:
        whose = (
            "has no user: leave out --user-id" if head.owner is None else "is another user's: say --user-id"
        )
        raise InvalidArgument(problem=f"Thread {who.thread!r} {whose}, or choose another thread.")


@asynccontextmanager
async def opened(
    url: str, tenant: str, who: Who, model: str | None, new_id: Callable[[], str]
) -> AsyncIterator[Talk]:
    """A talk on the database at a URL; that of a guest on none, so that nothing of it is ever on disk.

    Raises:
        InvalidArgument: The thread is somebody else's, or the model has no such name.
        MissingExtra: Models of providers are not installed.
    """
    place = NOWHERE if who.is_guest else url
    store = await open_store(place)
    try:
        db = Database(store, Scope(tenant=tenant))
        await check_own(db, who)
        async with _model(model) as provided, make_runtime(db, provided) as runtime:
            yield Talk(
                runtime=runtime,
                db=db,
                who=who,
                model=model or OFFLINE,
                store="in memory" if who.is_guest else without_password(place),
                new_id=new_id,
                warmed=asyncio.ensure_future(asyncio.to_thread(_warm)),
            )
    finally:
        await store.close()


def _warm() -> None:
    """Read once what every turn goes by, while somebody types the first message."""
    floor(BEFORE)
    command_in(BEFORE)
    asked_for(BEFORE)
    offline_reply([Message(role="user", content=BEFORE)])


BEFORE = "before anybody says anything"


def _model(name: str | None) -> Any:
    if name is None:
        return nullcontext()
    from clew.runtime.model.provider import ProviderModel

    return ProviderModel(name)
