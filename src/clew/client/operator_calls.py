"""The calls of operators: erasure, retention, the crisis log, the audit."""

from clew.client import bodies, operations
from clew.client.requests import Call, call, named
from clew.core.holding import Hold
from clew.core.retaining import Rule


def erase(
    *,
    owner: str | None = None,
    thread: str | None = None,
    with_crisis_log: bool = False,
    identities: bool = False,
    dry_run: bool = False,
    key: str | None = None,
) -> Call[operations.ErasureView]:
    """Erase a person or a thread everywhere, with a receipt."""
    body = bodies.NewErasure(
        owner=owner, thread=thread, with_crisis_log=with_crisis_log, identities=identities, dry_run=dry_run
    )
    return call("POST", "/erasures", operations.ErasureView, body=body, key=key)


def receipts(*, limit: int = 50, cursor: str | None = None) -> Call[operations.ReceiptPage]:
    """The receipts of what was erased, the newest first."""
    return call("GET", "/receipts", operations.ReceiptPage, limit=limit, cursor=cursor)


def settle_receipts(*, key: str | None = None) -> Call[operations.ReceiptPage]:
    """Try again what made receipts wait; those that are complete now."""
    return call("POST", "/receipts/settle", operations.ReceiptPage, key=key)


def holds(*, limit: int = 50, cursor: str | None = None) -> Call[operations.Holds]:
    """What is held, the oldest hold first."""
    return call("GET", "/holds", operations.Holds, limit=limit, cursor=cursor)


def hold(
    *, reason: str, owner: str | None = None, thread: str | None = None, key: str | None = None
) -> Call[Hold]:
    """Keep an owner or a thread from being erased, deleted or let go."""
    body = bodies.NewHold(reason=reason, owner=owner, thread=thread)
    return call("POST", "/holds", Hold, body=body, key=key)


def release(*, owner: str | None = None, thread: str | None = None) -> Call[None]:
    """Let go of a hold."""
    return call("DELETE", "/holds", None, owner=owner, thread=thread)


def rules(*, limit: int = 50, cursor: str | None = None) -> Call[operations.Rules]:
    """The rules of retention that are in force, by name."""
    return call("GET", "/retention", operations.Rules, limit=limit, cursor=cursor)


def set_rule(name: str, *, days: float, label: str | None = None) -> Call[Rule]:
    """Put a rule in force, or change it."""
    return call("PUT", f"/retention/{named(name)}", Rule, body=bodies.NewRule(days=days, label=label))


def drop_rule(name: str) -> Call[None]:
    """Take a rule back."""
    return call("DELETE", f"/retention/{named(name)}", None)


def apply_rules(*, dry_run: bool = False, key: str | None = None) -> Call[operations.AppliedRules]:
    """Erase what the rules in force let go."""
    body = bodies.NewApplying(dry_run=dry_run)
    return call("POST", "/retention/apply", operations.AppliedRules, body=body, key=key)


def crises(
    *,
    thread: str | None = None,
    owner: str | None = None,
    since: int | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[operations.CrisisPage]:
    """Rows of the crisis log."""
    return call(
        "GET",
        "/crises",
        operations.CrisisPage,
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
) -> Call[operations.Counted]:
    """Keep rows of the crisis log for longer."""
    body = bodies.NewExtension(until=until, ids=ids or [], thread=thread, owner=owner)
    return call("POST", "/crises/extend", operations.Counted, body=body, key=key)


def purge_crises(*, dry_run: bool = False, key: str | None = None) -> Call[operations.Counted]:
    """Delete the rows of the crisis log whose date has come."""
    body = bodies.NewPurge(dry_run=dry_run)
    return call("POST", "/crises/purge", operations.Counted, body=body, key=key)


def audit(
    *,
    action: str | None = None,
    user: str | None = None,
    owner: str | None = None,
    thread: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[operations.AuditPage]:
    """What operators did, the newest first."""
    return call(
        "GET",
        "/audit",
        operations.AuditPage,
        action=action,
        user=user,
        owner=owner,
        thread=thread,
        limit=limit,
        cursor=cursor,
    )
