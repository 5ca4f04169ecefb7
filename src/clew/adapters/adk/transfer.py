"""Sessions of ADK's own databases, as histories to import.

The tables of ``DatabaseSessionService`` and of ``SqliteSessionService`` are read, with events in the JSON
form that they are stored in. The tables of ADK 1.21 and before hold pickled objects, and are refused.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from clew.adapters.adk.events import item_of_body
from clew.adapters.adk.scopes import (
    ADK_KEY,
    SESSION_PREFIX,
    persistent_state,
    state_by_scope,
    state_patches,
    thread_id_of,
)
from clew.adapters.source import Row, SourceDatabase, milliseconds
from clew.core import patch
from clew.core.encoding import JSON, is_same
from clew.core.errors import Forbidden, InvalidArgument, SourceUnreadable
from clew.core.values import Changeset
from clew.database.database import Database
from clew.database.transfer import ThreadHistory, ThreadTransfer, TransferOptions, transfer_thread

COUNT: Final = """
SELECT count(*) FROM sessions UNION ALL SELECT count(*) FROM app_states WHERE state <> '{}'
UNION ALL SELECT count(*) FROM user_states WHERE state <> '{}'
"""
APP_STATES: Final = "SELECT app_name, state, update_time FROM app_states ORDER BY app_name"
USER_STATES: Final = (
    "SELECT app_name, user_id, state, update_time FROM user_states ORDER BY app_name, user_id"
)
SESSIONS: Final = """
SELECT app_name, user_id, id, state, create_time, update_time FROM sessions ORDER BY app_name, user_id, id
"""
# Of events with one time, rows are in the order of their appends; on PostgreSQL ids decide, as for ADK.
EVENTS_SQLITE: Final = """
SELECT app_name, user_id, session_id, id, invocation_id, timestamp, event_data FROM events
ORDER BY app_name, user_id, session_id, timestamp, rowid
"""
EVENTS_POSTGRES: Final = """
SELECT app_name, user_id, session_id, id, invocation_id, timestamp, event_data FROM events
ORDER BY app_name, user_id, session_id, timestamp, id
"""


async def count_threads(source: SourceDatabase) -> int:
    """The number of threads that sessions, users and apps become."""
    return sum([number async for (number,) in source.rows(COUNT)])


async def transfer_threads(
    source: SourceDatabase, db: Database, options: TransferOptions
) -> AsyncIterator[ThreadTransfer]:
    """Take in the state of apps and users, and every session, as ``SessionService`` would have written them.

    Raises:
        SourceUnreadable: The tables are older than ADK 1.22, and hold pickled objects.
        InvalidArgument: A prefix or an owner is given; ADK's own names say both.
        Forbidden: The database is used for one user.
    """
    await _check_transfer(source, db, options)
    async for history in _read_histories(source):
        yield await transfer_thread(db, history, options)


async def _check_transfer(source: SourceDatabase, db: Database, options: TransferOptions) -> None:
    if "event_data" not in (await source.columns())["events"]:
        raise SourceUnreadable(
            source="A database of ADK 1.21 or older",
            problem="it holds pickled objects; migrate a copy with ADK's command `adk migrate session` first",
        )
    if options.prefix or options.owner is not None:
        raise InvalidArgument(
            problem="A session of ADK names its app and its user. Leave out the prefix and the owner."
        )
    if db.user is not None:
        raise Forbidden(
            problem="A database of ADK holds state that all users share. Import it without a user."
        )


async def _read_histories(source: SourceDatabase) -> AsyncIterator[ThreadHistory]:
    """The threads of all apps, users and sessions; those of apps and users only if they have state."""
    async for app, data, time in source.rows(APP_STATES):
        if state := _json_object(data):
            yield _shared_history(thread_id_of(app), None, state, time)
    async for app, user, data, time in source.rows(USER_STATES):
        if state := _json_object(data):
            yield _shared_history(thread_id_of(app, user), user, state, time)
    async for session, events in _events_by_session(source):
        yield _session_history(session, events)


async def _events_by_session(source: SourceDatabase) -> AsyncIterator[tuple[Row, list[Row]]]:
    """Each session with its events: two tables, read side by side in the same order."""
    events = source.rows(EVENTS_POSTGRES if source.is_postgres else EVENTS_SQLITE)
    event = await anext(events, None)
    async for session in source.rows(SESSIONS):
        own: list[Row] = []
        while event is not None and event[:3] == session[:3]:
            own.append(event[3:])
            event = await anext(events, None)
        yield session, own


def _shared_history(thread: str, owner: str | None, state: Mapping[str, JSON], time: object) -> ThreadHistory:
    """The thread of an app's or a user's state."""
    change = Changeset(patches=state_patches(state), reason="State", time=milliseconds(time) or 0)
    return ThreadHistory(thread=thread, owner=owner, changesets=(change,))


def _session_history(session: Row, events: Sequence[Row]) -> ThreadHistory:
    """The thread of a session: its start, its events, and its state if they do not lead to it."""
    app, user, id, data, created, updated = session
    thread = thread_id_of(app, user, id.strip())  # some of ADK's services keep the space around an id
    if not id.strip():
        return ThreadHistory(
            thread=thread, owner=user, changesets=(), left_out=("a session with a blank id",)
        )
    state, replayed = _json_object(data), dict[str, JSON]()
    changes: list[Changeset] = []
    left_out: list[str] = []
    for event in events:
        body = _event_body(event)
        if body is None:
            left_out.append(f"event {event[0]!r}: it is not JSON")
            continue
        delta = _session_delta(body)
        replayed |= delta
        changes.append(_event_change(body, delta, event))
    start = {key: value for key, value in state.items() if key not in replayed}
    changes.insert(0, _state_change("CreateSession", start, created))
    if not is_same(start | replayed, dict(state)):
        changes.append(_state_change("State", state, updated))
    return ThreadHistory(thread=thread, owner=user, changesets=tuple(changes), left_out=tuple(left_out))


def _state_change(reason: str, state: Mapping[str, JSON], time: object) -> Changeset:
    return Changeset(
        patches=(patch.set([ADK_KEY], dict(state)),), reason=reason, time=milliseconds(time) or 0
    )


def _event_change(body: dict[str, JSON], delta: Mapping[str, JSON], event: Row) -> Changeset:
    """The changeset of an event, as the session service commits it."""
    return Changeset(
        items=(item_of_body(body),),
        patches=state_patches(delta),
        reason="Event",
        run_id=body["invocation_id"] or None,
        author=body.get("author") or None,
        key=body["id"],
        time=milliseconds(body["timestamp"]) or 0,
    )


def _event_body(event: Row) -> dict[str, JSON] | None:
    """An event in its JSON form, with what ADK keeps in columns beside it; None if it cannot be read."""
    id, invocation, timestamp, data = event
    body = _json_object(data)
    if not body:
        return None
    time = milliseconds(timestamp)
    body |= {"id": id, "invocation_id": invocation or ""}
    body.setdefault("timestamp", (time or 0) / 1000)
    return body


def _session_delta(body: dict[str, JSON]) -> dict[str, JSON]:
    """The state of the session that an event changes; the body keeps no temporary state."""
    actions = body.get("actions")
    delta = actions.get("state_delta") if isinstance(actions, dict) else None
    if not isinstance(actions, dict) or not isinstance(delta, dict):
        return {}
    delta = persistent_state(delta)
    body["actions"] = {**actions, "state_delta": delta}
    return state_by_scope(delta)[SESSION_PREFIX]


def _json_object(data: object) -> dict[str, JSON]:
    """A JSON object from its text, or as PostgreSQL's driver gives it; empty if it is none."""
    if isinstance(data, str | bytes):
        try:
            data = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeError):
            return {}
    return dict(data) if isinstance(data, dict) else {}
