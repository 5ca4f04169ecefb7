"""What is erased, and what stays to say so: decided here; a store only removes and writes.

Whole threads go with everything about them. What stays is a line for each in the thread of receipts, written
in the commit that removes it: a hash that can be found only by who knows the thread's id, and its head.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from clew.core.encoding import JSON, plain
from clew.core.erasure.receipts import (
    ARTIFACT,
    BEGUN,
    CRISIS,
    DOCUMENT,
    DONE,
    LOG,
    RULE,
    STEP,
    Kept,
    Receipt,
    Sought,
    Step,
    Subject,
    Tombstone,
    added,
    mark,
    sealed,
)
from clew.core.log.chain import commitment
from clew.core.log.codec import prepare
from clew.core.log.commit import Plan, Ready, Setting, plan_commit
from clew.core.log.holds import HOLD, RECEIPTS, free, read_holds, refusal
from clew.core.log.owners import memory_thread
from clew.core.log.reader import END_OF_LOG
from clew.core.log.rows import (
    Asking,
    AskItems,
    AskJobs,
    AskRecordsAbout,
    AskRecordsOf,
    AskSizes,
    AskThread,
    AskThreads,
    DropRecord,
    DropThread,
    Effect,
    EndJob,
    EraseParts,
    ThreadRow,
    Unreadable,
    ask,
)
from clew.core.values import Anywhere, Changeset, Item, Job, Limits, Record

VECTOR: Final = "memory.vector"
BATCH, RECORDS, PAGE, EVERY = 16, 500, 256, 1 << 40
MANY, THIN = 5000, 1000
"""A thread of so many items is emptied first, so many at a time: nobody has to wait for one long commit."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What one commit of an erasure is to remove."""

    threads: tuple[ThreadRow, ...] = ()
    sizes: dict[str, int] = {}
    records: tuple[Record, ...] = ()
    jobs: tuple[Job, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How much that is, by kind."""
        counts = {"threads": len(self.threads), **self.sizes, "jobs": len(self.jobs)}
        for record in self.records:
            kind = "vectors" if record.kind == VECTOR else f"records of kind {record.kind}"
            counts[kind] = counts.get(kind, 0) + 1
        return {name: count for name, count in counts.items() if count}


def joined(batches: Iterable[Batch]) -> Batch:
    """Several batches together, what is in two of them counted once."""
    every = list(batches)
    sizes: dict[str, int] = {}
    for batch in every:
        sizes = added(sizes, batch.sizes)
    return Batch(
        threads=tuple(row for batch in every for row in batch.threads),
        sizes=sizes,
        records=tuple({(r.kind, r.id): r for batch in every for r in batch.records}.values()),
        jobs=tuple({job.id: job for batch in every for job in batch.jobs}.values()),
    )


# What belongs to a subject.


def read_members(subject: Subject) -> Asking[list[str]]:
    """The threads of a subject that are there now, the youngest first: forks go before their parents.

    What is remembered of a thread without a user goes with it.
    """
    wanted = set(subject.threads)
    found: list[str] = []
    before: tuple[int, str] | None = None
    while rows := (yield from ask(AskThreads(subject.owner, before, PAGE))):
        for row in rows:
            if isinstance(row, ThreadRow) and row.id != RECEIPTS:
                lineage = {row.id, *(segment.id for segment in row.segments)}
                if subject.what == "owner" or lineage & wanted:
                    found.append(row.id)
        before = (rows[-1].created, rows[-1].id)
    memories = {memory_thread(id, of_thread=True) for id in (*wanted, *found)}
    for id in sorted(memories - set(found)):
        memory = yield from ask(AskThread(id))
        found += [id] if memory is not None and _may_go(memory.owner, subject) else []
    return found


def _may_go(owner: str | None, subject: Subject) -> bool:
    """Whether a memory belongs to nobody, or to whom the subject is."""
    return owner is None or subject.owner in (None, owner)


def read_damaged(subject: Subject) -> Asking[int]:
    """How many threads of a subject cannot be read, and so cannot be erased."""
    count = 0
    before: tuple[int, str] | None = None
    while rows := (yield from ask(AskThreads(subject.owner, before, PAGE))):
        hit = [row for row in rows if isinstance(row, Unreadable)]
        count += len([row for row in hit if subject.what == "owner" or row.id in subject.threads])
        before = (rows[-1].created, rows[-1].id)
    return count


def check_free(subject: Subject, ids: Sequence[str]) -> Asking[None]:
    """Refuse to begin what would be refused later.

    Raises:
        LegalHold: The subject, or one of its threads, is held.
    """
    owners = {subject.owner} if subject.what == "owner" else set()
    for id in ids:
        row = yield from ask(AskThread(id)) if subject.what != "owner" else _nothing()
        owners |= {row.owner} if row is not None else set()
    for hold, owner in (yield from read_holds()):
        named = hold.name in owners if hold.what == "owner" else hold.name in ids
        if named or (subject.what == "owner" and owner == subject.owner):
            raise refusal(hold)


def _nothing() -> Asking[ThreadRow | None]:
    """No question: the owner is known."""
    yield from ()
    return None


def read_batch(subject: Subject, ids: Sequence[str]) -> Asking[Batch]:
    """What goes with some threads: their rows, the records that name them, the jobs that are about those."""
    threads: list[ThreadRow] = []
    sizes: dict[str, int] = {}
    for id in ids:
        row = yield from ask(AskThread(id))
        if row is not None:
            threads.append(row)
            sizes = added(sizes, (yield from ask(AskSizes(row.key))))
    owners = {row.owner for row in threads}
    about = yield from _read_about(subject, [row.id for row in threads], owners)
    return msgspec.structs.replace(about, threads=tuple(threads), sizes=sizes)


def _read_about(subject: Subject, ids: Sequence[str], owners: set[str | None]) -> Asking[Batch]:
    """The records that name some threads, and the jobs that are about those; of some owners or of nobody."""
    named = [name for id in ids for name in (id, f"thread:{id}")]
    about = (yield from ask(AskRecordsAbout(tuple(named)))) if named else []
    records = [r for r in about if r.kind not in subject.kept and (r.owner is None or r.owner in owners)]
    names = {*named, *(record.id for record in records)}
    jobs = (yield from ask(AskJobs(None, EVERY))) if names else []
    return Batch(
        records=tuple({(r.kind, r.id): r for r in records}.values()),
        jobs=tuple(job for job in jobs if _is_about(job, names, owners)),
    )


def _is_about(job: Job, names: set[str], owners: set[str | None]) -> bool:
    values = job.body.values() if isinstance(job.body, dict) else [job.body]
    said = {job.id, job.key, *(value for value in values if isinstance(value, str))}
    return bool(said & names) and (job.owner is None or job.owner in owners)


def read_rest(subject: Subject, most: int = RECORDS) -> Asking[Batch]:
    """Records and jobs beside threads: what is left of an owner, so many at most, or of a deleted thread."""
    if subject.what == "thread":
        return (yield from _read_about(subject, subject.threads, {subject.owner}))
    if subject.what != "owner" or subject.owner is None:
        return Batch()
    records = yield from ask(AskRecordsOf(subject.owner, subject.kept, most))
    jobs = yield from ask(AskJobs(None, EVERY))
    return Batch(records=tuple(records), jobs=tuple(job for job in jobs if job.owner == subject.owner)[:most])


def read_sought(subject: Subject, ids: Sequence[str]) -> Asking[Sought]:
    """What can stand in files, of a subject and of some threads of it."""
    threads = tuple(dict.fromkeys((*subject.threads, *ids)))
    names = [name for id in threads for name in (id, f"thread:{id}")]
    about = (yield from ask(AskRecordsAbout(tuple(names)))) if names else []
    written = [r for r in about if r.kind in (ARTIFACT, DOCUMENT) and isinstance(r.body, dict)]
    files = [(record.owner, record.body.get("path")) for record in written]
    return Sought(
        owner=subject.owner if subject.what == "owner" else None,
        threads=threads,
        files=tuple((owner, path) for owner, path in files if isinstance(path, str)),
    )


def read_kept(subject: Subject, ids: Iterable[str]) -> Asking[tuple[Kept, ...]]:
    """Rows of the crisis log that stay, and until when."""
    if CRISIS not in subject.kept:
        return ()
    records: list[Record] = []
    if subject.what == "owner" and subject.owner is not None:
        records = yield from ask(AskRecordsOf(subject.owner, (HOLD, RULE), EVERY))
    names = tuple(f"thread:{id}" for id in ids)
    records = [*records, *((yield from ask(AskRecordsAbout(names))) if names else [])]
    rows = {record.id: record.sort for record in records if record.kind == CRISIS}
    return (Kept(kind=CRISIS, count=len(rows), until=max(rows.values())),) if rows else ()


# Commits of an erasure.


def note(receipt: str, kind: str, body: JSON, limits: Limits) -> Ready:
    """A line in the thread of receipts."""
    item = Item(id=receipt, kind=kind, log=LOG, body=body)
    change = Changeset(items=(item,), reason="Erase")
    return Ready(thread=RECEIPTS, prepared=prepare(change, limits), expect=Anywhere())


def plan_begin(subject: Subject, id: str, salt: str, limits: Limits, setting: Setting) -> Asking[Plan]:
    """The first line of a receipt, once it is sure that nothing is held.

    Raises:
        LegalHold: The subject, or one of its threads, is held.
    """
    ids = yield from read_members(subject)
    yield from check_free(subject, ids)
    receipt = Receipt(
        id=id,
        time=setting.now,
        what=subject.what,
        subject=mark(salt, subject.what, subject.name),
        salt=salt,
        kept=(yield from read_kept(subject, ids)),
    )
    return (yield from plan_commit([note(id, BEGUN, plain(receipt), limits)], setting))


def plan_threads(
    subject: Subject, receipt: Receipt, ids: Sequence[str], limits: Limits, setting: Setting
) -> Asking[Plan]:
    """The end of some threads, of what is about them, and the line that says so."""
    batch = yield from read_batch(subject, ids)
    return (yield from _plan_batch(batch, receipt, limits, setting))


def plan_thin(
    receipt: Receipt, id: str, log: str, above: int, limits: Limits, setting: Setting
) -> Asking[Plan]:
    """The end of what some items of a large thread say, before the thread goes; nothing if none are left.

    Their entries in the index are counted with the first of them.
    """
    row = yield from ask(AskThread(id))
    if row is None:
        return Plan(effects=[], results=[], known={})
    question = AskItems(row.key, log, above, END_OF_LOG, END_OF_LOG, THIN, backwards=False, whole=True)
    rows = yield from ask(question)
    if not rows:
        return Plan(effects=[], results=[], known={})
    items = tuple(
        (item.log, item.place, item.erased or commitment(item.salt or b"", item.body or b"")) for item in rows
    )
    guards = yield from free(row)
    sizes = yield from ask(AskSizes(row.key))
    counts = {"index entries": sizes["index entries"]} if above < 0 and sizes["index entries"] else {}
    told = yield from plan_commit([note(receipt.id, STEP, plain(Step(counts=counts)), limits)], setting)
    effects: list[Effect] = [*guards, EraseParts(key=row.key, items=items), *told.effects]
    return Plan(effects=effects, results=told.results, known=told.known)


def read_large(id: str) -> Asking[tuple[str, ...]]:
    """The logs of a thread that is emptied before it goes."""
    row = yield from ask(AskThread(id))
    logs = {} if row is None else row.counters.logs
    return tuple(logs) if sum(size.end for size in logs.values()) > MANY else ()


def plan_files(
    receipt: str, number: int, counts: dict[str, int], limits: Limits, setting: Setting
) -> Asking[Plan]:
    """The line that counts files which were put aside under a number, before they are removed."""
    step = plain(Step(counts=counts, files=number))
    return (yield from plan_commit([note(receipt, STEP, step, limits)], setting))


def plan_rest(subject: Subject, receipt: Receipt, limits: Limits, setting: Setting) -> Asking[Plan]:
    """The end of some records and jobs beside threads, and the line that says so."""
    batch = yield from read_rest(subject)
    return (yield from _plan_batch(batch, receipt, limits, setting))


def _plan_batch(batch: Batch, receipt: Receipt, limits: Limits, setting: Setting) -> Asking[Plan]:
    if not batch.counts:
        return Plan(effects=[], results=[], known={})
    guards: dict[Any, Effect] = {}
    for row in batch.threads:
        guards |= {effect: effect for effect in (yield from free(row))}
    stones = tuple(
        Tombstone(mark=mark(receipt.salt, "thread", row.id), version=row.version, hash=row.hash.hex())
        for row in batch.threads
    )
    step = plain(Step(counts=batch.counts, threads=stones))
    told = yield from plan_commit([note(receipt.id, STEP, step, limits)], setting)
    effects: list[Effect] = [
        *guards.values(),
        *(DropThread(row=row, anyway=setting.fresh) for row in batch.threads),
        *(DropRecord(kind=r.kind, id=r.id, before=r.revision) for r in batch.records),
        *(EndJob(id=job.id, token=job.token) for job in batch.jobs),
        *told.effects,
    ]
    gone = dict.fromkeys(row.id for row in batch.threads)
    return Plan(effects=effects, results=told.results, known={**gone, **told.known})


def plan_done(receipt: Receipt, limits: Limits, setting: Setting) -> Asking[Plan]:
    """The last line of a receipt, or another last line once more is done."""
    body = plain(sealed(msgspec.structs.replace(receipt, ended=setting.now)))
    return (yield from plan_commit([note(receipt.id, DONE, body, limits)], setting))
