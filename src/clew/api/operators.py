"""Replies of the HTTP API to those who run it: health, agent, jobs, erasure, retention, audit."""

import msgspec

from clew.core.encoding import JSON
from clew.core.erasure.receipts import Receipt
from clew.core.erasure.retention import RetentionRule
from clew.core.log.holds import Hold


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Work to be done later."""

    id: str
    kind: str
    status: str
    due: int
    attempts: int
    limit: int
    owner: str | None = None
    problem: str | None = None


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some jobs, by the time they are due."""

    jobs: list[JobView]
    next: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the process lives and, for readiness, whether its store answers."""

    ok: bool
    store: str | None = None
    problems: list[str] = []


class StudioExtension(msgspec.Struct, frozen=True, kw_only=True):
    """Scripts that an installed agent adds to the Studio, and the titles of the pages that they have."""

    agent: str
    script: str
    navigation: dict[str, str] = {}


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """The agent that answers here, its model, and what people must know of it.

    ``incognito`` says whether a turn may leave no trace here, ``voice`` whether calls can be made. ``studio``
    has what installed agents add to the Studio.
    """

    name: str
    model: str | None = None
    notices: list[str] = []
    incognito: bool = False
    voice: bool = False
    studio: list[StudioExtension] = []


class ErasureView(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an erasure, and what of the person's identities went with it."""

    receipt: Receipt
    identities: dict[str, int] = {}


class ReceiptPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some receipts, the newest first."""

    receipts: list[Receipt]
    next: str | None = None


class HoldPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of what is held, the oldest hold first."""

    holds: list[Hold]
    next: str | None = None


class RetentionRulePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the rules of retention that are in force, by name."""

    rules: list[RetentionRule]
    next: str | None = None


class RuleResultView(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule let go; ``held`` threads stayed. Without a receipt nothing was erased."""

    rule: str
    threads: list[str] = []
    held: int = 0
    receipt: Receipt | None = None


class RuleResults(msgspec.Struct, frozen=True, kw_only=True):
    """What each rule let go."""

    rules: list[RuleResultView]


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what for a tenant. Whom it was about is a salted hash, which who knows the name can find.

    Without a ``user`` it was a key of the tenant as a whole.
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
