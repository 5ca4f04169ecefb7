"""Calls of voice calls."""

from clew.api.sessions import EpisodeStatusView
from clew.api.turns import MemoryModeName, TurnView
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
from clew.client.call import ApiCall, CallMethod, api_call


class VoiceMethods:
    """Calls of voice calls."""

    @CallMethod
    def record_voice_turn(self, id: str, turn: NewVoiceTurn, *, key: str | None = None) -> ApiCall[TurnView]:
        """Keep a turn of a call, once it was spoken."""
        return api_call(RECORD_VOICE_TURN, id, body=turn, key=key)

    @CallMethod
    def begin_voice_session(
        self,
        id: str,
        *,
        gated: bool = True,
        user: str | None = None,
        mode: MemoryModeName | None = None,
        key: str | None = None,
    ) -> ApiCall[VoiceSessionView]:
        """A secret with which a browser begins a call."""
        body = NewVoiceSession(gated=gated, user=user, mode=mode)
        return api_call(BEGIN_CALL, id, body=body, key=key)

    @CallMethod
    def judge_utterance(
        self, id: str, utterance: NewUtterance, *, key: str | None = None
    ) -> ApiCall[GateVerdictView]:
        """Judge an utterance of a call: its level, and whether it may be answered."""
        return api_call(HEAR, id, body=utterance, key=key)

    @CallMethod
    def call_voice_tool(
        self, id: str, tool_call: NewToolCall, *, key: str | None = None
    ) -> ApiCall[ToolOutputView]:
        """Run a tool that a realtime model calls, and return its output."""
        return api_call(CALL_TOOL, id, body=tool_call, key=key)

    @CallMethod
    def keep_voice_alive(
        self, id: str, *, seconds: float = 60.0, key: str | None = None
    ) -> ApiCall[EpisodeStatusView]:
        """Say that a call goes on, and for how long its client may be silent."""
        return api_call(VOICE_ALIVE, id, body=NewHeartbeat(seconds=seconds), key=key)

    @CallMethod
    def end_lost_voice(self, id: str, *, key: str | None = None) -> ApiCall[EpisodeStatusView]:
        """End the episode of a call whose client is gone."""
        return api_call(VOICE_LOST, id, key=key)
