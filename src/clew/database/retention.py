"""Legal holds, rules by age and label, records with a date, and the receipts of what was erased."""

from collections.abc import AsyncIterator, Sequence

import msgspec

from clew.core.arguments import check_methods
from clew.core.encoding import Id, check_id
from clew.core.erasure import retention
from clew.core.erasure.receipts import (
    DOCUMENT_TAG,
    RETAINED_KIND,
    RULE_KIND,
    ErasureSubject,
    Receipt,
    document_kind,
)
from clew.core.erasure.retention import RetentionRule
from clew.core.errors import InvalidArgument, RecordNotFound, RevisionConflict, ThreadNotFound
from clew.core.log import commit
from clew.core.log import holds as log_holds
from clew.core.log.holds import HOLD_KIND, Hold, hold_id
from clew.core.log.rows import AskRecord, AskThread, ThreadRow, ask
from clew.core.ports import Files, Store
from clew.core.values import THREAD_TAG, Drop, Put, Record, RecordQuery, Scope
from clew.database.erasure import (
    CountsListener,
    check_operator,
    erase_subject,
    ignore_counts,
    read_receipts,
    settle_receipts,
)
from clew.database.records import Records, record_pages

RECORDS_PER_PAGE = 256


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rule; the receipt is missing if no thread went. ``held`` threads stayed."""

    rule: str
    threads: tuple[str, ...] = ()
    held: int = 0
    receipt: Receipt | None = None


@check_methods
class Retention:
    """Holds, rules, receipts and retained records of one tenant, for its operators."""

    def __init__(self, store: Store, scope: Scope, files: Files | None = None) -> None:
        self._store = store
        self._scope = scope
        self._files = files

    async def hold(self, *, owner: Id | None = None, thread: Id | None = None, reason: str) -> Hold:
        """Keep an owner, or a thread, from being erased, deleted or let go. Holding twice is fine.

        Raises:
            ThreadNotFound: There is no such thread.
            Forbidden: This database is used for one user.
        """
        check_operator(self._scope)
        what, name = _hold_target(owner, thread)
        if not reason.strip():
            raise InvalidArgument(problem="Say why it is held.")
        record_owner = owner if what == "owner" else await self._owner_of(name)
        hold = Hold(what=what, name=name, reason=reason, since=self._store.now())
        write = Put(record=log_holds.hold_record(hold, record_owner))
        await self._store.change(self._scope, lambda context: commit.plan_commit([write], context))
        return hold

    async def release(self, *, owner: Id | None = None, thread: Id | None = None) -> None:
        """Let go of a hold.

        Raises:
            RecordNotFound: There is none.
        """
        check_operator(self._scope)
        what, name = _hold_target(owner, thread)
        if await self._store.read(self._scope, ask(AskRecord(HOLD_KIND, hold_id(what, name)))) is None:
            raise RecordNotFound(kind=HOLD_KIND, id=f"{what} {name}")
        write = Drop(kind=HOLD_KIND, id=hold_id(what, name))
        await self._store.change(self._scope, lambda context: commit.plan_commit([write], context))

    async def holds(self) -> list[Hold]:
        """Everything that is held, the oldest hold first."""
        check_operator(self._scope)
        return [hold for hold, _ in await self._store.read(self._scope, log_holds.read_holds())]

    async def receipts(self) -> list[Receipt]:
        """The receipts of all that was erased, the oldest first."""
        return await read_receipts(self._store, self._scope)

    async def settle(self) -> list[Receipt]:
        """Try again what made receipts wait; those that are complete now. A sweeper may call it."""
        return await settle_receipts(self._store, self._scope, self._files)

    async def rules(self) -> list[RetentionRule]:
        """The rules in force, by name."""
        check_operator(self._scope)
        records = await self._records.find(RecordQuery(kind=RULE_KIND, limit=10_000))
        return [retention.rule_of(record) for record in records]

    async def add(self, rule: RetentionRule) -> None:
        """Put a rule in force, or change it. It does nothing until rules are applied."""
        check_operator(self._scope)
        await self._records.put(retention.rule_record(retention.check_rule(rule)))

    async def drop(self, name: Id) -> None:
        """Take a rule back."""
        check_operator(self._scope)
        await self._records.drop(RULE_KIND, name)

    async def apply(
        self,
        rules: Sequence[RetentionRule] | None = None,
        *,
        now: int | None = None,
        dry_run: bool = False,
        notify: CountsListener = ignore_counts,
    ) -> list[RuleResult]:
        """Erase what the rules let go: those given, or those in force. A sweeper may call it.

        What is held stays, and is counted.
        """
        check_operator(self._scope)
        at = self._store.now() if now is None else now
        active_rules = await self.rules() if rules is None else [retention.check_rule(rule) for rule in rules]
        return [await self._apply_rule(rule, at, dry_run=dry_run, notify=notify) for rule in active_rules]

    async def _apply_rule(
        self, rule: RetentionRule, now: int, *, dry_run: bool, notify: CountsListener
    ) -> RuleResult:
        due, held_count = await self._store.read(self._scope, retention.read_due_threads(rule, now))
        receipt = None
        if due and not dry_run:
            subject = ErasureSubject(what="rule", name=rule.name, threads=tuple(due))
            receipt = await erase_subject(self._store, self._scope, subject, files=self._files, notify=notify)
        return RuleResult(rule=rule.name, threads=tuple(due), held=held_count, receipt=receipt)

    # Records with a date.

    async def records(
        self,
        *,
        kind: Id | None = None,
        thread: Id | None = None,
        owner: Id | None = None,
        until: int | None = None,
    ) -> AsyncIterator[Record]:
        """Iterate over the retained records, those first whose date comes first.

        ``kind`` is the kind of document, as the application calls it; ``until`` is a date that is left out.

        Raises:
            Forbidden: This database is used for one user.
        """
        check_operator(self._scope)
        names = {DOCUMENT_TAG: kind, THREAD_TAG: thread}
        tags = tuple(f"{tag}{name}" for tag, name in names.items() if name is not None)
        query = RecordQuery(kind=RETAINED_KIND, tags=tags, owner=owner, until=until, limit=RECORDS_PER_PAGE)
        async for page in record_pages(self._records, query):
            for record in page:
                yield record

    async def purge(self, *, kind: Id | None = None, now: int | None = None) -> int:
        """Delete the retained records whose date has come, and return how many. A sweeper may call it.

        One that is extended at the same moment stays.
        """
        due = (self._store.now() if now is None else now) + 1
        count = 0
        async for record in self.records(kind=kind, until=due):
            try:
                await self._records.drop(RETAINED_KIND, record.id, expect=record.revision)
            except RevisionConflict:
                continue
            count += 1
        return count

    async def extend(
        self,
        *,
        until: int,
        kind: Id | None = None,
        ids: Sequence[Id] = (),
        thread: Id | None = None,
        owner: Id | None = None,
        now: int | None = None,
    ) -> int:
        """Keep retained records for longer, and return how many; none is kept for less.

        They are named by their ids, or by a thread or an owner.

        Raises:
            InvalidArgument: None is named.
            RecordNotFound: There is none of an id.
            Forbidden: This database is used for one user.
        """
        check_operator(self._scope)
        if not ids and thread is None and owner is None:
            raise InvalidArgument(problem="Name the records to keep longer: by ids, a thread or an owner.")
        records = {id: await self._retained_record(id, kind) for id in ids}
        if thread is not None or owner is not None:
            records |= {each.id: each async for each in self.records(kind=kind, thread=thread, owner=owner)}
        at = self._store.now() if now is None else now
        return sum([await self._extend_record(id, until, at) for id in records])

    async def _retained_record(self, id: str, kind: str | None) -> Record:
        record = await self._records.get(RETAINED_KIND, id)
        if kind not in (None, document_kind(record)):
            raise RecordNotFound(kind=RETAINED_KIND, id=id)
        return record

    async def _extend_record(self, id: str, until: int, now: int) -> bool:
        plan = await self._store.change(
            self._scope, lambda context: retention.plan_extension(id, until, now, context)
        )
        return bool(plan.writes)

    @property
    def _records(self) -> Records:
        return Records(self._store, self._scope)

    async def _owner_of(self, thread: str) -> str | None:
        row: ThreadRow | None = await self._store.read(self._scope, ask(AskThread(thread)))
        if row is None:
            raise ThreadNotFound(thread=thread)
        return row.owner


def _hold_target(owner: str | None, thread: str | None) -> tuple[str, str]:
    """The owner or thread that is meant: one of the two."""
    if owner is not None and thread is None:
        return "owner", check_id(owner, "owner")
    if thread is not None and owner is None:
        return "thread", check_id(thread, "thread id")
    raise InvalidArgument(problem="Name one owner or one thread.")
