"""Memory: facts, arcs and rules of a user, and changes to them."""

import msgspec

from clew.api.route import Route
from clew.core.encoding import JSON


class NewCorrection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Puts right what a fact or a rule says. With ``since``, a fact was right until then."""

    object: str
    negated: bool = False
    since: str | None = None


class NewForgetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entries to forget. Without ``confirmed`` they are only shown, and wait."""

    ids: list[str]
    confirmed: bool = False


class NewUndo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Takes back the last change of the memory, or the one that made a version."""

    version: int | None = None


class RecallSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The setting that lets memory be recalled in turns."""

    on: bool


class MemoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a user: facts or arcs, newest first, with their sources.

    ``lineage`` has by the id of a fact what it replaced, and what replaced it.
    """

    version: int
    recall: bool
    facts: list[JSON] = []
    lineage: dict[str, JSON] = {}
    arcs: list[JSON] = []
    rules: list[JSON] = []
    pending: JSON = None
    next: str | None = None


class MemoryAuditView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit: how many facts have what they need, and a finding for each problem."""

    ok: bool
    version: int
    counts: dict[str, int]
    findings: list[JSON] = []


class CatchUp(msgspec.Struct, frozen=True, kw_only=True):
    """The last session in a line, for the beginning of another; nothing if recall is off."""

    lines: list[str] = []


class ForgetView(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that were forgotten, those that had changed meanwhile, and those that wait."""

    forgotten: list[str] = []
    changed: list[str] = []
    waiting: list[JSON] = []


class UndoView(msgspec.Struct, frozen=True, kw_only=True):
    """The version that was taken back, the entries that are not known any more, and those known again."""

    undone: int
    removed: list[JSON] = []
    restored: list[JSON] = []


LIST_MEMORY = Route("list_memory", "GET", "/memory", MemoryPage)
EXPORT_MEMORY = Route("export_memory", "GET", "/memory/export", dict[str, JSON])
AUDIT_MEMORY = Route("audit_memory", "GET", "/memory/audit", MemoryAuditView)
CATCH_UP = Route("catch_up", "GET", "/memory/catch-up", CatchUp)
GET_MEMORY = Route("get_memory", "GET", "/memory/entries/{entry}", dict[str, JSON])
CORRECT_MEMORY = Route(
    "correct_memory", "POST", "/memory/entries/{entry}/correct", dict[str, JSON], body=NewCorrection
)
FORGET_MEMORY = Route("forget_memory", "POST", "/memory/forget", ForgetView, body=NewForgetRequest)
UNDO_MEMORY = Route("undo_memory", "POST", "/memory/undo", UndoView, body=NewUndo)
SET_RECALL = Route("set_recall", "PUT", "/memory/recall", RecallSetting, body=RecallSetting)
