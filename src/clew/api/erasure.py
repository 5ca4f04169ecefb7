"""Erasures with their receipts, holds, and rules of retention."""

from types import NoneType
from typing import Annotated

import msgspec

from clew.api.route import Route
from clew.core.erasure.receipts import Receipt
from clew.core.erasure.retention import RetentionRule
from clew.core.log.holds import Hold


class NewErasure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The subject of an erasure: all of an owner, or a thread and its forks. A dry run only counts.

    With ``with_retained`` the records go too that have a date and would stay until then. With ``identities``
    the owner's user, memberships, logins and keys go too, so that nobody comes back as them.
    """

    owner: str | None = None
    thread: str | None = None
    with_retained: bool = False
    identities: bool = False
    dry_run: bool = False


class NewHold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An owner or a thread that must not be erased, and the reason."""

    reason: str
    owner: str | None = None
    thread: str | None = None


class NewRetentionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that erases threads without a change for so many days: all, or those with a label."""

    days: Annotated[float, msgspec.Meta(gt=0, le=36_500)]
    label: str | None = None


class NewRuleApplication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to apply the rules in force. A dry run only names the threads."""

    dry_run: bool = False


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
    """The threads that a rule erased; ``held`` ones stayed. Without a receipt nothing was erased."""

    rule: str
    threads: list[str] = []
    held: int = 0
    receipt: Receipt | None = None


class RuleResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of all rules."""

    rules: list[RuleResultView]


ERASE = Route("erase", "POST", "/erasures", ErasureView, body=NewErasure, audit="erase")
LIST_RECEIPTS = Route("list_receipts", "GET", "/receipts", ReceiptPage)
SETTLE_RECEIPTS = Route("settle_receipts", "POST", "/receipts/settle", ReceiptPage, audit="settle receipts")
LIST_HOLDS = Route("list_holds", "GET", "/holds", HoldPage)
HOLD = Route("hold", "POST", "/holds", Hold, body=NewHold, status=201, audit="hold")
RELEASE = Route("release", "DELETE", "/holds", NoneType, status=204, audit="release")
LIST_RULES = Route("list_rules", "GET", "/retention", RetentionRulePage)
SET_RULE = Route(
    "set_rule", "PUT", "/retention/{rule}", RetentionRule, body=NewRetentionRule, audit="set rule"
)
DROP_RULE = Route("drop_rule", "DELETE", "/retention/{rule}", NoneType, status=204, audit="drop rule")
APPLY_RULES = Route(
    "apply_rules", "POST", "/retention/apply", RuleResults, body=NewRuleApplication, audit="apply rules"
)
