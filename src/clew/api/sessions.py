"""Sessions: threads as their users know them, and the episodes that they are in."""

from types import NoneType

import msgspec

from clew.api.feedback import FeedbackLabel
from clew.api.route import Route
from clew.api.turns import ApprovalView
from clew.core.encoding import JSON


class NewSessionEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to end the episode that a session is in, with what its user thought of it."""

    feedback: FeedbackLabel | None = None


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as a session: what it is, and the episode that it is in, if it is in one."""

    id: str
    user: str | None
    title: str | None
    version: int
    created: int
    updated: int
    status: str
    episode: str | None = None
    turns: int = 0
    items: int = 0


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some sessions, newest first."""

    sessions: list[SessionView]
    next: str | None = None


class ActiveSessions(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that are active now, wherever they are served."""

    tenant: str
    user: str | None
    workspace: str
    active: list[SessionView]


class SessionTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of one turn."""

    run: str | None
    time: int
    user_message: str = ""
    assistant_message: str = ""
    calls: int = 0


class TurnPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some turns, oldest first. ``next`` is the cursor of the older page."""

    turns: list[SessionTurn]
    next: str | None = None


class EpisodeStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an episode; no episode if there was none to end."""

    session: str
    episode: str | None = None
    status: str = "none"


class UnfinishedEpisodeView(msgspec.Struct, frozen=True, kw_only=True):
    """An ended episode that is not finished, and the state of its job."""

    episode: str
    job: str | None = None
    attempts: int = 0
    next_try: int | None = None
    problem: str | None = None


class SessionStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a session: one word, the facts behind it, and advice in a sentence."""

    session: str
    status: str
    advice: str
    run: str | None = None
    waiting: list[ApprovalView] = []
    episode: str | None = None
    feedback: str | None = None
    idle_since: int | None = None
    expires_at: int | None = None
    unfinished: list[UnfinishedEpisodeView] = []
    incognito: bool = False


class EpisodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of a session: active, ending or ended."""

    id: str
    session: str
    user: str | None
    status: str
    modality: str
    started: int
    touched: int
    turns: int
    ended: int | None = None
    ended_by: str | None = None
    feedback: str | None = None
    write_counts: dict[str, int] = {}


class EpisodeDetail(EpisodeView, frozen=True, kw_only=True):
    """An episode and what it left behind: its summary, and what was learned in it and is still known.

    Each fact ``says`` in words what it is, to the person that it is about.
    """

    summary: str = ""
    themes: list[str] = []
    open_loops: list[str] = []
    facts: list[dict[str, JSON]] = []
    rules: list[dict[str, JSON]] = []


class EpisodePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some episodes, the one touched last first."""

    episodes: list[EpisodeView]
    next: str | None = None


SESSIONS_STATE = Route("sessions_state", "GET", "/sessions/state", ActiveSessions)
LIST_SESSIONS = Route("list_sessions", "GET", "/sessions", SessionPage)
LIST_EPISODES = Route("list_episodes", "GET", "/episodes", EpisodePage)
GET_EPISODE = Route("get_episode", "GET", "/episodes/{episode_id}", EpisodeDetail)
GET_SESSION = Route("get_session", "GET", "/sessions/{id}", SessionView, has_etag=True)
DELETE_SESSION = Route("delete_session", "DELETE", "/sessions/{id}", NoneType, status=204)
LIST_TURNS = Route("list_turns", "GET", "/sessions/{id}/turns", TurnPage)
END_SESSION = Route("end_session", "POST", "/sessions/{id}/end", EpisodeStatusView, body=NewSessionEnd)
SESSION_STATUS = Route("session_status", "GET", "/sessions/{id}/status", SessionStatusView)
