"""Erasing a subject: the commits that remove it and the lines of its receipt, planned here.

Whole threads go with everything about them. What stays is a line for each in the thread of receipts, written
in the commit that removes it: a hash that only the thread's id leads to, and its head.
"""

from collections.abc import Iterable, Sequence

import msgspec

from clew.core.encoding import as_json
from clew.core.erasure.receipts import (
    FIRST_LINE,
    LAST_LINE,
    RECEIPT_LOG,
    RETAINED_KIND,
    RULE_KIND,
    STEP_LINE,
    ErasureStep,
    ErasureSubject,
    FileSelection,
    Receipt,
    RetainedRecords,
    Tombstone,
    add_counts,
    document_kind,
    file_path,
    salted_hash,
    seal_receipt,
)
from clew.core.log.chain import commitment
from clew.core.log.checks import NO_LIMIT
from clew.core.log.codec import PreparedAppend, prepare_append
from clew.core.log.commit import Plan, PlanContext, plan_commit
from clew.core.log.holds import HOLD_KIND, RECEIPTS_THREAD, hold_error, read_hold_guards, read_holds
from clew.core.log.owners import memory_thread_id
from clew.core.log.reader import END_OF_LOG, read_threads
from clew.core.log.rows import (
    AskItems,
    AskJobs,
    AskRecord,
    AskRecordsAbout,
    AskRecordsOfOwner,
    AskRowCounts,
    AskThread,
    DropRecord,
    DropThread,
    EndJob,
    EraseParts,
    StoreRead,
    StoreWrite,
    ThreadRow,
    UnreadableThread,
    ask,
)
from clew.core.log.vectors import VECTOR_KIND
from clew.core.values import (
    ACTIVE_EPISODE_KIND,
    THREAD_TAG,
    AnyVersion,
    Changeset,
    Item,
    Job,
    Limits,
    Record,
)

THREADS_PER_COMMIT, RECORDS_PER_COMMIT, ROWS_PER_PAGE = 16, 500, 256
LARGE_THREAD_ITEMS, ITEMS_PER_COMMIT = 5000, 1000
"""A thread of so many items is emptied first, so many at a time: one long commit would hold up others."""


class ErasureBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that one commit of an erasure removes."""

    threads: tuple[ThreadRow, ...] = ()
    sizes: dict[str, int] = {}
    records: tuple[Record, ...] = ()
    jobs: tuple[Job, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows, by kind."""
        counts = {"threads": len(self.threads), **self.sizes, "jobs": len(self.jobs)}
        for record in self.records:
            kind = "vectors" if record.kind == VECTOR_KIND else f"records of kind {document_kind(record)}"
            counts[kind] = counts.get(kind, 0) + 1
        return {name: count for name, count in counts.items() if count}


def merge_batches(batches: Iterable[ErasureBatch]) -> ErasureBatch:
    """Several batches together, what is in two of them counted once."""
    every = list(batches)
    sizes: dict[str, int] = {}
    for batch in every:
        sizes = add_counts(sizes, batch.sizes)
    return ErasureBatch(
        threads=tuple(row for batch in every for row in batch.threads),
        sizes=sizes,
        records=tuple({(r.kind, r.id): r for batch in every for r in batch.records}.values()),
        jobs=tuple({job.id: job for batch in every for job in batch.jobs}.values()),
    )


# What belongs to a subject.


def read_subject_threads(subject: ErasureSubject) -> StoreRead[list[str]]:
    """The threads of a subject that are there now, the youngest first: forks go before their parents.

    The memory of a thread without a user goes with it.
    """
    # Rows of a parent stay for as long as a fork needs them, so forks have to go first.
    roots = set(subject.threads)

    def own_id(row: ThreadRow | UnreadableThread) -> str | None:
        if isinstance(row, UnreadableThread) or row.id == RECEIPTS_THREAD:
            return None
        lineage = {row.id, *(segment.id for segment in row.segments)}
        return row.id if subject.is_owner or lineage & roots else None

    ids = yield from read_threads(subject.owner, own_id)
    memories = {memory_thread_id(id, of_thread=True) for id in (*roots, *ids)}
    for id in sorted(memories - set(ids)):
        memory = yield from ask(AskThread(id))
        ids += [id] if memory is not None and _is_erasable(memory.owner, subject) else []
    return ids


