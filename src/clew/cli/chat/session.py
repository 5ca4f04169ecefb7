"""A talk: a runtime that is open, and who talks on which thread of it."""

import asyncio
import enum
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from clew.agents.agent import Agent, AgentSettings, UserMessage
from clew.agents.model import model_label
from clew.agents.options import AgentOptions, open_settings
from clew.core.encoding import check_id
from clew.core.errors import InvalidArgument, NotFound
from clew.core.messages.plain import PlainMessage
from clew.core.messages.projection import plain_messages
from clew.core.redaction import without_password
from clew.core.values import Scope, ThreadSummary
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.values import MemoryEntry
from clew.runtime.records.events import Event
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.status import SessionStatus
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.inputs import check_thread_id
from clew.urls import open_store


class ChatMode(enum.StrEnum):
    """The mode of a chat: messages are stored, or not."""

    GUEST = "guest"
    PERSISTENT = "persistent"


class Participant(msgspec.Struct, frozen=True, kw_only=True):
    """A thread, the user on whose behalf it goes on if there is one, and whether it is kept.

    Without a user what is learned belongs to the thread. A guest has no user, whatever was given.
    """

    thread: str
    user: str | None = None
    mode: ChatMode = ChatMode.PERSISTENT

    @property
    def is_guest(self) -> bool:
        """True if nothing is stored."""
        return self.mode is ChatMode.GUEST

    @property
    def memory_mode(self) -> MemoryMode | None:
        """The memory mode that the runtime gets."""
        return MemoryMode.INCOGNITO if self.is_guest else None

    def with_thread(self, thread: str) -> "Participant":
        """The same person on another thread.

        Raises:
            InvalidId: No conversation can have that id.
        """
        return msgspec.structs.replace(self, thread=check_thread_id(thread))


def new_participant(
    *, thread: str | None, user: str | None, mode: ChatMode, new_id: Callable[[], str]
) -> Participant:
    """Make a participant; a thread that was not named gets an id, which is never made from the user's.

    Raises:
        InvalidId: An id cannot be one.
    """
    user_id = None if mode is ChatMode.GUEST or not user else check_id(user, "user")
    return Participant(thread=check_thread_id(thread or new_id()), user=user_id, mode=mode)


IN_MEMORY_URL = "memory://"
OWN_MODEL = "own model"
THREADS_PER_PAGE, MOST_ENTRIES = 50, 1000
GUEST_HAS_NO_MEMORY = (
    "You are a guest: nothing is kept when you leave. Ask “What do you remember about me?” for what is known "
    "until then."
)


