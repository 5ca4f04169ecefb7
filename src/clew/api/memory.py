"""What the HTTP API tells of what is known and found: memory, search, feedback."""

import msgspec

from clew.core.encoding import JSON


class MemoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a user: facts or arcs, newest first, with their sources."""

    version: int
    recall: bool
    facts: list[JSON] = []
    arcs: list[JSON] = []
    rules: list[JSON] = []
    pending: JSON = None
    next: str | None = None


class CatchUp(msgspec.Struct, frozen=True, kw_only=True):
    """The last session in a line, for whoever begins another; nothing if it is not to be brought up."""

    lines: list[str] = []


class ForgetView(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten, what had changed meanwhile, and what waits for a word."""

    forgotten: list[str] = []
    changed: list[str] = []
    waiting: list[JSON] = []


class UndoView(msgspec.Struct, frozen=True, kw_only=True):
    """The version that was taken back."""

    undone: int


class SearchHitView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was found, and the part of it that bears on the query.

    ``marks`` are where the searched words begin in the text, and where they end. What was found by meaning
    alone has none.
    """

    kind: str
    thread: str
    log: str
    place: int
    version: int
    text: str
    score: float
    marks: list[tuple[int, int]] = []
    id: str | None = None
    role: str = ""
    time: int = 0


class SearchHitPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found, the best first; ``path`` says how, and ``problem`` why not by meaning."""

    found: list[SearchHitView]
    next: str | None = None
    path: str = "token_recall"
    problem: str | None = None


class FeedbackView(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback as it was recorded."""

    id: str
    thread: str
    label: str
    recorded: int
