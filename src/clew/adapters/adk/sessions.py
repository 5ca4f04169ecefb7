"""The session service: every event one changeset, together with the state that it changes."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from clew.adapters.adk.events import item_of, read_events, read_update_time
from clew.adapters.adk.scopes import (
    ADK_KEY,
    SESSION_PREFIX,
    json_state,
    names_of_session,
    shared_writes,
    state_by_scope,
    state_in,
    state_patches,
    thread_id_of,
    with_prefixes,
)
from clew.core import patch
from clew.core.arguments import check_methods
from clew.core.errors import InvalidArgument, ThreadExists, ThreadNotFound, VersionConflict
from clew.core.values import Absent, AppendTo, Changeset, Committed, Exact, Head
from clew.database.database import Database

CONCURRENT_READS = 16
LARGEST_PAGE = 1000


class ListSessionsPage(ListSessionsResponse):
    """Some sessions, the newest first, and the cursor of the next page if there is one."""

    next: str | None = None


@check_methods
class SessionService(BaseSessionService):
    """Sessions, events and state of ADK in a Clew database, which stays open when this is done.

    The database is one tenant's: ``app:`` state is shared by all of its users, so a database scoped to one
    user will not do.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        # Tasks that share one session object append one after another; others are distinguished by version.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session, with the state it begins with. Without an id, or with a blank one, it gets one.

        Raises:
            AlreadyExistsError: There is a session of that id.
            InvalidArgument: The name of the app or of the user is blank.
        """
        if not app_name.strip() or not user_id.strip():
            raise InvalidArgument(problem="A session needs the name of its app and of its user.")
        id = _trim_id(session_id) or str(uuid4())
        deltas = state_by_scope(json_state(state or {}))
        shared_state = await self._shared_state(app_name, user_id)
        change = Changeset(patches=(patch.set([ADK_KEY], deltas[SESSION_PREFIX]),), reason="CreateSession")
        write = AppendTo(
            thread=thread_id_of(app_name, user_id, id), change=change, expect=Absent(owner=user_id)
        )
        try:
            commit = await self._commit(write, shared_writes(app_name, user_id, deltas))
        except ThreadExists as error:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from error
        return _mark_session(
            Session(
                app_name=app_name,
                user_id=user_id,
                id=id,
                state={
                    **deltas[SESSION_PREFIX],
                    **shared_state,
                    **with_prefixes(deltas["app:"], deltas["user:"]),
                },
                last_update_time=commit.time / 1000,
            ),
            commit,
        )

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with its events, or those of a window; None if there is none."""
        id = _trim_id(session_id)
        thread = self._db.thread(thread_id_of(app_name, user_id, id))
        try:
            head = await thread.head()
        except ThreadNotFound:
            return None
        state_in(head)
        shared_state, events = await asyncio.gather(
            self._shared_state(app_name, user_id), read_events(thread, head.version, config)
        )
        updated = events[-1].timestamp if events else await read_update_time(thread, head)
        return _build_session((app_name, user_id, id), head, shared_state, events, updated)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Every session of an app, or of one of its users, without events; the one used last is the last."""
        sessions: list[Session] = []
        after: str | None = None
        while True:
            page = await self.page_sessions(
                app_name=app_name, user_id=user_id, limit=LARGEST_PAGE, after=after
            )
            sessions += page.sessions
            after = page.next
            if after is None:
                break
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def page_sessions(
        self, *, app_name: str, user_id: str | None = None, limit: int = 50, after: str | None = None
    ) -> ListSessionsPage:
        """At most so many sessions, the newest first; ``after`` is what the page before ended with.

        A page may hold fewer than asked for; only the last has no ``next``.
        """
        if limit < 1:
            raise InvalidArgument(problem="A page holds at least one session.")
        while True:
            page = await self._db.threads(owner=user_id, limit=limit, after=after)
            session_names = (names_of_session(thread.id) for thread in page.threads)
            mine = [
                each for each in session_names if each and each[0] == app_name and user_id in (None, each[1])
            ]
            after = page.next
            if mine or after is None:
                return ListSessionsPage(sessions=await self._sessions_without_events(mine), next=after)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session and its events. The state of its app and its user stays."""
        thread = self._db.thread(thread_id_of(app_name, user_id, _trim_id(session_id)))
        try:
            state_in(await thread.head())
            await thread.delete()
        except ThreadNotFound:
            return

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user of an app, by keys without ``user:``."""
        return await self._state_of(thread_id_of(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event with the state it changes, all or nothing, and bring the session up to date.

        An event that is stored already is not stored again.

        Raises:
            StaleSessionError: Another writer has appended since the session was read. Nothing was changed.
            SessionNotFoundError: The session was deleted, or never was.
            InvalidValue: The event or its state cannot be stored as JSON. Nothing was changed.
        """
        if event.partial:
            return event
        thread = thread_id_of(session.app_name, session.user_id, session.id)
        lock = self._locks.setdefault(thread, asyncio.Lock())
        async with lock:
            try:
                expect = await self._expected_version(session, thread)
                commit = await self._store_event(session, thread, event, expect)
            except VersionConflict as conflict:
                raise StaleSessionError(
                    f"Session {session.id} was changed by another writer since it was read at version "
                    f"{conflict.expected}; it is at {conflict.actual} now. Get it again before you append."
                ) from conflict
            except ThreadNotFound as missing:
                raise SessionNotFoundError(f"Session {session.id} not found.") from missing
            if commit.repeated and commit.version != expect.version + 1:
                return event
            session.last_update_time = event.timestamp
            _mark_session(session, commit)
            return await super().append_event(session, event)

    async def _store_event(self, session: Session, thread: str, event: Event, expect: Exact) -> Committed:
        """Commit an event and what it changes, and return the version of the session's thread."""
        deltas = state_by_scope(json_state(event.actions.state_delta))
        change = Changeset(
            items=(item_of(event),),
            patches=state_patches(deltas[SESSION_PREFIX]),
            reason="Event",
            run_id=event.invocation_id or None,
            author=event.author or None,
            key=event.id,
        )
        # Two sessions may hold an event of one id, so the threads they share take it under both names.
        key = sha256(f"{thread}\n{event.id}".encode()).hexdigest()
        state_writes = shared_writes(session.app_name, session.user_id, deltas, key)
        return await self._commit(AppendTo(thread=thread, change=change, expect=expect), state_writes)

    async def _commit(
        self, write: AppendTo, state_writes: Sequence[tuple[AppendTo, str | None]]
    ) -> Committed:
        """Commit to a session and to the state beside it; what holds that state is made if absent."""
        owners = {each.thread: owner for each, owner in state_writes}
        while True:
            try:
                result = (await self._db.commit([write, *(each for each, _ in state_writes)]))[0]
            except ThreadNotFound as missing:
                if missing.thread not in owners:
                    raise
                await self._db.create(missing.thread, owner=owners[missing.thread], exist_ok=True)
                continue
            assert isinstance(result, Committed)
            return result

    async def _expected_version(self, session: Session, thread: str) -> Exact:
        """The version at which a session was read; one made elsewhere must know the last event."""
        version, _, hash = (session._storage_update_marker or "").partition(" ")  # noqa: SLF001 - see _marked
        if version.isdecimal() and hash:
            return Exact(int(version), bytes.fromhex(hash))
        head = await self._db.thread(thread).head()
        state_in(head)
        tail = await self._db.thread(thread).items(last=1, at=head.version)
        last_id = session.events[-1].id if session.events else None
        if last_id != (tail[0].id if tail else None):
            raise StaleSessionError(
                f"Session {session.id} does not end with the newest event. Get it again before you append."
            )
        return Exact(head.version, head.hash)

    async def _shared_state(self, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of an app and of its user, by keys with their prefixes."""
        app, user = await asyncio.gather(
            self._state_of(thread_id_of(app_name)), self._state_of(thread_id_of(app_name, user_id))
        )
        return with_prefixes(app, user)

    async def _state_of(self, id: str) -> dict[str, Any]:
        head = await self._head_of(id)
        return state_in(head) if head is not None and head.version else {}

    async def _head_of(self, id: str) -> Head | None:
        try:
            return await self._db.thread(id).head()
        except ThreadNotFound:
            return None

    async def _sessions_without_events(self, session_names: Sequence[tuple[str, str, str]]) -> list[Session]:
        """Sessions by their names; those deleted meanwhile are left out."""
        heads: list[tuple[Head, float] | None] = []
        for start in range(0, len(session_names), CONCURRENT_READS):
            ids = [thread_id_of(*names) for names in session_names[start : start + CONCURRENT_READS]]
            heads += await asyncio.gather(*map(self._head_and_time_of, ids))
        users = dict.fromkeys((app, user) for app, user, _ in session_names)
        state_by_user = {each: await self._shared_state(*each) for each in users}
        return [
            _build_session(names, pair[0], state_by_user[names[:2]], [], pair[1])
            for names, pair in zip(session_names, heads, strict=True)
            if pair is not None
        ]

    async def _head_and_time_of(self, id: str) -> tuple[Head, float] | None:
        """A session's head and when it was last updated; None if it is not there."""
        head = await self._head_of(id)
        try:
            return None if head is None else (head, await read_update_time(self._db.thread(id), head))
        except ThreadNotFound:
            return None


def _trim_id(session_id: str | None) -> str:
    """The id of a session without the space around it, as ADK's own services take it."""
    return (session_id or "").strip()


def _build_session(
    names: tuple[str, str, str],
    head: Head,
    shared_state: dict[str, Any],
    events: list[Event],
    updated: float,
) -> Session:
    app_name, user_id, id = names
    session = Session(
        app_name=app_name,
        user_id=user_id,
        id=id,
        state={**state_in(head), **shared_state},
        events=events,
        last_update_time=updated,
    )
    return _mark_session(session, head)


def _mark_session(session: Session, position: Head | Committed) -> Session:
    """The session, with the version of the thread that it was read from, in ADK's own field for it."""
    marker = f"{position.version} {position.hash.hex()}"
    session._storage_update_marker = marker  # noqa: SLF001 - copies of a session keep it, and nothing else
    return session
