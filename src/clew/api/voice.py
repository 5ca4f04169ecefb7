"""Calls: their secrets, utterances, tools and spoken turns."""

from typing import Annotated, TypeAlias

import msgspec

from clew.api.route import Route
from clew.api.sessions import EpisodeStatusView
from clew.api.turns import MemoryModeName, TurnView
from clew.core.encoding import JSON

SilenceSeconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
"""How long the client of a call may be silent before it is taken for lost."""


class RecordedToolCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that was called while somebody spoke: its output, or the error that it ended with."""

    name: str
    arguments: JSON = None
    output: JSON = None
    error: str | None = None
    id: str | None = None


class NewAssessment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A client's assessment of a spoken turn: a level, and how it was found, in names and never in words.

    Its meaning, and whether it is recorded, is up to the agent.
    """

    level: int
    confidence: float | None = None
    path: str | None = None
    override: str | None = None
    llm_failed: bool = False


class NewVoiceTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A turn of a call, once it was spoken: what was said, which tools were called, what was replied.

    ``heard`` says that what was said has been judged before. With ``seconds`` it is a sign of life too, after
    which its client may be silent for so long.
    """

    said: str = ""
    replied: str = ""
    tool_calls: list[RecordedToolCall] = []
    assessment: NewAssessment | None = None
    heard: bool = False
    seconds: SilenceSeconds | None = None
    user: str | None = None
    mode: MemoryModeName | None = None


class NewVoiceSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that is to begin. Unless ``gated`` is off, nothing is answered before it was judged."""

    gated: bool = True
    user: str | None = None
    mode: MemoryModeName | None = None


class NewUtterance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An utterance of a call, under an id; ``late`` if it is being answered already."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    said: str
    late: bool = False
    user: str | None = None
    mode: MemoryModeName | None = None


class NewToolCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that a realtime model calls, under the id that it gave to the call."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    name: str
    arguments: JSON = None
    user: str | None = None
    mode: MemoryModeName | None = None


class NewHeartbeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign that a call goes on, and for how long its client may be silent."""

    seconds: SilenceSeconds = 60.0


class VoiceSessionView(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a call for a browser: a secret, the time until which it holds, and where to use it.

    ``gated`` says that nothing is answered until the client asks for it.
    """

    secret: str
    expires_at: int
    url: str
    model: str
    gated: bool


class GateVerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on an utterance: answer it if it may be released, or else say the words."""

    level: int
    release: bool
    say: str = ""


class ToolOutputView(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a tool."""

    id: str
    output: JSON = None


BEGIN_CALL = Route(
    "begin_call", "POST", "/sessions/{id}/voice/session", VoiceSessionView, body=NewVoiceSession
)
HEAR = Route("hear", "POST", "/sessions/{id}/voice/heard", GateVerdictView, body=NewUtterance)
CALL_TOOL = Route("call_tool", "POST", "/sessions/{id}/voice/tools", ToolOutputView, body=NewToolCall)
RECORD_VOICE_TURN = Route(
    "record_voice_turn", "POST", "/sessions/{id}/voice", TurnView, body=NewVoiceTurn, commits_key=True
)
VOICE_ALIVE = Route("voice_alive", "POST", "/sessions/{id}/voice/alive", EpisodeStatusView, body=NewHeartbeat)
VOICE_LOST = Route("voice_lost", "POST", "/sessions/{id}/voice/lost", EpisodeStatusView)
