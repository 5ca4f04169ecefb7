"""Calls over HTTP: begun with a secret of a provider, judged utterance by utterance, recorded turn by turn.

The audio goes between a browser and a realtime provider. What is said comes here to be judged before it is
answered, tools are called here, and what was spoken is kept here and ended by the same path as text.
"""

import secrets
from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.params import JSONBody

from clew.api.requests import Assessed, NewCall, NewSign, NewToolCall, NewUtterance, NewVoiceTurn
from clew.api.sessions import CallView, EndView, HeardView, ToolView
from clew.api.threads import TurnView
from clew.core.encoding import check_id
from clew.core.errors import InvalidArgument
from clew.runtime.crises import Assessment
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.records.episodes import Episode
from clew.runtime.sessions.utterances import Utterance, heard_before
from clew.runtime.sessions.voice import VoiceCall
from clew.runtime.sessions.voice_tools import Called, call_tool
from clew.server.http.callers import Caller, Calling, Home, ThreadId
from clew.server.http.idempotency import KEY, OWN
from clew.server.http.views import turn_view
from clew.server.routes.turns import mode_of
from clew.server.tenants.realtime import KEY_OF_OPENAI, CallPlan

NO_VOICE = (
    "No calls are made here. Name a realtime model with CLEW_SERVER_VOICE_MODEL, and give the server the "
    f"key of its provider in {KEY_OF_OPENAI}."
)


@post("/sessions/{id:str}/voice/session", operation_id="begin_call", status_code=200)
async def begin_call(thread_id: ThreadId, data: JSONBody[NewCall], caller: Calling) -> CallView:
    """A secret with which a browser begins a call, made with what is known of the person and with the tools.

    Nothing is answered until the client asks for it, unless ``gated`` is off. The key stays here.
    """
    realtime, speech = caller.serving.realtime, caller.serving.agent.speech
    if realtime is None:
        raise InvalidArgument(problem=NO_VOICE)
    async with caller.home(thread_id, mode=mode_of(data.mode), user=data.user, someone=True) as home:
        memory = _memory(home, thread_id)
        told, tools = await speech.instructions(memory), speech.tools(memory)
    plan = CallPlan(instructions=told, tools=tuple(tool.spec() for tool in tools), gated=data.gated)
    secret = await realtime.begin(plan)
    return CallView(
        secret=secret.value,
        expires_at=secret.expires_at,
        url=secret.url,
        model=secret.model,
        gated=data.gated,
    )


@post("/sessions/{id:str}/voice/heard", operation_id="hear", status_code=200)
async def hear(thread_id: ThreadId, data: JSONBody[NewUtterance], caller: Calling) -> HeardView:
    """Judge what somebody has just said, before it is answered. What is found is in the crisis log at once.

    If it is not to be released, the words are said instead of an answer.
    """
    mode = mode_of(data.mode)
    async with caller.home(thread_id, mode=mode, user=data.user, someone=True) as home:
        given = Utterance(thread=thread_id, id=data.id, said=data.said, user=home.user, late=data.late)
        found = await home.runtime.hear(given, hearing=caller.serving.agent.speech.hearing, mode=home.mode)
    return HeardView(level=found.level, release=not found.say, say=found.say)


@post("/sessions/{id:str}/voice/tools", operation_id="call_tool", status_code=200)
async def call_a_tool(thread_id: ThreadId, data: JSONBody[NewToolCall], caller: Calling) -> ToolView:
    """Call a tool for a realtime model. The same call again gives what it gave, and does nothing twice."""
    async with caller.home(thread_id, mode=mode_of(data.mode), user=data.user, someone=True) as home:
        tools = caller.serving.agent.speech.tools(_memory(home, thread_id))
        asked = Called(thread=thread_id, id=data.id, name=data.name, arguments=data.arguments, user=home.user)
        output = await call_tool(home.db, tools, home.runtime.schema, asked)
    return ToolView(id=data.id, output=output)


def _memory(home: Home, thread: str) -> Memory | None:
    """What is known of whoever calls; nothing of who is incognito."""
    return None if home.is_incognito else memory_of(home.db, thread, home.user)


@post("/sessions/{id:str}/voice", operation_id="record_voice_turn", status_code=200, opt={OWN: True})
async def record_voice_turn(
    thread_id: ThreadId, data: JSONBody[NewVoiceTurn], caller: Calling, request: Request[Any, Any, Any]
) -> Response[TurnView]:
    """Keep a turn of a call once it was spoken: what was said, which tools were called, what was replied.

    No model is asked. Its key commits with it, so it can be sent again after anything. With the id of what
    was heard as its key, it has what was found then. What nobody has judged is judged now, and logged as
    late.
    """
    key = check_id(request.headers.get(KEY, secrets.token_hex(16)), "idempotency key")
    mode = mode_of(data.mode)
    async with caller.home(thread_id, mode=mode, user=data.user, someone=True) as home:
        assessed = await _assessed(thread_id, data, key, caller, home)
        done = await home.runtime.record_voice_turn(
            thread_id,
            said=data.said,
            replied=data.replied,
            tool_calls=[VoiceCall(**msgspec.structs.asdict(call)) for call in data.tool_calls],
            crisis=assessed,
            user=home.user,
            key=key,
            mode=home.mode,
        )
        if assessed is not None:
            await caller.serving.agent.speech.keep_level(home.db, thread_id, assessed.level)
    return Response(turn_view(done), headers={"ETag": f'"{done.version}"'})


async def _assessed(
    thread: str, data: NewVoiceTurn, key: str, caller: Caller, home: Home
) -> Assessment | None:
    """How serious a turn was: as it was judged when it was heard, or else as it is judged now, too late.

    If a client says that it was heard and nothing found, the rules alone look again. What a client says of
    it counts if it is more.
    """
    said, found = _assessment(data.crisis), await heard_before(home.db, thread, key)
    if found is None and data.said:
        given = Utterance(thread=thread, id=key, said=data.said, user=home.user, late=True, quick=data.heard)
        await home.runtime.hear(given, hearing=caller.serving.agent.speech.hearing, mode=home.mode)
        found = await heard_before(home.db, thread, key)
    both = [each for each in (found, said) if each is not None]
    return max(both, key=lambda each: each.level, default=None)


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


VOICE = [begin_call, hear, call_a_tool, record_voice_turn, voice_alive, voice_lost]
