"""Requests and replies of the companion's part of the HTTP API: the crisis log."""

from typing import Annotated

import msgspec

from clew.api.route import LINES_TYPE, Route


class CrisisView(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the crisis log: how serious a turn was and how that was found, never what was said."""

    id: str
    thread: str
    run: str
    time: int
    keep_until: int
    level: int
    episode: str | None = None
    confidence: float | None = None
    path: str | None = None
    override: str | None = None
    llm_failed: bool = False
    late: bool = False
    extended: int | None = None


class CrisisPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the crisis log, those first that are kept for longest."""

    rows: list[CrisisView]
    next: str | None = None


class RowCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of rows that a request was about."""

    rows: int


class NewCrisisExtension(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of the crisis log that are to be kept for longer: some ids, or those of a thread or an owner."""

    until: Annotated[int, msgspec.Meta(gt=0, lt=1 << 53)]
    ids: list[str] = []
    thread: str | None = None
    owner: str | None = None


class NewCrisisPurge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to delete the rows of the crisis log whose date has come. A dry run only counts them."""

    dry_run: bool = False


LIST_CRISES = Route("list_crises", "GET", "/crises", CrisisPage, audit="read crises")
EXPORT_CRISES = Route(
    "export_crises", "GET", "/crises/export", bytes, media_type=LINES_TYPE, audit="export crises"
)
EXTEND_CRISES = Route(
    "extend_crises", "POST", "/crises/extend", RowCount, body=NewCrisisExtension, audit="extend crises"
)
PURGE_CRISES = Route(
    "purge_crises", "POST", "/crises/purge", RowCount, body=NewCrisisPurge, audit="purge crises"
)
