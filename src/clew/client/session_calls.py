"""The calls about sessions: their episodes, calls by voice, and what is carried in and out."""

from clew.client import bodies, values
from clew.client.requests import Call, call, matching, named
from clew.client.sessions import (
    CallView,
    EndView,
    HeardView,
    ImportView,
    SessionPage,
    SessionState,
    SessionView,
    StatusView,
    ToolView,
    TurnPage,
)
from clew.client.transcripts import EpisodeLeft, EpisodePage


def sessions_state() -> Call[SessionState]:
    """The sessions that are active now."""
    return call("GET", "/sessions/state", SessionState)


def sessions(*, search: str | None = None, limit: int = 50, cursor: str | None = None) -> Call[SessionPage]:
    """Sessions, the newest first."""
    return call("GET", "/sessions", SessionPage, search=search, limit=limit, cursor=cursor)


def session(id: str) -> Call[SessionView]:
    """A session."""
    return call("GET", f"/sessions/{named(id)}", SessionView)


def delete_session(id: str, *, expect: int | None = None) -> Call[None]:
    """Delete a session."""
    return call("DELETE", f"/sessions/{named(id)}", None, headers=matching(expect))


def turns(id: str, *, limit: int = 50, cursor: str | None = None) -> Call[TurnPage]:
    """What was said and answered in a session."""
    return call("GET", f"/sessions/{named(id)}/turns", TurnPage, limit=limit, cursor=cursor)


def end_session(id: str, *, feedback: bodies.Label | None = None, key: str | None = None) -> Call[EndView]:
    """End the episode that a session is in."""
    body = bodies.NewEnd(feedback=feedback)
    return call("POST", f"/sessions/{named(id)}/end", EndView, body=body, key=key)


def episodes(*, over: bool = False, limit: int = 50, cursor: str | None = None) -> Call[EpisodePage]:
    """Episodes that are active or, with ``over``, those that are ending or ended; the last touched first."""
    return call("GET", "/episodes", EpisodePage, over=over, limit=limit, cursor=cursor)


def episode(id: str) -> Call[EpisodeLeft]:
    """An episode that is over, and what it left behind."""
    return call("GET", f"/episodes/{named(id)}", EpisodeLeft)


def session_status(id: str) -> Call[StatusView]:
    """Where a session stands, and what can be done next."""
    return call("GET", f"/sessions/{named(id)}/status", StatusView)


def record_voice_turn(id: str, turn: bodies.NewVoiceTurn, *, key: str | None = None) -> Call[values.TurnView]:
    """Keep a turn of a call, once it was spoken."""
    return call("POST", f"/sessions/{named(id)}/voice", values.TurnView, body=turn, key=key)


def begin_call(
    id: str,
    *,
    gated: bool = True,
    user: str | None = None,
    mode: bodies.Mode | None = None,
    key: str | None = None,
) -> Call[CallView]:
    """A secret with which a browser begins a call."""
    body = bodies.NewCall(gated=gated, user=user, mode=mode)
    return call("POST", f"/sessions/{named(id)}/voice/session", CallView, body=body, key=key)


def hear(id: str, utterance: bodies.NewUtterance, *, key: str | None = None) -> Call[HeardView]:
    """How serious something is that was said in a call, and whether it may be answered."""
    return call("POST", f"/sessions/{named(id)}/voice/heard", HeardView, body=utterance, key=key)


def call_tool(id: str, asked: bodies.NewToolCall, *, key: str | None = None) -> Call[ToolView]:
    """What a tool gives that a realtime model calls."""
    return call("POST", f"/sessions/{named(id)}/voice/tools", ToolView, body=asked, key=key)


def voice_alive(id: str, *, seconds: float = 60.0, key: str | None = None) -> Call[EndView]:
    """Say that a call goes on, and for how long its client may be silent."""
    body = bodies.NewSign(seconds=seconds)
    return call("POST", f"/sessions/{named(id)}/voice/alive", EndView, body=body, key=key)


def voice_lost(id: str, *, key: str | None = None) -> Call[EndView]:
    """End the episode of a call whose client is gone."""
    return call("POST", f"/sessions/{named(id)}/voice/lost", EndView, key=key)


def export_person(*, user: str | None = None) -> Call[bytes]:
    """Everything that a user owns, as one archive."""
    return call("GET", "/person/export", bytes, user=user)


def export_session(id: str) -> Call[bytes]:
    """A session as an archive."""
    return call("POST", f"/sessions/{named(id)}/export", bytes)


def export_manifest(id: str) -> Call[bytes]:
    """A session as one JSON document."""
    return call("POST", f"/sessions/{named(id)}/export", bytes, format="manifest")


def import_manifest(
    id: str, manifest: bytes, *, expect: int | None = None, key: str | None = None
) -> Call[values.CommittedView]:
    """Make a session what a manifest says, and nothing else."""
    path = f"/sessions/{named(id)}/import"
    return call("POST", path, values.CommittedView, body=manifest, key=key, headers=matching(expect))


def import_sessions(
    archive: bytes, *, skip_existing: bool = False, key: str | None = None
) -> Call[ImportView]:
    """Take in the sessions of an archive; those that are there already are refused, or passed over."""
    kind, skip = {"Content-Type": "application/x-ndjson"}, skip_existing or None
    path = "/sessions/import"
    return call("POST", path, ImportView, body=archive, key=key, headers=kind, skip_existing=skip)
