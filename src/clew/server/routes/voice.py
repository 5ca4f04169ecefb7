"""Calls over HTTP: begun with a secret of a provider, judged utterance by utterance, recorded turn by turn.

The audio goes between a browser and a realtime provider. What is said comes here to be judged before it is
answered, tools are called here, and what was spoken is kept here and ended by the same path as text.
"""

import secrets
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.params import JSONBody

from clew.api.route import IDEMPOTENCY_KEY
from clew.api.sessions import EpisodeStatusView
from clew.api.turns import TurnView
from clew.api.voice import (
    BEGIN_CALL,
    CALL_TOOL,
    HEAR,
    RECORD_VOICE_TURN,
    VOICE_ALIVE,
    VOICE_LOST,
    GateVerdictView,
    NewHeartbeat,
    NewToolCall,
    NewUtterance,
    NewVoiceSession,
    NewVoiceTurn,
    ToolOutputView,
    VoiceSessionView,
)
from clew.core.encoding import check_id
from clew.core.errors import InvalidArgument
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.model.protocol import ToolCall
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.sessions.utterances import Utterance, judged_record, stored_verdict
from clew.runtime.sessions.voice import VoiceCall
from clew.runtime.sessions.voice_tools import call_tool
from clew.server.http.callers import Caller, CurrentCaller, ThreadAccess, ThreadId
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import etag, memory_mode
from clew.server.http.views import episode_status_view, turn_view
from clew.server.tenants.realtime import VoiceSessionPlan, missing_setting


@endpoint(BEGIN_CALL)
async def begin_voice_session(
    thread_id: ThreadId, data: JSONBody[NewVoiceSession], caller: CurrentCaller
) -> VoiceSessionView:
    """A secret with which a browser begins a call, made with what is known of the person and with the tools.

    Nothing is answered until the client asks for it, unless ``gated`` is off. The key stays here.
    """
    await caller.check_writable(thread_id)
    realtime = caller.resources.realtime
    if realtime is None:
        raise InvalidArgument(problem=missing_setting(caller.resources.settings))
    mode = memory_mode(data.mode)
    async with caller.thread_access(thread_id, mode=mode, user=data.user) as access:
        memory = await _memory_of_caller(access, thread_id)
        voice = access.agent.voice
        instructions, tools = await voice.instructions(memory), voice.tools(memory)
    plan = VoiceSessionPlan(
        instructions=instructions, tools=tuple(tool.spec() for tool in tools), gated=data.gated
    )
    secret = await realtime.create_secret(plan)
    return VoiceSessionView(
        secret=secret.value,
        expires_at=secret.expires_at,
        url=secret.url,
        model=secret.model,
        gated=data.gated,
    )


@endpoint(HEAR)
async def judge_utterance(
    thread_id: ThreadId, data: JSONBody[NewUtterance], caller: CurrentCaller
) -> GateVerdictView:
    """Judge an utterance before it is answered. What the gates of the agent record is written at once.

    If it is not to be released, the words are said instead of an answer.
    """
    mode = memory_mode(data.mode)
    async with caller.thread_access(thread_id, mode=mode, user=data.user) as access:
        utterance = _utterance(thread_id, data.id, data.said, caller, access)
        utterance = msgspec.structs.replace(utterance, late=data.late)
        verdict = await access.runtime.judge_utterance(
            utterance, gates=access.agent.voice.gates, mode=access.mode
        )
    return GateVerdictView(level=verdict.level, release=not verdict.say, say=verdict.say)


@endpoint(CALL_TOOL)
async def call_voice_tool(
    thread_id: ThreadId, data: JSONBody[NewToolCall], caller: CurrentCaller
) -> ToolOutputView:
    """Call a tool for a realtime model. The same call again gives what it gave, and does nothing twice."""
    mode = memory_mode(data.mode)
    async with caller.thread_access(thread_id, mode=mode, user=data.user) as access:
        await caller.check_writable(thread_id)
        tools = access.agent.voice.tools(await _memory_of_caller(access, thread_id))
        arguments = {} if data.arguments is None else data.arguments
        call = ToolCall(id=data.id, name=data.name, arguments=arguments)
        output = await call_tool(access.db, tools, access.runtime.schema, thread_id, call, user=access.user)
    return ToolOutputView(id=data.id, output=output)


