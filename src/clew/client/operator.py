"""The calls of operators: erasure, retention, the audit."""

from clew.api import operators as api_operators
from clew.api import requests as api_requests
from clew.client.call import ApiCall, AsyncSender, BlockingSender, CallMethod, api_call, path_part
from clew.core.erasure.retention import RetentionRule
from clew.core.log.holds import Hold


def erase(
    *,
    owner: str | None = None,
    thread: str | None = None,
    with_retained: bool = False,
    identities: bool = False,
    dry_run: bool = False,
    key: str | None = None,
) -> ApiCall[api_operators.ErasureView]:
    """Erase a person or a thread everywhere, with a receipt."""
    body = api_requests.NewErasure(
        owner=owner, thread=thread, with_retained=with_retained, identities=identities, dry_run=dry_run
    )
    return api_call("POST", "/erasures", api_operators.ErasureView, body=body, key=key)


def receipts(*, limit: int = 50, cursor: str | None = None) -> ApiCall[api_operators.ReceiptPage]:
    """The receipts of what was erased, the newest first."""
    return api_call("GET", "/receipts", api_operators.ReceiptPage, limit=limit, cursor=cursor)


def settle_receipts(*, key: str | None = None) -> ApiCall[api_operators.ReceiptPage]:
    """Try again what made receipts wait; those that are complete now."""
    return api_call("POST", "/receipts/settle", api_operators.ReceiptPage, key=key)


def holds(*, limit: int = 50, cursor: str | None = None) -> ApiCall[api_operators.HoldPage]:
    """What is held, the oldest hold first."""
    return api_call("GET", "/holds", api_operators.HoldPage, limit=limit, cursor=cursor)


def hold(
    *, reason: str, owner: str | None = None, thread: str | None = None, key: str | None = None
) -> ApiCall[Hold]:
    """Keep an owner or a thread from being erased, deleted or let go."""
    body = api_requests.NewHold(reason=reason, owner=owner, thread=thread)
    return api_call("POST", "/holds", Hold, body=body, key=key)


def release(*, owner: str | None = None, thread: str | None = None) -> ApiCall[None]:
    """Let go of a hold."""
    return api_call("DELETE", "/holds", None, owner=owner, thread=thread)


def rules(*, limit: int = 50, cursor: str | None = None) -> ApiCall[api_operators.RetentionRulePage]:
    """The rules of retention that are in force, by name."""
    return api_call("GET", "/retention", api_operators.RetentionRulePage, limit=limit, cursor=cursor)


def set_rule(name: str, *, days: float, label: str | None = None) -> ApiCall[RetentionRule]:
    """Put a rule in force, or change it."""
    return api_call(
        "PUT",
        f"/retention/{path_part(name)}",
        RetentionRule,
        body=api_requests.NewRetentionRule(days=days, label=label),
    )


def drop_rule(name: str) -> ApiCall[None]:
    """Take a rule back."""
    return api_call("DELETE", f"/retention/{path_part(name)}", None)


def apply_rules(*, dry_run: bool = False, key: str | None = None) -> ApiCall[api_operators.RuleResults]:
    """Erase what the rules in force let go."""
    body = api_requests.NewRuleApplication(dry_run=dry_run)
    return api_call("POST", "/retention/apply", api_operators.RuleResults, body=body, key=key)


def audit(
    *,
    action: str | None = None,
    user: str | None = None,
    owner: str | None = None,
    thread: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> ApiCall[api_operators.AuditPage]:
    """What operators did, the newest first."""
    return api_call(
        "GET",
        "/audit",
        api_operators.AuditPage,
        action=action,
        user=user,
        owner=owner,
        thread=thread,
        limit=limit,
        cursor=cursor,
    )


class OperatorMethods:
    """The calls of operators, for either client."""

    erase = CallMethod(erase)
    receipts = CallMethod(receipts)
    settle_receipts = CallMethod(settle_receipts)
    holds = CallMethod(holds)
    hold = CallMethod(hold)
    release = CallMethod(release)
    rules = CallMethod(rules)
    set_rule = CallMethod(set_rule)
    drop_rule = CallMethod(drop_rule)
    apply_rules = CallMethod(apply_rules)
    audit = CallMethod(audit)


class AsyncOperatorClient(AsyncSender, OperatorMethods):
    """The calls of operators, awaited."""


class OperatorClient(BlockingSender, OperatorMethods):
    """The calls of operators, blocking."""
