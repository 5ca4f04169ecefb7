"""Search: hits in what was said and in what is known."""

import msgspec

from clew.api.route import Route


class SearchHitView(msgspec.Struct, frozen=True, kw_only=True):
    """A hit: where it is, and the part of its text that matches the query.

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
    """Hits of a search, the best first; ``path`` says how they were found, ``problem`` why not by meaning."""

    found: list[SearchHitView]
    next: str | None = None
    path: str = "token_recall"
    problem: str | None = None


SEARCH = Route("search", "GET", "/search", SearchHitPage)
