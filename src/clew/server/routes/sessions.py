"""Sessions over HTTP: a thread as its user knows it, with the episode that it is in."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Stream

from clew.api.messages import EpisodeLeft, EpisodePage
from clew.api.requests import (
    NewEnd,
)
from clew.api.sessions import (
    EndView,
    ImportView,
    SessionPage,
    SessionState,
    SessionTurn,
    SessionView,
    StatusView,
    TurnPage,
    UnfinishedView,
)
from clew.companion.memory.control import sentence_of
from clew.core.encoding import plain
from clew.core.errors import InvalidArgument, ThreadNotFound
from clew.core.values import Head, Item, RecordQuery, Summary
from clew.database.archive import export_threads, import_threads
from clew.runtime.memory.learn.finalizer import kept_of
from clew.runtime.memory.memory import memory_of
from clew.runtime.model.messages import CALL, message_of
from clew.runtime.person_export import LEFT_OUT, export_person
from clew.runtime.records.episodes import ACTIVE_ROW, ROW, Episode, active_episode, episode, episode_of
from clew.server.http.callers import OWN, Caller, Calling, ThreadId, named
from clew.server.http.openapi import ALSO, TAKES, VERSIONED
from clew.server.http.views import episode_view, waiting_view
from clew.server.routes import manifests, threads
from clew.server.routes.memory import User
from clew.server.routes.threads import Cursor, IfMatch, Limit, Search, expected
from clew.server.routes.voice import check_there, episode_state

ARCHIVE = "application/x-ndjson"
ACTIVE_AT_MOST = 200
ITEMS_OF_A_TURN = 20
"""As many items are read for each turn that a page has room for."""


@get("/sessions/state", operation_id="sessions_state")
async def sessions_state(caller: Calling) -> SessionState:
    """The sessions that are active now, whichever process serves them."""
    query = RecordQuery(kind=ACTIVE_ROW, newest=True, limit=ACTIVE_AT_MOST)
    episodes = [episode_of(record) for record in await caller.db.records.find(query)]
    found = [await _active(caller, episode) for episode in episodes]
    return SessionState(
        tenant=caller.identity.tenant,
        user=caller.identity.user,
        workspace=caller.identity.workspace,
        active=[session for session in found if session is not None],
    )


@get("/sessions", operation_id="list_sessions")
async def list_sessions(
    caller: Calling,
    limit: Limit = 50,
    cursor: Cursor = None,
    search: Search = None,
) -> SessionPage:
    """Sessions, the newest first; with words to search for, those that bear them."""
    list_of = f"sessions\0{search or ''}"
    after = caller.position(cursor, str, list_of)
    page = await threads.threads(caller.db, after, limit, search)
    found = [_listed(each, await active_episode(caller.db, each.id)) for each in page.threads]
    next = caller.cursor(page.next, list_of) if page.next is not None else None
    return SessionPage(sessions=found, next=next)


@get("/episodes", operation_id="list_episodes")
async def list_episodes(
    caller: Calling,
    over: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    limit: Limit = 50,
    cursor: Cursor = None,
) -> EpisodePage:
    """Episodes that are active or, with ``over``, those that are ending or ended; the last touched first."""
    kind = ROW if over else ACTIVE_ROW
    after = caller.position(cursor, tuple[int, str], kind)
    query = RecordQuery(kind=kind, newest=True, limit=limit + 1, after=after)
    records = await caller.db.records.find(query)
    shown = records[:limit]
    return EpisodePage(
        episodes=[episode_view(episode_of(record)) for record in shown],
        next=caller.cursor([shown[-1].sort, shown[-1].id], kind) if len(records) > limit else None,
    )


@get("/episodes/{episode_id:str}", operation_id="get_episode")
async def get_episode(episode_id: FromPath[str], caller: Calling) -> EpisodeLeft:
    """An episode that is ending or ended, and what it left behind that is still known."""
    found = await episode(caller.db, named(episode_id))
    db = caller.db if found.user is None else caller.scoped(found.user)
    kept = await kept_of(memory_of(db, found.thread, found.user), found)
    facts = [plain(fact) | {"says": sentence_of(fact)} for fact in kept.facts]
    told = plain(episode_view(found)) | plain({"facts": facts, "rules": kept.rules})
    if kept.arc is not None:
        told |= plain({name: getattr(kept.arc, name) for name in ("summary", "themes", "open_loops")})
    return msgspec.convert(told, EpisodeLeft)


@get("/sessions/{id:str}", operation_id="get_session", opt={VERSIONED: True})
async def get_session(thread_id: ThreadId, caller: Calling) -> Response[SessionView]:
    """A session."""
    view = await _session(caller, thread_id, await active_episode(caller.db, thread_id))
    return Response(view, headers={"ETag": f'"{view.version}"'})


@delete("/sessions/{id:str}", operation_id="delete_session", status_code=204)
async def delete_session(thread_id: ThreadId, caller: Calling, if_match: IfMatch = None) -> None:
    """Delete a session: its thread is gone, and the episode that it was in is over."""
    await caller.db.thread(thread_id).delete(expect=expected(if_match))
    await caller.db.records.drop(ACTIVE_ROW, thread_id)


@get("/sessions/{id:str}/turns", operation_id="list_turns")
async def list_turns(
    thread_id: ThreadId, caller: Calling, limit: Limit = 50, cursor: Cursor = None
) -> TurnPage:
    """What was said and answered, turn by turn, oldest first; the cursor leads to older ones."""
    list_of = f"turns\0{thread_id}"
    before = caller.position(cursor, int, list_of)
    wanted = limit * ITEMS_OF_A_TURN
    window = await (await caller.reading(thread_id)).items(last=wanted + 1, before=before)
    groups = _turns(window.items)
    if len(window) > wanted and len(groups) > 1:
        groups = groups[1:]  # the first of them may be cut in two
    shown = groups[-limit:]
    more = bool(shown) and (len(window) > wanted or len(groups) > limit)
    next = caller.cursor(shown[0][0].place, list_of) if more else None
    return TurnPage(turns=[_turn(group) for group in shown], next=next)


def _turns(items: Sequence[Item]) -> list[list[Item]]:
    return [list(group) for _, group in groupby(items, key=lambda item: item.run or item.version)]


def _turn(items: Sequence[Item]) -> SessionTurn:
    messages = [message_of(item) for item in items if item.visibility == "all"]
    said = {
        role: "\n".join(each.text for each in messages if each.role == role and each.text)
        for role in ("user", "assistant")
    }
    return SessionTurn(
        run=items[0].run,
        time=items[0].time,
        user_message=said["user"],
        assistant_message=said["assistant"],
        calls=sum(item.kind == CALL for item in items),
    )


@post("/sessions/{id:str}/end", operation_id="end_session", status_code=200)
async def end_session(thread_id: ThreadId, data: JSONBody[NewEnd], caller: Calling) -> EndView:
    """End the episode that a session is in. The thread stays, and its next turn begins a new one."""
    async with caller.home(thread_id) as home:
        await check_there(home, thread_id)
        ended = await home.runtime.end_session(thread_id, feedback=data.feedback, user=home.user)
    return episode_state(thread_id, ended)


@get("/sessions/{id:str}/status", operation_id="session_status")
async def session_status(thread_id: ThreadId, caller: Calling) -> StatusView:
    """Where a session stands, and what can be done next; an incognito one has a status too."""
    async with caller.home(thread_id) as home:
        await check_there(home, thread_id)
        found = await home.runtime.session_status(thread_id, user=home.user)
    return StatusView(
        session=thread_id,
        status=found.status,
        advice=found.advice,
        run=found.run,
        waiting=[waiting_view(each) for each in found.waiting],
        episode=found.episode.id if found.episode is not None else None,
        idle_since=found.idle_since,
        expires_at=found.expires_at,
        unfinished=[
            msgspec.convert({**plain(each), "problem": caller.inside(each.problem)}, UnfinishedView)
            for each in found.unfinished
        ],
        incognito=home.is_incognito,
    )


@post(
    "/sessions/{id:str}/export",
    operation_id="export_session",
    status_code=200,
    media_type=ARCHIVE,
    opt={ALSO: [manifests.DOCUMENT]},
)
async def export_session(
    thread_id: ThreadId, caller: Calling, format: FromQuery[Literal["archive", "manifest"]] = "archive"
) -> Response[Any]:
    """A session as an archive, line by line; an import of it gives the same thread, to the hash.

    With ``format=manifest`` it is one JSON document of what the session holds now, without its past.
    """
    if format == "manifest":
        return await manifests.exported(caller, thread_id)
    db = caller.db
    await db.thread(thread_id).head()
    return Stream(export_threads(db.store, caller.scope, [thread_id]), media_type=ARCHIVE)


@get("/person/export", operation_id="export_person", media_type=ARCHIVE)
async def export_everything(caller: Calling, user: User = None) -> Stream:
    """Everything that a user owns as one archive: sessions, memory, and the records beside them."""
    owner = caller.acting_for(user)
    return Stream(export_person(caller.scoped(owner), owner), media_type=ARCHIVE)


@post("/sessions/import", operation_id="import_session", status_code=201, opt={TAKES: ARCHIVE})
async def import_session(
    caller: Calling,
    request: Request[Any, Any, Any],
    skip_existing: Annotated[bool, QueryParameter(description="Pass over what is there already.")] = False,  # noqa: FBT002 - a query parameter
) -> ImportView:
    """Take in the sessions of an archive, each whole or not at all.

    One that was broken off is in as far as it came: sent again with ``skip_existing`` it goes on from there.
    """
    lines = _lines(await request.body())
    done = await import_threads(
        caller.db.store, caller.scope, lines, files=caller.db.files, skip_existing=skip_existing
    )
    return ImportView(
        sessions=[passed.thread for passed in done.threads],
        skipped=list(done.skipped),
        records=done.records,
        skipped_records=done.total.records - done.records,
    )


async def _lines(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines(keepends=True):
        _check_line(line)
        yield line


class _Said(msgspec.Struct):
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
        said = msgspec.json.decode(line, type=_Said)
        if said.clew == "thread" and said.id.startswith(OWN):
            raise InvalidArgument(problem=f"An archive cannot bring the thread {said.id!r}.")
        if said.clew == "record" and said.kind in LEFT_OUT:
            raise InvalidArgument(problem=f"An archive cannot bring records of the kind {said.kind!r}.")


async def _active(caller: Caller, episode: Episode) -> SessionView | None:
    """A session by the episode that it is in; None if its thread was deleted meanwhile."""
    try:
        return await _session(caller, episode.thread, episode)
    except ThreadNotFound:
        return None


async def _session(caller: Caller, thread: str, episode: Episode | None) -> SessionView:
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


def _listed(summary: Summary, episode: Episode | None) -> SessionView:
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


SESSIONS = [
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
IMPORTS = [import_session]