def _is_erasable(owner: str | None, subject: ErasureSubject) -> bool:
    """Return whether a memory has no owner, or that of the subject."""
    return owner is None or subject.owner in (None, owner)


def read_damaged_count(subject: ErasureSubject) -> StoreRead[int]:
    """Count the threads of a subject that cannot be read, and so cannot be erased."""

    def own_damaged_id(row: ThreadRow | UnreadableThread) -> str | None:
        is_own = subject.is_owner or row.id in subject.threads
        return row.id if isinstance(row, UnreadableThread) and is_own else None

    return len((yield from read_threads(subject.owner, own_damaged_id)))


def check_not_held(subject: ErasureSubject, ids: Sequence[str]) -> StoreRead[None]:
    """Refuse to begin what would be refused later.

    Raises:
        LegalHold: The subject, or one of its threads, is held.
    """
    owners = {subject.owner}
    if not subject.is_owner:
        owners = set()
        for id in ids:
            row = yield from ask(AskThread(id))
            owners |= {row.owner} if row is not None else set()
    for hold, owner in (yield from read_holds()):
        is_match = hold.name in owners if hold.what == "owner" else hold.name in ids
        # A hold on a thread belongs to the thread's owner, and stops the erasure of that owner too.
        if is_match or (subject.is_owner and owner == subject.owner):
            raise hold_error(hold)


def read_erasure_batch(subject: ErasureSubject, ids: Sequence[str]) -> StoreRead[ErasureBatch]:
    """Read what goes with some threads: their rows, the records that name them, the jobs about those."""
    threads: list[ThreadRow] = []
    sizes: dict[str, int] = {}
    for id in ids:
        row = yield from ask(AskThread(id))
        if row is not None:
            threads.append(row)
            sizes = add_counts(sizes, (yield from ask(AskRowCounts(row.key))))
    owners = {row.owner for row in threads}
    batch = yield from _read_records_about(subject, [row.id for row in threads], owners)
    return msgspec.structs.replace(batch, threads=tuple(threads), sizes=sizes)


def _read_records_about(
    subject: ErasureSubject, ids: Sequence[str], owners: set[str | None]
) -> StoreRead[ErasureBatch]:
    """The records that name some threads, and the jobs that are about those; of some owners or of none."""
    thread_names = _names_of(ids)
    candidates = (yield from ask(AskRecordsAbout(thread_names))) if thread_names else []
    records = [
        r
        for r in candidates
        if r.kind not in subject.retained_kinds and (r.owner is None or r.owner in owners)
    ]
    names = {*thread_names, *(record.id for record in records)}
    jobs = (yield from ask(AskJobs(None, NO_LIMIT))) if names else []
    return ErasureBatch(
        records=tuple({(r.kind, r.id): r for r in records}.values()),
        jobs=tuple(job for job in jobs if _is_about(job, names, owners)),
    )


def _names_of(threads: Iterable[str]) -> tuple[str, ...]:
    """The names by which records refer to threads: their ids, and tags with them."""
    return tuple(name for id in threads for name in (id, f"{THREAD_TAG}{id}"))


def _is_about(job: Job, names: set[str], owners: set[str | None]) -> bool:
    values = job.body.values() if isinstance(job.body, dict) else [job.body]
    mentions = {job.id, job.key, *(value for value in values if isinstance(value, str))}
    return bool(mentions & names) and (job.owner is None or job.owner in owners)


def read_rest_batch(subject: ErasureSubject, most: int = RECORDS_PER_COMMIT) -> StoreRead[ErasureBatch]:
    """Records and jobs beside threads: what is left of an owner, so many at most, or of a deleted thread."""
    if subject.what == "thread":
        return (yield from _read_records_about(subject, subject.threads, {subject.owner}))
    if not subject.is_owner or subject.owner is None:
        return ErasureBatch()
    records = yield from ask(AskRecordsOfOwner(subject.owner, subject.retained_kinds, most))
    jobs = yield from ask(AskJobs(None, NO_LIMIT))
    return ErasureBatch(
        records=tuple(records), jobs=tuple(job for job in jobs if job.owner == subject.owner)[:most]
    )


