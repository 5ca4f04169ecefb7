"""Calls over HTTP: what was spoken is recorded turn by turn, and ended by the same path as text."""

from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.params import JSONBody

from holdfast.client.bodies import Assessed, NewSign, NewVoiceTurn
from holdfast.client.sessions import EndView
from holdfast.client.values import TurnView
from holdfast.core.encoding import check_id
from holdfast.runtime.crises import Assessment
from holdfast.runtime.episodes import Episode
from holdfast.runtime.voice import VoiceCall
from holdfast.server.callers import Calling, Home, ThreadId
from holdfast.server.repeating import KEY, OWN
from holdfast.server.routes.turns import mode_of
from holdfast.server.wire import turn_view


@post("/sessions/{id:str}/voice", operation_id="record_voice_turn", status_code=200, opt={OWN: True})
async def record_voice_turn(
    thread_id: ThreadId, data: JSONBody[NewVoiceTurn], caller: Calling, request: Request[Any, Any, Any]
) -> Response[TurnView]:
    """Keep a turn of a call once it was spoken: what was said, which tools were called, what was replied.

    No model is asked. Its key commits with it, so it can be sent again after anything.
    """
    key = request.headers.get(KEY)
    if key is not None:
        check_id(key, "idempotency key")
    mode = mode_of(data.mode)
    async with caller.home(thread_id, mode=mode, user=data.user, someone=True) as home:
        done = await home.runtime.record_voice_turn(
            thread_id,
            said=data.said,
            replied=data.replied,
            tool_calls=[VoiceCall(**msgspec.structs.asdict(call)) for call in data.tool_calls],
            crisis=_assessment(data.crisis),
            user=home.user,
            key=key,
            mode=home.mode,
        )
    return Response(turn_view(done), headers={"ETag": f'"{done.version}"'})


def _assessment(said: Assessed | None) -> Assessment | None:
    return None if said is None else Assessment(**msgspec.structs.asdict(said))


@post("/sessions/{id:str}/voice/alive", operation_id="voice_alive", status_code=200)
async def voice_alive(thread_id: ThreadId, data: JSONBody[NewSign], caller: Calling) -> EndView:
    """Say that a call goes on. If nobody says so again in time, its client is taken for lost."""
    async with caller.home(thread_id) as home:
        await check_there(home, thread_id)
        episode = await home.runtime.voice_alive(thread_id, seconds=data.seconds, user=home.user)
    return episode_state(thread_id, episode)


@post("/sessions/{id:str}/voice/lost", operation_id="voice_lost", status_code=200)
async def voice_lost(thread_id: ThreadId, caller: Calling) -> EndView:
    """End the episode of a call whose client is gone."""
    async with caller.home(thread_id) as home:
        await check_there(home, thread_id)
        episode = await home.runtime.voice_lost(thread_id, user=home.user)
    return episode_state(thread_id, episode)


async def check_there(home: Home, thread: str) -> None:
    """Refuse a thread that is not there, or is somebody else's.

    Raises:
        ThreadNotFound: It is not.
    """
    if not home.is_incognito:
        await home.db.thread(thread).head()


def episode_state(thread: str, episode: Episode | None) -> EndView:
    """How an episode stands; ``none`` if there is none."""
    if episode is None:
        return EndView(session=thread)
    return EndView(session=thread, episode=episode.id, status=episode.status)


VOICE = [record_voice_turn, voice_alive, voice_lost]
