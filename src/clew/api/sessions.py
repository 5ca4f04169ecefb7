"""What the HTTP API tells of sessions."""

import msgspec

from clew.api.threads import ApprovalView
from clew.core.encoding import JSON


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
    """What was said and answered in one turn."""

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
    """How the end of an episode stands; no episode if there was none to end."""

    session: str
    episode: str | None = None
    status: str = "none"


class VoiceSessionView(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser begins a call with: a secret, until when it holds, and where to go with it.

    ``gated`` says that nothing is answered until the client asks for it.
    """

    secret: str
    expires_at: int
    url: str
    model: str
    gated: bool


class GateVerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """How serious it was what somebody said: answer it if it may be released, or else say the words."""

    level: int
    release: bool
    say: str = ""


class ToolOutputView(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave."""

    id: str
    output: JSON = None


class ImportView(msgspec.Struct, frozen=True, kw_only=True):
    """What an import took in, and what it passed over.

    A session is passed over if it is there already. So is a record, or one that a user cannot bring.
    """

    sessions: list[str]
    skipped: list[str] = []
    records: int = 0
    skipped_records: int = 0


class UnfinishedEpisodeView(msgspec.Struct, frozen=True, kw_only=True):
    """An ended episode that is not finished, and how its job stands."""

    episode: str
    job: str | None = None
    attempts: int = 0
    next_try: int | None = None
    problem: str | None = None


class SessionStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session stands: one word, the facts behind it, and what to do next in a sentence."""

    session: str
    status: str
    advice: str
    run: str | None = None
    waiting: list[ApprovalView] = []
    episode: str | None = None
    idle_since: int | None = None
    expires_at: int | None = None
    unfinished: list[UnfinishedEpisodeView] = []
    incognito: bool = False
