"""Sessions over HTTP: threads as their users know them, with their episodes."""

from collections.abc import Sequence
from itertools import groupby

import msgspec
from litestar import Response
from litestar.params import FromPath, FromQuery, JSONBody

from clew.api.sessions import (
    DELETE_SESSION,
    END_SESSION,
    GET_EPISODE,
    GET_SESSION,
    LIST_EPISODES,
    LIST_SESSIONS,
    LIST_TURNS,
    SESSION_STATUS,
    SESSIONS_STATE,
    ActiveSessions,
    EpisodeDetail,
    EpisodePage,
    EpisodeStatusView,
    NewSessionEnd,
    SessionPage,
    SessionStatusView,
    SessionTurn,
    SessionView,
    TurnPage,
    UnfinishedEpisodeView,
)
from clew.core.encoding import as_json
from clew.core.errors import ThreadNotFound
from clew.core.values import Head, Item, RecordQuery, ThreadSummary
from clew.runtime.memory.learn.finalizer import read_episode_memory
from clew.runtime.memory.memory import memory_of
from clew.runtime.memory.recall.render import sentence_of
from clew.runtime.model.messages import CALL, message_of
from clew.runtime.records.episodes import (
    ACTIVE_EPISODE,
    EPISODE,
    Episode,
    active_episode,
    episode_of,
    read_episode,
)
from clew.server.http.callers import Caller, CurrentCaller, ThreadId
from clew.server.http.cursors import record_position
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, IfMatch, Limit, SearchQuery, etag, parse_if_match
from clew.server.http.paths import decode_path_part
from clew.server.http.views import approval_view, episode_status_view, episode_view
from clew.server.tenants.thread_list import find_threads

ARCHIVE_MEDIA_TYPE = "application/x-ndjson"
MOST_ACTIVE = 200
ITEMS_PER_TURN = 20
"""As many items are read for each turn that a page has room for."""


@endpoint(SESSIONS_STATE)
async def sessions_state(caller: CurrentCaller) -> ActiveSessions:
    """List the sessions that are active now, whichever process serves them."""
    query = RecordQuery(kind=ACTIVE_EPISODE, newest=True, limit=MOST_ACTIVE)
    episodes = [episode_of(record) for record in await caller.db.records.find(query)]
    sessions = [await _active_session(caller, episode) for episode in episodes]
    return ActiveSessions(
        tenant=caller.identity.tenant,
        user=caller.identity.user,
        workspace=caller.identity.workspace,
        active=[session for session in sessions if session is not None],
    )


@endpoint(LIST_SESSIONS)
async def list_sessions(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    search: SearchQuery = None,
) -> SessionPage:
    """List sessions, the newest first; with a search, those that match it."""
    pages = caller.pages(cursor, str, "sessions", search)
    page = await find_threads(caller.db, pages.start, limit, search)
    sessions = [_session_view_of(each, await active_episode(caller.db, each.id)) for each in page.threads]
    return SessionPage(sessions=sessions, next=pages.cursor(page.next))


@endpoint(LIST_EPISODES)
async def list_episodes(
    caller: CurrentCaller,
    over: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    limit: Limit = 50,
    cursor: Cursor = None,
) -> EpisodePage:
    """List episodes that are active or, with ``over``, ending or ended; the last touched first."""
    kind = EPISODE if over else ACTIVE_EPISODE
    pages = caller.pages(cursor, tuple[int, str], kind)
    query = RecordQuery(kind=kind, newest=True, limit=limit + 1, after=pages.start)
    records, next = pages.cut(await caller.db.records.find(query), limit, record_position)
    return EpisodePage(episodes=[episode_view(episode_of(record)) for record in records], next=next)


@endpoint(GET_EPISODE)
async def get_episode(episode_id: FromPath[str], caller: CurrentCaller) -> EpisodeDetail:
    """Return an episode that is ending or ended, and what it left behind that is still known."""
    record = await read_episode(caller.db, decode_path_part(episode_id))
    memory = memory_of(caller.database_for(record.user), record.thread, record.user)
    memories = await read_episode_memory(memory, record)
    facts = [as_json(fact) | {"says": sentence_of(fact)} for fact in memories.facts]
    fields = as_json(episode_view(record)) | as_json({"facts": facts, "rules": memories.rules})
    if memories.arc is not None:
        fields |= as_json({name: getattr(memories.arc, name) for name in ("summary", "themes", "open_loops")})
    return msgspec.convert(fields, EpisodeDetail)


@endpoint(GET_SESSION)
async def get_session(thread_id: ThreadId, caller: CurrentCaller) -> Response[SessionView]:
    """Return a session."""
    view = await _session_view(caller, thread_id, await active_episode(caller.db, thread_id))
    return Response(view, headers=etag(view.version))


@endpoint(DELETE_SESSION)
async def delete_session(thread_id: ThreadId, caller: CurrentCaller, if_match: IfMatch = None) -> None:
    """Delete a session: its thread is gone, and the episode that it was in is over."""
    await caller.db.thread(thread_id).delete(expect=parse_if_match(if_match))
    await caller.db.records.drop(ACTIVE_EPISODE, thread_id)


@endpoint(LIST_TURNS)
async def list_turns(
    thread_id: ThreadId, caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None
) -> TurnPage:
    """List the messages of a session turn by turn, oldest first; the cursor leads to older ones."""
    pages = caller.pages(cursor, int, "turns", thread_id)
    item_limit = limit * ITEMS_PER_TURN
    window = await (await caller.readable_thread(thread_id)).items(last=item_limit + 1, before=pages.start)
    groups = _items_by_turn(window.items)
    if len(window) > item_limit and len(groups) > 1:
        groups = groups[1:]  # the first of them may begin before the window
    page = groups[-limit:]
    has_more = bool(page) and (len(window) > item_limit or len(groups) > limit)
    next = pages.cursor(page[0][0].place if has_more else None)
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


@endpoint(END_SESSION)
async def end_session(
    thread_id: ThreadId, data: JSONBody[NewSessionEnd], caller: CurrentCaller
) -> EpisodeStatusView:
    """End the episode that a session is in. The thread stays, and its next turn begins a new one."""
    async with caller.thread_access(thread_id) as access:
        await access.check_exists(thread_id)
        last_episode = await access.runtime.end_session(thread_id, feedback=data.feedback, user=access.user)
    return episode_status_view(thread_id, last_episode)


@endpoint(SESSION_STATUS)
async def session_status(thread_id: ThreadId, caller: CurrentCaller) -> SessionStatusView:
    """Return the status of a session, and what can be done next; an incognito one has a status too."""
    async with caller.thread_access(thread_id) as access:
        await access.check_exists(thread_id)
        status = await access.runtime.session_status(thread_id, user=access.user)
    return SessionStatusView(
        session=thread_id,
        status=status.status,
        advice=status.advice,
        run=status.run,
        waiting=[approval_view(each) for each in status.waiting],
        episode=status.episode.id if status.episode is not None else None,
        feedback=status.feedback,
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
]