def _utterance(thread: str, id: str, text: str, caller: Caller, access: ThreadAccess) -> Utterance:
    """An utterance of a caller, with the inputs that a turn of the agent has."""
    inputs = access.agent.voice_inputs(text, thread, access.user)
    return Utterance(thread=thread, id=id, text=text, user=access.user, inputs=inputs)


async def _memory_of_caller(access: ThreadAccess, thread: str) -> Memory | None:
    """The memory of the caller, or of a thread that is nobody's; None if the caller is incognito."""
    await access.check_user(thread)
    return None if access.is_incognito else memory_of(access.db, thread, access.user)


@endpoint(RECORD_VOICE_TURN)
async def record_voice_turn(
    thread_id: ThreadId, data: JSONBody[NewVoiceTurn], caller: CurrentCaller, request: Request[Any, Any, Any]
) -> Response[TurnView]:
    """Keep a turn of a call once it was spoken: what was said, which tools were called, what was replied.

    No model is asked. Its key commits with it, so it can be sent again after anything. With the id of an
    utterance as its key, it has what was recorded then. What was not judged is judged now, and recorded as
    late.
    """
    key = check_id(request.headers.get(IDEMPOTENCY_KEY, secrets.token_hex(16)), "idempotency key")
    mode = memory_mode(data.mode)
    async with caller.thread_access(thread_id, mode=mode, user=data.user) as access:
        utterance = _utterance(thread_id, key, data.said, caller, access)
        record = await _assess_turn(data, utterance, caller, access)
        verdict = await stored_verdict(access.db, utterance)
        result = await access.runtime.record_voice_turn(
            thread_id,
            text=data.said,
            reply=data.replied,
            tool_calls=[VoiceCall(**msgspec.structs.asdict(call)) for call in data.tool_calls],
            records=() if record is None else (record,),
            inputs=utterance.inputs,
            fixed=verdict is not None and verdict.say == data.replied != "",
            user=access.user,
            key=key,
            mode=access.mode,
        )
        if record is not None:
            await access.agent.voice.keep_level(access.db, thread_id, record.level)
        if data.seconds is not None:
            await access.runtime.keep_voice_alive(thread_id, seconds=data.seconds, user=access.user)
    return Response(turn_view(result), headers=etag(result.version))


async def _assess_turn(
    data: NewVoiceTurn, utterance: Utterance, caller: Caller, access: ThreadAccess
) -> TurnRecord | None:
    """The record of a turn: as it was judged when it was heard, or else as it is judged now, too late.

    If a client says that it was heard and nothing found, the rules alone look again. What a client says of
    it counts if its level is higher.
    """
    voice = access.agent.voice
    client_record = None if data.assessment is None else voice.assessed_record(data.assessment)
    own_record = await judged_record(access.db, utterance.thread, utterance.id)
    if own_record is None and data.said:
        late_utterance = msgspec.structs.replace(utterance, late=True, quick=data.heard)
        await access.runtime.judge_utterance(late_utterance, gates=voice.gates, mode=access.mode)
        own_record = await judged_record(access.db, utterance.thread, utterance.id)
    records = [record for record in (own_record, client_record) if record is not None]
    return max(records, key=lambda record: record.level, default=None)


@endpoint(VOICE_ALIVE)
async def keep_voice_alive(
    thread_id: ThreadId, data: JSONBody[NewHeartbeat], caller: CurrentCaller
) -> EpisodeStatusView:
    """Say that a call goes on. If nobody says so again in time, its client is taken for lost."""
    async with caller.thread_access(thread_id) as access:
        await access.check_exists(thread_id)
        episode = await access.runtime.keep_voice_alive(thread_id, seconds=data.seconds, user=access.user)
    return episode_status_view(thread_id, episode)


@endpoint(VOICE_LOST)
async def end_lost_voice(thread_id: ThreadId, caller: CurrentCaller) -> EpisodeStatusView:
    """End the episode of a call whose client is gone."""
    async with caller.thread_access(thread_id) as access:
        await access.check_exists(thread_id)
        episode = await access.runtime.end_lost_voice(thread_id, user=access.user)
    return episode_status_view(thread_id, episode)


VOICE_ROUTES = [
    begin_voice_session,
    judge_utterance,
    call_voice_tool,
    record_voice_turn,
    keep_voice_alive,
    end_lost_voice,
]