@dataclass(slots=True, kw_only=True)
class Chat:
    """A runtime of an agent, and the person who talks with it. It moves from thread to thread.

    ``warm_up`` is done when the first turn will take no longer than the others. ``last_states`` has the state
    of the last turn on each thread, with all that is gone from the stored one.
    """

    agent: Agent
    settings: AgentSettings
    runtime: Runtime[Any, Any]
    db: Database
    participant: Participant
    model: str
    notices: Sequence[str]
    store: str
    new_id: Callable[[], str]
    warm_up: Awaitable[object]
    last_states: dict[str, object]
    shows_context: bool = False

    @property
    def memory(self) -> Memory:
        """The memory of the user, or of the thread if there is no user.

        Raises:
            InvalidArgument: A guest talks, of whom nothing is kept.
        """
        if self.participant.is_guest:
            raise InvalidArgument(problem=GUEST_HAS_NO_MEMORY)
        return memory_of(self.user_db, self.participant.thread, self.participant.user)

    @property
    def user_db(self) -> Database:
        """The database as the user sees it."""
        return self.db.scope(tenant=self.db.tenant, user=self.participant.user)

    @property
    def installed_skills(self) -> tuple[str, ...]:
        """The skills of every turn: all that there are, if the agent uses any."""
        return tuple(self.settings.skills) if "skills" in self.agent.uses else ()

    def context(self) -> Mapping[str, Sequence[str]]:
        """The context of the last answer on this thread, as its agent tells it.

        Raises:
            InvalidArgument: The agent tells nothing of it, or there was no answer in this chat.
        """
        if self.agent.describe_context is None:
            raise InvalidArgument(problem=f"The agent {self.agent.name!r} does not tell its context.")
        state = self.last_states.get(self.participant.thread)
        if state is None:
            raise InvalidArgument(problem="There is no answer yet in this chat. Say something first.")
        return self.agent.describe_context(state)

    async def turn_events(self, message: str) -> AsyncIterator[Event]:
        """One turn, as it goes."""
        participant = self.participant
        self.last_states.pop(participant.thread, None)
        turn_input = self.agent.make_input(
            UserMessage(
                text=message,
                thread=participant.thread,
                user=participant.user,
                channel="terminal",
                installed_skills=self.installed_skills,
            )
        )
        await self.warm_up
        async for event in self.runtime.stream_turn(
            participant.thread, turn_input, user=participant.user, mode=participant.memory_mode
        ):
            yield event

    async def stop_turn(self) -> None:
        """End the turn that is at work."""
        await self.runtime.cancel(self.participant.thread, user=self.participant.user)

    async def status(self) -> SessionStatus:
        """The status of the thread."""
        return await self.runtime.session_status(self.participant.thread, user=self.participant.user)

    async def messages(self, last: int) -> list[PlainMessage]:
        """The newest messages, oldest first; none if nothing was said yet."""
        try:
            window = await self.runtime.history(
                self.participant.thread, last=last, user=self.participant.user
            )
        except NotFound:
            return []
        return plain_messages(item for item in window if item.visibility == "all")

    async def threads(self, limit: int) -> list[ThreadSummary]:
        """The threads of the participant, newest first: those of the user, or those without one."""
        summaries: list[ThreadSummary] = []
        after: str | None = None
        while len(summaries) < limit and not self.participant.is_guest:
            page = await self.runtime.threads(user=self.participant.user, limit=THREADS_PER_PAGE, after=after)
            summaries += [thread for thread in page.threads if thread.owner == self.participant.user]
            after = page.next
            if after is None:
                break
        return summaries[:limit]

    async def memory_entries(self) -> list[MemoryEntry]:
        """The entries of the memory, newest first of each kind; none for a guest."""
        if self.participant.is_guest:
            return []
        rules = (await self.memory.profile()).rules
        facts, arcs = (
            await self.memory.page("facts", limit=MOST_ENTRIES),
            await self.memory.page("arcs", limit=MOST_ENTRIES),
        )
        return [*rules, *facts.facts, *arcs.arcs]

    async def move_to(self, thread: str) -> None:
        """Go on with another thread.

        Raises:
            InvalidArgument: It is another user's.
            InvalidId: No conversation can have that id.
        """
        participant = self.participant.with_thread(thread)
        await check_owner(self.db, participant)
        self.participant = participant


async def check_owner(db: Database, participant: Participant) -> None:
    """Refuse a thread that is another user's.

    Raises:
        InvalidArgument: It is.
    """
    try:
        head = await db.thread(participant.thread).head()
    except NotFound:
        return
    if head.owner != participant.user:
        reason = (
            "has no user: leave out --user-id" if head.owner is None else "is another user's: say --user-id"
        )
        raise InvalidArgument(problem=f"Thread {participant.thread!r} {reason}, or choose another thread.")


@asynccontextmanager
async def open_chat(
    url: str,
    tenant: str,
    participant: Participant,
    agent: Agent,
    options: AgentOptions,
    new_id: Callable[[], str],
    *,
    shows_context: bool = False,
) -> AsyncIterator[Chat]:
    """Open a chat on the database at a URL; that of a guest on none, so that nothing of it is ever on disk.

    Raises:
        InvalidArgument: The thread is another user's, or an option names nothing.
        MissingExtra: What an option names is not installed.
    """
    last_states: dict[str, object] = {}
    config = RuntimeConfig(on_turn_end=last_states.__setitem__)
    store_url = IN_MEMORY_URL if participant.is_guest else url
    store = await open_store(store_url)
    try:
        db = Database(store, Scope(tenant=tenant))
        await check_owner(db, participant)
        async with (
            open_settings(agent, options, os.environ, config=config) as settings,
            agent.open_runtime(db, settings) as runtime,
        ):
            yield Chat(
                agent=agent,
                settings=settings,
                runtime=runtime,
                db=db,
                participant=participant,
                model=model_label(agent, settings.model, options.model) or OWN_MODEL,
                notices=agent.notices_for(settings.model),
                store="in memory" if participant.is_guest else without_password(store_url),
                new_id=new_id,
                warm_up=asyncio.ensure_future(asyncio.to_thread(agent.warm_up or _skip_warm_up)),
                last_states=last_states,
                shows_context=shows_context,
            )
    finally:
        await store.close()


def _skip_warm_up() -> None:
    """Do nothing, for an agent that has nothing to read before its first turn."""
