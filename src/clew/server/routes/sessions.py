"""Sessions over HTTP: a thread as its user knows it, with the episode that it is in."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Stream

from clew.api.messages import EpisodeDetail, EpisodePage
from clew.api.requests import (
    NewSessionEnd,
)
from clew.api.sessions import (
    ActiveSessions,
    EpisodeStatusView,
    ImportView,
    SessionPage,
    SessionStatusView,
    SessionTurn,
    SessionView,
    TurnPage,
    UnfinishedEpisodeView,
)
from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument, ThreadNotFound
from clew.core.values import Head, Item, RecordQuery, ThreadSummary
from clew.database.archive import export_threads, import_threads
from clew.runtime.memory.learn.finalizer import read_episode_memory
from clew.runtime.memory.memory import memory_of
from clew.runtime.memory.recall.render import sentence_of
from clew.runtime.model.messages import CALL, message_of
from clew.runtime.person_export import EXCLUDED_KINDS, export_person
from clew.runtime.records.episodes import (
    ACTIVE_EPISODE,
    EPISODE,
    Episode,
    active_episode,
    episode_of,
    read_episode,
)
from clew.server.http.callers import OWN_THREADS_PREFIX, Caller, CurrentCaller, ThreadId, decode_path_part
from clew.server.http.openapi import BODY_MEDIA_TYPE, HAS_ETAG, OTHER_MEDIA_TYPES
from clew.server.http.views import approval_view, episode_view
from clew.server.routes import manifests, threads
from clew.server.routes.memory import UserQuery
from clew.server.routes.threads import Cursor, IfMatch, Limit, SearchQuery, parse_if_match
from clew.server.routes.voice import check_exists, episode_status_view

ARCHIVE_MEDIA_TYPE = "application/x-ndjson"
MOST_ACTIVE = 200
ITEMS_PER_TURN = 20
"""As many items are read for each turn that a page has room for."""


@get("/sessions/state", operation_id="sessions_state")
async def sessions_state(caller: CurrentCaller) -> ActiveSessions:
    """The sessions that are active now, whichever process serves them."""
    query = RecordQuery(kind=ACTIVE_EPISODE, newest=True, limit=MOST_ACTIVE)
    episodes = [episode_of(record) for record in await caller.db.records.find(query)]
    sessions = [await _active_session(caller, episode) for episode in episodes]
    return ActiveSessions(
        tenant=caller.identity.tenant,
        user=caller.identity.user,
        workspace=caller.identity.workspace,
        active=[session for session in sessions if session is not None],
    )


@get("/sessions", operation_id="list_sessions")
async def list_sessions(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    search: SearchQuery = None,
) -> SessionPage:
    """Sessions, the newest first; with words to search for, those that bear them."""
    list_name = f"sessions\0{search or ''}"
    after = caller.position(cursor, str, list_name)
    page = await threads.find_threads(caller.db, after, limit, search)
    sessions = [_session_view_of(each, await active_episode(caller.db, each.id)) for each in page.threads]
    next = caller.cursor(page.next, list_name) if page.next is not None else None
    return SessionPage(sessions=sessions, next=next)


@get("/episodes", operation_id="list_episodes")
async def list_episodes(
    caller: CurrentCaller,
    over: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    limit: Limit = 50,
    cursor: Cursor = None,
) -> EpisodePage:
    """Episodes that are active or, with ``over``, those that are ending or ended; the last touched first."""
    kind = EPISODE if over else ACTIVE_EPISODE
    after = caller.position(cursor, tuple[int, str], kind)
    query = RecordQuery(kind=kind, newest=True, limit=limit + 1, after=after)
    records = await caller.db.records.find(query)
    page = records[:limit]
    return EpisodePage(
        episodes=[episode_view(episode_of(record)) for record in page],
        next=caller.cursor([page[-1].sort, page[-1].id], kind) if len(records) > limit else None,
    )


@get("/episodes/{episode_id:str}", operation_id="get_episode")
async def get_episode(episode_id: FromPath[str], caller: CurrentCaller) -> EpisodeDetail:
    """An episode that is ending or ended, and what it left behind that is still known."""
    record = await read_episode(caller.db, decode_path_part(episode_id))
    db = caller.db if record.user is None else caller.database_for(record.user)
    memories = await read_episode_memory(memory_of(db, record.thread, record.user), record)
    facts = [as_json(fact) | {"says": sentence_of(fact)} for fact in memories.facts]
    fields = as_json(episode_view(record)) | as_json({"facts": facts, "rules": memories.rules})
    if memories.arc is not None:
        fields |= as_json({name: getattr(memories.arc, name) for name in ("summary", "themes", "open_loops")})
    return msgspec.convert(fields, EpisodeDetail)


@get("/sessions/{id:str}", operation_id="get_session", opt={HAS_ETAG: True})
async def get_session(thread_id: ThreadId, caller: CurrentCaller) -> Response[SessionView]:
    """A session."""
    view = await _session_view(caller, thread_id, await active_episode(caller.db, thread_id))
    return Response(view, headers={"ETag": f'"{view.version}"'})


@delete("/sessions/{id:str}", operation_id="delete_session", status_code=204)
async def delete_session(thread_id: ThreadId, caller: CurrentCaller, if_match: IfMatch = None) -> None:
    """Delete a session: its thread is gone, and the episode that it was in is over."""
    await caller.db.thread(thread_id).delete(expect=parse_if_match(if_match))
    await caller.db.records.drop(ACTIVE_EPISODE, thread_id)


@get("/sessions/{id:str}/turns", operation_id="list_turns")
async def list_turns(
    thread_id: ThreadId, caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None
) -> TurnPage:
    """What was said and answered, turn by turn, oldest first; the cursor leads to older ones."""
    list_name = f"turns\0{thread_id}"
    before = caller.position(cursor, int, list_name)
    item_limit = limit * ITEMS_PER_TURN
    window = await (await caller.readable_thread(thread_id)).items(last=item_limit + 1, before=before)
    groups = _items_by_turn(window.items)
    if len(window) > item_limit and len(groups) > 1:
        groups = groups[1:]  # the first of them may be cut in two
    page = groups[-limit:]
    has_more = bool(page) and (len(window) > item_limit or len(groups) > limit)
    next = caller.cursor(page[0][0].place, list_name) if has_more else None
    return TurnPage(turns=[_session_turn(group) for group in page], next=next)


def _items_by_turn(items: Sequence[Item]) -> list[list[Item]]:
    return [list(group) for _, group in groupby(items, key=lambda item: item.run or item.version)]


def _session_turn(items: Sequence[Item]) -> SessionTurn:
    messages = [message_of(item) for item in items if item.visibility == "all"]
    texts = {
        role: "\n".join(each.text for each in messages if each.role == role and each.text)
        for role in ("user", "assistant")
    }
    return SessionTurn(
        run=items[0].run,
        time=items[0].time,
        user_message=texts["user"],
        assistant_message=texts["assistant"],
        calls=sum(item.kind == CALL for item in items),
    )


@post("/sessions/{id:str}/end", operation_id="end_session", status_code=200)
async def end_session(
    thread_id: ThreadId, data: JSONBody[NewSessionEnd], caller: CurrentCaller
) -> EpisodeStatusView:
    """End the episode that a session is in. The thread stays, and its next turn begins a new one."""
    async with caller.thread_access(thread_id) as access:
        await check_exists(access, thread_id)
        last_episode = await access.runtime.end_session(thread_id, feedback=data.feedback, user=access.user)
    return episode_status_view(thread_id, last_episode)


@get("/sessions/{id:str}/status", operation_id="session_status")
async def session_status(thread_id: ThreadId, caller: CurrentCaller) -> SessionStatusView:
    """Where a session stands, and what can be done next; an incognito one has a status too."""
    async with caller.thread_access(thread_id) as access:
        await check_exists(access, thread_id)
        status = await access.runtime.session_status(thread_id, user=access.user)
    return SessionStatusView(
        session=thread_id,
        status=status.status,
        advice=status.advice,
        run=status.run,
        waiting=[approval_view(each) for each in status.waiting],
        episode=status.episode.id if status.episode is not None else None,
        idle_since=status.idle_since,
        expires_at=status.expires_at,
        unfinished=[
            msgspec.convert(
                {**as_json(each), "problem": caller.visible_problem(each.problem)}, UnfinishedEpisodeView
            )
            for each in status.unfinished
        ],
        incognito=access.is_incognito,
    )


@post(
    "/sessions/{id:str}/export",
    operation_id="export_session",
    status_code=200,
    media_type=ARCHIVE_MEDIA_TYPE,
    opt={OTHER_MEDIA_TYPES: [manifests.MANIFEST_MEDIA_TYPE]},
)
async def export_session(
    thread_id: ThreadId, caller: CurrentCaller, format: FromQuery[Literal["archive", "manifest"]] = "archive"
) -> Response[Any]:
    """A session as an archive, line by line; an import of it gives the same thread, to the hash.

    With ``format=manifest`` it is one JSON document of what the session holds now, without its past.
    """
    if format == "manifest":
        return await manifests.export_manifest(caller, thread_id)
    db = caller.db
    await db.thread(thread_id).head()
    return Stream(export_threads(db.store, caller.scope, [thread_id]), media_type=ARCHIVE_MEDIA_TYPE)


@get("/person/export", operation_id="export_person", media_type=ARCHIVE_MEDIA_TYPE)
async def export_everything(caller: CurrentCaller, user: UserQuery = None) -> Stream:
    """Everything that a user owns as one archive: sessions, memory, and the records beside them."""
    owner = caller.require_user(user)
    return Stream(export_person(caller.database_for(owner), owner), media_type=ARCHIVE_MEDIA_TYPE)


@post(
    "/sessions/import",
    operation_id="import_session",
    status_code=201,
    opt={BODY_MEDIA_TYPE: ARCHIVE_MEDIA_TYPE},
)
async def import_session(
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    skip_existing: Annotated[bool, QueryParameter(description="Pass over what is there already.")] = False,  # noqa: FBT002 - a query parameter
) -> ImportView:
    """Take in the sessions of an archive, each whole or not at all.

    One that was broken off is in as far as it came: sent again with ``skip_existing`` it goes on from there.
    """
    lines = _lines(await request.body())
    result = await import_threads(
        caller.db.store, caller.scope, lines, files=caller.db.files, skip_existing=skip_existing
    )
    return ImportView(
        sessions=[entry.thread for entry in result.threads],
        skipped=list(result.skipped),
        records=result.records,
        skipped_records=result.total.records - result.records,
    )


async def _lines(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines(keepends=True):
        _check_line(line)
        yield line


class _LineSubject(msgspec.Struct):
    """What a line of an archive is about; the rest of it is for who reads it."""

    clew: str = ""
    id: str = ""
    kind: str = ""


def _check_line(line: bytes) -> None:
    """Refuse what no archive may bring here, not even with a key of a whole tenant.

    These are Clew's own threads, what belongs to operators, and what no export holds. What else a user
    may bring is decided where it is written.

    Raises:
        InvalidArgument: The line would.
    """
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # its reader says so better
        subject = msgspec.json.decode(line, type=_LineSubject)
        if subject.clew == "thread" and subject.id.startswith(OWN_THREADS_PREFIX):
            raise InvalidArgument(problem=f"An archive cannot bring the thread {subject.id!r}.")
        if subject.clew == "record" and subject.kind in EXCLUDED_KINDS:
            raise InvalidArgument(problem=f"An archive cannot bring records of the kind {subject.kind!r}.")


async def _active_session(caller: Caller, episode: Episode) -> SessionView | None:
    """A session by the episode that it is in; None if its thread was deleted meanwhile."""
    try:
        return await _session_view(caller, episode.thread, episode)
    except ThreadNotFound:
        return None


async def _session_view(caller: Caller, thread: str, episode: Episode | None) -> SessionView:
    head: Head = await caller.db.thread(thread).head()
    return SessionView(
        id=thread,
        user=head.owner,
        title=head.title,
        version=head.version,
        created=head.created,
        updated=head.updated,
        status="active" if episode is not None else "idle",
        episode=episode.id if episode is not None else None,
        turns=episode.turns if episode is not None else 0,
        items=head.length(),
    )


def _session_view_of(summary: ThreadSummary, episode: Episode | None) -> SessionView:
    return SessionView(
        id=summary.id,
        user=summary.owner,
        title=summary.title,
        version=summary.version,
        created=summary.created,
        updated=summary.updated,
        status="active" if episode is not None else "idle",
        episode=episode.id if episode is not None else None,
        turns=episode.turns if episode is not None else 0,
        items=summary.items,
    )


SESSION_ROUTES = [
    sessions_state,
    list_sessions,
    list_episodes,
    get_episode,
    get_session,
    delete_session,
    list_turns,
    end_session,
    session_status,
    export_session,
    export_everything,
]
IMPORT_ROUTES = [import_session]
