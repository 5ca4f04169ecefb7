"""The calls of operators: erasure, retention, the crisis log, the audit."""

from clew.api import operators as api_operators
from clew.api import requests as api_requests
from clew.client.call import Awaited, Blocking, Call, Method, call, named
from clew.core.erasure.retention import Rule
from clew.core.log.holds import Hold


def erase(
    *,
    owner: str | None = None,
    thread: str | None = None,
    with_crisis_log: bool = False,
    identities: bool = False,
    dry_run: bool = False,
    key: str | None = None,
) -> Call[api_operators.ErasureView]:
    """Erase a person or a thread everywhere, with a receipt."""
    body = api_requests.NewErasure(
        owner=owner, thread=thread, with_crisis_log=with_crisis_log, identities=identities, dry_run=dry_run
    )
    return call("POST", "/erasures", api_operators.ErasureView, body=body, key=key)


def receipts(*, limit: int = 50, cursor: str | None = None) -> Call[api_operators.ReceiptPage]:
    """The receipts of what was erased, the newest first."""
    return call("GET", "/receipts", api_operators.ReceiptPage, limit=limit, cursor=cursor)


def settle_receipts(*, key: str | None = None) -> Call[api_operators.ReceiptPage]:
    """Try again what made receipts wait; those that are complete now."""
    return call("POST", "/receipts/settle", api_operators.ReceiptPage, key=key)


def holds(*, limit: int = 50, cursor: str | None = None) -> Call[api_operators.Holds]:
    """What is held, the oldest hold first."""
    return call("GET", "/holds", api_operators.Holds, limit=limit, cursor=cursor)


def hold(
    *, reason: str, owner: str | None = None, thread: str | None = None, key: str | None = None
) -> Call[Hold]:
    """Keep an owner or a thread from being erased, deleted or let go."""
    body = api_requests.NewHold(reason=reason, owner=owner, thread=thread)
    return call("POST", "/holds", Hold, body=body, key=key)


def release(*, owner: str | None = None, thread: str | None = None) -> Call[None]:
    """Let go of a hold."""
    return call("DELETE", "/holds", None, owner=owner, thread=thread)


def rules(*, limit: int = 50, cursor: str | None = None) -> Call[api_operators.Rules]:
    """The rules of retention that are in force, by name."""
    return call("GET", "/retention", api_operators.Rules, limit=limit, cursor=cursor)


def set_rule(name: str, *, days: float, label: str | None = None) -> Call[Rule]:
    """Put a rule in force, or change it."""
    return call("PUT", f"/retention/{named(name)}", Rule, body=api_requests.NewRule(days=days, label=label))


def drop_rule(name: str) -> Call[None]:
    """Take a rule back."""
    return call("DELETE", f"/retention/{named(name)}", None)


def apply_rules(*, dry_run: bool = False, key: str | None = None) -> Call[api_operators.AppliedRules]:
    """Erase what the rules in force let go."""
    body = api_requests.NewApplying(dry_run=dry_run)
    return call("POST", "/retention/apply", api_operators.AppliedRules, body=body, key=key)


def crises(
    *,
    thread: str | None = None,
    owner: str | None = None,
    since: int | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[api_operators.CrisisPage]:
    """Rows of the crisis log."""
    return call(
        "GET",
        "/crises",
        api_operators.CrisisPage,
        thread=thread,
        owner=owner,
        since=since,
        limit=limit,
        cursor=cursor,
    )


def export_crises(
    *, thread: str | None = None, owner: str | None = None, since: int | None = None
) -> Call[bytes]:
    """The crisis log as lines of JSON."""
    return call("GET", "/crises/export", bytes, thread=thread, owner=owner, since=since)


def extend_crises(
    until: int,
    *,
    ids: list[str] | None = None,
    thread: str | None = None,
    owner: str | None = None,
    key: str | None = None,
) -> Call[api_operators.Counted]:
    """Keep rows of the crisis log for longer."""
    body = api_requests.NewExtension(until=until, ids=ids or [], thread=thread, owner=owner)
    return call("POST", "/crises/extend", api_operators.Counted, body=body, key=key)


def purge_crises(*, dry_run: bool = False, key: str | None = None) -> Call[api_operators.Counted]:
    """Delete the rows of the crisis log whose date has come."""
    body = api_requests.NewPurge(dry_run=dry_run)
    return call("POST", "/crises/purge", api_operators.Counted, body=body, key=key)


def audit(
    *,
    action: str | None = None,
    user: str | None = None,
    owner: str | None = None,
    thread: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[api_operators.AuditPage]:
    """What operators did, the newest first."""
    return call(
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

    erase = Method(erase)
    receipts = Method(receipts)
    settle_receipts = Method(settle_receipts)
    holds = Method(holds)
    hold = Method(hold)
    release = Method(release)
    rules = Method(rules)
    set_rule = Method(set_rule)
    drop_rule = Method(drop_rule)
    apply_rules = Method(apply_rules)
    crises = Method(crises)
    export_crises = Method(export_crises)
    extend_crises = Method(extend_crises)
    purge_crises = Method(purge_crises)
    audit = Method(audit)


class AsyncOperator(Awaited, OperatorMethods):
    """The calls of operators, awaited."""


class Operator(Blocking, OperatorMethods):
    """The calls of operators, blocking."""
