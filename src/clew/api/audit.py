"""The audit: entries about what operators did."""

import msgspec

from clew.api.route import Route
from clew.core.encoding import JSON


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """One action of an operator. Its subject is a salted hash, found again with the name alone.

    Without a ``user`` it was done with a key of the tenant as a whole.
    """

    number: int
    time: int
    action: str
    user: str | None
    workspace: str
    about: str | None = None
    facts: dict[str, JSON] = {}


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some entries of the audit, the newest first."""

    entries: list[AuditView]
    next: str | None = None


LIST_AUDIT = Route("list_audit", "GET", "/audit", AuditPage)
