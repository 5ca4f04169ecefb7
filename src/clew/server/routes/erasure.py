"""Erasures with receipts, legal holds, and rules of retention over HTTP."""

from collections import Counter
from collections.abc import Sequence

from litestar.params import FromPath, FromQuery, JSONBody

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
    RuleResultView,
)
from clew.core.erasure.receipts import RULE_KIND, Receipt
from clew.core.erasure.retention import RetentionRule, rule_of
from clew.core.errors import InvalidArgument, RecordNotFound
from clew.core.log.holds import HOLD_KIND, Hold, hold_of
from clew.core.values import Record, RecordQuery, Scope
from clew.database.database import Database
from clew.server.http import audit
from clew.server.http.callers import Caller, CurrentCaller
from clew.server.http.cursors import record_position
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit
from clew.server.http.paths import check_reachable, decode_path_part
from clew.server.identity.directory import Directory, find_entry
from clew.server.identity.entries import User


@endpoint(ERASE)
async def erase(data: JSONBody[NewErasure], caller: CurrentCaller) -> ErasureView:
    """Erase a person or a thread everywhere, with a receipt. Role admin.

    Sent again for the same subject, it goes on where it was. A subject that is held is refused whole.
    """
    db = caller.tenant_database()
    _check_erasure(data)
    preview = await _erase_subject(db, data, dry_run=True)
    if data.dry_run:
        return ErasureView(receipt=preview, identities=await _count_identities(caller, data, remove=False))
    facts = {"with_retained": data.with_retained, "identities": data.identities}
    await audit.record_action(
        db, caller.identity, ERASE.audit, owner=data.owner, thread=data.thread, facts=facts
    )
    # The identities go first, so that nobody goes on writing as them while the rest is erased.
    identities = await _count_identities(caller, data, remove=True)
    receipt = await _erase_subject(db, data, dry_run=False)
    if data.owner is not None:
        await caller.incognito.forget_user(Scope(tenant=caller.identity.tenant, user=data.owner))
    return ErasureView(receipt=receipt, identities=identities)


def _check_erasure(data: NewErasure) -> None:
    if data.thread is not None:
        check_reachable(data.thread)
    if data.identities and data.owner is None:
        raise InvalidArgument(problem="A thread has no identities; name an owner.")


async def _erase_subject(db: Database, data: NewErasure, *, dry_run: bool) -> Receipt:
    return await db.erase(
        owner=data.owner, thread=data.thread, with_retained=data.with_retained, dry_run=dry_run
    )


async def _count_identities(caller: Caller, data: NewErasure, *, remove: bool) -> dict[str, int]:
    """Return how many entries of each kind go with a person, or would."""
    if not data.identities or data.owner is None:
        return {}
    directory = Directory(caller.resources.db)
    user = await find_entry(directory, User, caller.identity.tenant, data.owner)
    if user is None:
        return {}
    entries = await (directory.remove_user(user) if remove else directory.entries_of_user(user))
    return dict(Counter(entry.kind for entry in entries))


@endpoint(LIST_RECEIPTS)
async def list_receipts(caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None) -> ReceiptPage:
    """List the receipts of erasures, the newest first. Role admin."""
    db = caller.tenant_database()
    receipts = await db.retention.receipts()
    pages = caller.pages(cursor, int, "receipts")
    end = len(receipts) if pages.start is None else pages.start
    start = max(end - limit, 0)
    return ReceiptPage(receipts=receipts[start:end][::-1], next=pages.cursor(start or None))


@endpoint(SETTLE_RECEIPTS)
async def settle_receipts(caller: CurrentCaller) -> ReceiptPage:
    """Try again what made receipts wait; return those that are complete now. Role admin."""
    db = caller.tenant_database()
    await audit.record_action(db, caller.identity, SETTLE_RECEIPTS.audit)
    return ReceiptPage(receipts=await db.retention.settle())


@endpoint(LIST_HOLDS)
async def list_holds(caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None) -> HoldPage:
    """List holds, the oldest first. Role admin."""
    records, next = await _operator_page(caller, HOLD_KIND, limit, cursor)
    return HoldPage(holds=[hold_of(record) for record in records], next=next)


async def _operator_page(
    caller: Caller, kind: str, limit: int, cursor: str | None
) -> tuple[Sequence[Record], str | None]:
    """Return some records of a kind that operators alone see, and the cursor of those behind them."""
    pages = caller.pages(cursor, tuple[int, str], kind)
    query = RecordQuery(kind=kind, limit=limit + 1, after=pages.start)
    return pages.cut(await caller.tenant_database().records.find(query), limit, record_position)


@endpoint(HOLD)
async def hold(data: JSONBody[NewHold], caller: CurrentCaller) -> Hold:
    """Hold an owner or a thread, which then cannot be erased or deleted. Role admin."""
    db = caller.tenant_database()
    await audit.record_action(db, caller.identity, HOLD.audit, owner=data.owner, thread=data.thread)
    return await db.retention.hold(owner=data.owner, thread=data.thread, reason=data.reason)


@endpoint(RELEASE)
async def release(
    caller: CurrentCaller, owner: FromQuery[str | None] = None, thread: FromQuery[str | None] = None
) -> None:
    """Release a hold. Role admin."""
    db = caller.tenant_database()
    await audit.record_action(db, caller.identity, RELEASE.audit, owner=owner, thread=thread)
    await db.retention.release(owner=owner, thread=thread)


@endpoint(LIST_RULES)
async def list_rules(caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None) -> RetentionRulePage:
    """List the rules of retention in force, by name. Role admin."""
    records, next = await _operator_page(caller, RULE_KIND, limit, cursor)
    return RetentionRulePage(rules=[rule_of(record) for record in records], next=next)


@endpoint(SET_RULE)
async def set_rule(
    rule: FromPath[str], data: JSONBody[NewRetentionRule], caller: CurrentCaller
) -> RetentionRule:
    """Put a rule in force, or change it. It does nothing until rules are applied. Role admin."""
    db = caller.tenant_database()
    new_rule = RetentionRule(name=decode_path_part(rule), days=data.days, label=data.label)
    await audit.record_action(
        db, caller.identity, SET_RULE.audit, facts={"rule": new_rule.name, "days": new_rule.days}
    )
    await db.retention.add(new_rule)
    return new_rule


@endpoint(DROP_RULE)
async def drop_rule(rule: FromPath[str], caller: CurrentCaller) -> None:
    """Remove a rule. Role admin."""
    db = caller.tenant_database()
    if decode_path_part(rule) not in {each.name for each in await db.retention.rules()}:
        raise RecordNotFound(kind="retention rule", id=decode_path_part(rule))
    await audit.record_action(db, caller.identity, DROP_RULE.audit, facts={"rule": decode_path_part(rule)})
    await db.retention.drop(decode_path_part(rule))


@endpoint(APPLY_RULES)
async def apply_rules(data: JSONBody[NewRuleApplication], caller: CurrentCaller) -> RuleResults:
    """Apply the rules in force, with a receipt for each. Threads that are held stay. Role admin."""
    db = caller.tenant_database()
    if not data.dry_run:
        await audit.record_action(db, caller.identity, APPLY_RULES.audit)
    results = await db.retention.apply(dry_run=data.dry_run)
    return RuleResults(
        rules=[
            RuleResultView(rule=each.rule, threads=list(each.threads), held=each.held, receipt=each.receipt)
            for each in results
        ]
    )


ERASURE_ROUTES = [
    erase,
    list_receipts,
    settle_receipts,
    list_holds,
    hold,
    release,
    list_rules,
    set_rule,
    drop_rule,
    apply_rules,
]
