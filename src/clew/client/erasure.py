"""Calls of erasure, holds and retention."""

from clew.api.erasure import (
    APPLY_RULES,
    DROP_RULE,
    ERASE,
    HOLD,
    LIST_HOLDS,
    LIST_RECEIPTS,
    LIST_RULES,
    RELEASE,
    SET_RULE,
    SETTLE_RECEIPTS,
    ErasureView,
    HoldPage,
    NewErasure,
    NewHold,
    NewRetentionRule,
    NewRuleApplication,
    ReceiptPage,
    RetentionRulePage,
    RuleResults,
)
from clew.client.call import ApiCall, CallMethod, api_call
from clew.core.erasure.retention import RetentionRule
from clew.core.log.holds import Hold


class ErasureMethods:
    """Calls of erasure, holds and retention."""

    @CallMethod
    def erase(
        self,
        *,
        owner: str | None = None,
        thread: str | None = None,
        with_retained: bool = False,
        identities: bool = False,
        dry_run: bool = False,
        key: str | None = None,
    ) -> ApiCall[ErasureView]:
        """Erase a person or a thread everywhere, with a receipt."""
        body = NewErasure(
            owner=owner,
            thread=thread,
            with_retained=with_retained,
            identities=identities,
            dry_run=dry_run,
        )
        return api_call(ERASE, body=body, key=key)

    @CallMethod
    def receipts(self, *, limit: int = 50, cursor: str | None = None) -> ApiCall[ReceiptPage]:
        """Return receipts of erasures, the newest first."""
        return api_call(LIST_RECEIPTS, limit=limit, cursor=cursor)

    @CallMethod
    def settle_receipts(self, *, key: str | None = None) -> ApiCall[ReceiptPage]:
        """Try again what made receipts wait; return those that are complete now."""
        return api_call(SETTLE_RECEIPTS, key=key)

    @CallMethod
    def holds(self, *, limit: int = 50, cursor: str | None = None) -> ApiCall[HoldPage]:
        """Return holds, the oldest first."""
        return api_call(LIST_HOLDS, limit=limit, cursor=cursor)

    @CallMethod
    def hold(
        self, *, reason: str, owner: str | None = None, thread: str | None = None, key: str | None = None
    ) -> ApiCall[Hold]:
        """Hold an owner or a thread, which then cannot be erased or deleted."""
        body = NewHold(reason=reason, owner=owner, thread=thread)
        return api_call(HOLD, body=body, key=key)

    @CallMethod
    def release(self, *, owner: str | None = None, thread: str | None = None) -> ApiCall[None]:
        """Release a hold."""
        return api_call(RELEASE, owner=owner, thread=thread)

    @CallMethod
    def rules(self, *, limit: int = 50, cursor: str | None = None) -> ApiCall[RetentionRulePage]:
        """Return the rules of retention in force, by name."""
        return api_call(LIST_RULES, limit=limit, cursor=cursor)

    @CallMethod
    def set_rule(self, name: str, *, days: float, label: str | None = None) -> ApiCall[RetentionRule]:
        """Put a rule in force, or change it."""
        body = NewRetentionRule(days=days, label=label)
        return api_call(SET_RULE, name, body=body)

    @CallMethod
    def drop_rule(self, name: str) -> ApiCall[None]:
        """Remove a rule."""
        return api_call(DROP_RULE, name)

    @CallMethod
    def apply_rules(self, *, dry_run: bool = False, key: str | None = None) -> ApiCall[RuleResults]:
        """Apply the rules in force."""
        body = NewRuleApplication(dry_run=dry_run)
        return api_call(APPLY_RULES, body=body, key=key)
