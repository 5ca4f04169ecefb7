"""What the HTTP API tells of conversations: messages in nobody's format, and episodes."""

import msgspec

from clew.core.encoding import JSON


class ToolCallView(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool."""

    id: str
    name: str
    arguments: JSON = None


class ToolResultView(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back."""

    id: str
    name: str = ""
    output: JSON = None


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry says, whatever framework wrote it: text, tool calls and results.

    ``meta`` is what an application stamped on it, like the style of a reply.
    """

    role: str
    place: int
    version: int
    time: int
    text: str = ""
    calls: list[ToolCallView] = []
    results: list[ToolResultView] = []
    id: str | None = None
    format: str = "clew"
    run: str | None = None
    visibility: str = "all"
    meta: dict[str, JSON] = {}


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some messages, oldest first. ``next`` is the cursor of the older page."""

    thread: str
    version: int
    messages: list[MessageView]
    next: str | None = None


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


class EpisodeDetail(EpisodeView, frozen=True, kw_only=True):
    """An episode and what it left behind: how it is told in short, and what was learned and is known.

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