def read_file_selection(subject: ErasureSubject, ids: Sequence[str]) -> StoreRead[FileSelection]:
    """Read which files belong to a subject and to some threads of it."""
    threads = tuple(dict.fromkeys((*subject.threads, *ids)))
    candidates = (yield from ask(AskRecordsAbout(_names_of(threads)))) if threads else []
    files = [(record.owner, file_path(record.kind, record.body)) for record in candidates]
    return FileSelection(
        owner=subject.owner if subject.is_owner else None,
        threads=threads,
        files=tuple((owner, path) for owner, path in files if path is not None),
    )


def read_retained_records(
    subject: ErasureSubject, ids: Iterable[str]
) -> StoreRead[tuple[RetainedRecords, ...]]:
    """Count the records that stay until their date, by kind, and say until when."""
    if subject.with_retained:
        return ()
    records: list[Record] = []
    if subject.is_owner and subject.owner is not None:
        records = yield from ask(AskRecordsOfOwner(subject.owner, (HOLD_KIND, RULE_KIND), NO_LIMIT))
    names = tuple(f"{THREAD_TAG}{id}" for id in ids)
    records = [*records, *((yield from ask(AskRecordsAbout(names))) if names else [])]
    dates: dict[str, dict[str, int]] = {}
    for record in records:
        if record.kind == RETAINED_KIND:
            dates.setdefault(document_kind(record), {})[record.id] = record.sort
    return tuple(
        RetainedRecords(kind=kind, count=len(dates[kind]), until=max(dates[kind].values()))
        for kind in sorted(dates)
    )


# Commits of an erasure.


def receipt_append(receipt: str, limits: Limits, *lines: tuple[str, Receipt | ErasureStep]) -> PreparedAppend:
    """The append of lines, each by its kind, to the thread of receipts."""
    items = tuple(
        Item(id=receipt, kind=kind, log=RECEIPT_LOG, body=as_json(content)) for kind, content in lines
    )
    change = Changeset(items=items, reason="Erase")
    return prepare_append(RECEIPTS_THREAD, change, AnyVersion(), limits)


def plan_begin_receipt(
    subject: ErasureSubject, id: str, salt: str, limits: Limits, context: PlanContext
) -> StoreRead[Plan]:
    """Plan the first line of a receipt, if nothing of the subject is held.

    Raises:
        LegalHold: The subject, or one of its threads, is held.
    """
    ids = yield from read_subject_threads(subject)
    yield from check_not_held(subject, ids)
    receipt = Receipt(
        id=id,
        time=context.now,
        what=subject.what,
        subject=salted_hash(salt, subject.what, subject.name),
        salt=salt,
        kept=(yield from read_retained_records(subject, ids)),
    )
    return (yield from plan_commit([receipt_append(id, limits, (FIRST_LINE, receipt))], context))


def plan_erase_threads(
    subject: ErasureSubject, receipt: Receipt, ids: Sequence[str], limits: Limits, context: PlanContext
) -> StoreRead[Plan]:
    """Plan to remove some threads and what is about them, and the line that says so."""
    batch = yield from read_erasure_batch(subject, ids)
    return (yield from _plan_batch(batch, receipt, limits, context))


def plan_erase_items(
    receipt: Receipt, id: str, log: str, above: int, limits: Limits, context: PlanContext
) -> StoreRead[Plan]:
    """Plan to blank some items of a large thread before the thread goes; an empty plan if none are left.

    Its entries in the index are counted with the first items. The episode that it is in goes with any of
    them: blanking moves no version, and a turn which starts from what it remembers of the thread, and not
    from what is left, is refused by the revision of its episode.
    """
    row = yield from ask(AskThread(id))
    if row is None:
        return Plan()
    question = AskItems(
        row.key, log, above, END_OF_LOG, END_OF_LOG, ITEMS_PER_COMMIT, backwards=False, with_salts=True
    )
    rows = yield from ask(question)
    if not rows:
        return Plan()
    items = tuple(
        (item.log, item.place, item.erased or commitment(item.salt or b"", item.body or b"")) for item in rows
    )
    # Checked in each commit: a hold may have been made since the erasure began.
    guards = yield from read_hold_guards(row)
    sizes = yield from ask(AskRowCounts(row.key))
    counts = {"index entries": sizes["index entries"]} if above < 0 and sizes["index entries"] else {}
    episode = yield from ask(AskRecord(ACTIVE_EPISODE_KIND, id))
    drops: list[StoreWrite] = []
    if episode is not None and episode.owner in (None, row.owner):
        counts = add_counts(counts, ErasureBatch(records=(episode,)).counts)
        drops = [DropRecord(kind=episode.kind, id=episode.id, before=episode.revision)]
    step = ErasureStep(counts=counts)
    receipt_plan = yield from plan_commit([receipt_append(receipt.id, limits, (STEP_LINE, step))], context)
    writes = [*guards, EraseParts(key=row.key, items=items), *drops, *receipt_plan.writes]
    return msgspec.structs.replace(receipt_plan, writes=writes)


def read_large_logs(id: str) -> StoreRead[tuple[str, ...]]:
    """The logs of a thread that is emptied before it goes."""
    row = yield from ask(AskThread(id))
    logs = {} if row is None else row.counters.logs
    return tuple(logs) if sum(size.end for size in logs.values()) > LARGE_THREAD_ITEMS else ()


def plan_count_files(
    receipt: str, number: int, counts: dict[str, int], limits: Limits, context: PlanContext
) -> StoreRead[Plan]:
    """Plan the line that counts files which were put aside under a number, before they are removed."""
    step = ErasureStep(counts=counts, files=number)
    return (yield from plan_commit([receipt_append(receipt, limits, (STEP_LINE, step))], context))


def plan_erase_rest(
    subject: ErasureSubject, receipt: Receipt, limits: Limits, context: PlanContext
) -> StoreRead[Plan]:
    """Plan to remove some records and jobs beside threads, and the line that says so."""
    batch = yield from read_rest_batch(subject)
    return (yield from _plan_batch(batch, receipt, limits, context))


def _plan_batch(
    batch: ErasureBatch, receipt: Receipt, limits: Limits, context: PlanContext
) -> StoreRead[Plan]:
    # No empty line in the receipts: a pass that removes nothing is how an erasure ends.
    if not batch.counts:
        return Plan()
    # Threads of one owner share the guard on that owner; it is checked once.
    guards: dict[StoreWrite, None] = {}
    for row in batch.threads:
        guards |= dict.fromkeys((yield from read_hold_guards(row)))
    tombstones = tuple(
        Tombstone(mark=salted_hash(receipt.salt, "thread", row.id), version=row.version, hash=row.hash.hex())
        for row in batch.threads
    )
    step = ErasureStep(counts=batch.counts, threads=tombstones)
    receipt_plan = yield from plan_commit([receipt_append(receipt.id, limits, (STEP_LINE, step))], context)
    writes: list[StoreWrite] = [
        *guards,
        # After a stale plan it goes at any version: a writer at work must not save it from erasure.
        *(DropThread(row=row, unconditional=context.fresh) for row in batch.threads),
        *(DropRecord(kind=r.kind, id=r.id, before=r.revision) for r in batch.records),
        *(EndJob(id=job.id, token=job.token) for job in batch.jobs),
        *receipt_plan.writes,
    ]
    old_heads = dict.fromkeys(row.id for row in batch.threads)
    return msgspec.structs.replace(receipt_plan, writes=writes, heads={**old_heads, **receipt_plan.heads})


def plan_finish_receipt(receipt: Receipt, limits: Limits, context: PlanContext) -> StoreRead[Plan]:
    """Plan the last line of a receipt, which may follow an earlier last line."""
    sealed_receipt = seal_receipt(msgspec.structs.replace(receipt, ended=context.now))
    append = receipt_append(receipt.id, limits, (LAST_LINE, sealed_receipt))
    return (yield from plan_commit([append], context))
