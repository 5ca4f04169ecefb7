"""Erasing a subject everywhere: in batches, each a commit of its own, until nothing is left; then a receipt.

It can be killed at any moment. Erasing the same subject again goes on with the same receipt.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from clew.core.encoding import check_id, decode
from clew.core.erasure import parts as erasure_parts
from clew.core.erasure import receipts
from clew.core.erasure import subject as erasure_subject
from clew.core.erasure.parts import PARTS_SUBJECT, Parts, read_family
from clew.core.erasure.receipts import (
    COMPLETE,
    PENDING,
    PREVIEW,
    UNFINISHED,
    ErasureStep,
    ErasureSubject,
    FileSelection,
    Receipt,
    add_counts,
    last_files_number,
)
from clew.core.erasure.subject import ErasureBatch
from clew.core.errors import Forbidden, ThreadExists, ThreadNotFound, VersionConflict
from clew.core.log import lineage
from clew.core.log.checks import NO_LIMIT
from clew.core.log.commit import Plan, Planner
from clew.core.log.holds import RECEIPTS_THREAD
from clew.core.log.reader import read_thread, read_window
from clew.core.log.rows import Advance, AskThread, EraseParts, StoreRead, ask
from clew.core.ports import Files, Store
from clew.core.values import Item, ItemQuery, Scope, Window
from clew.database import archive_files
from clew.database.provisional import drop_subject_texts, drop_thread_texts
from clew.database.verify import Verdict


def check_operator(scope: Scope) -> None:
    """Refuse a database that is used for one user.

    Raises:
        Forbidden: It is. A receipt belongs to no user, so erasing is for operators.
    """
    if scope.user is not None:
        what = "Erasing, holds, receipts and retained records"
        raise Forbidden(problem=f"{what} are for operators. Use the tenant's database.")


async def read_receipt_lines(store: Store, scope: Scope) -> Sequence[Item]:
    """The lines of the thread of receipts; none if nothing was erased yet."""
    check_operator(scope)
    try:
        return await store.read(scope, _read_lines())
    except ThreadNotFound:
        return ()


def _read_lines() -> StoreRead[Window]:
    row = yield from read_thread(RECEIPTS_THREAD)
    return (yield from read_window(row, ItemQuery(log=receipts.RECEIPT_LOG)))


NO_VOLUME = "files on a volume, if there is one: none was named"


class ErasureFiles:
    """The files beside a store, as one erasure sees them. It remembers threads after they are gone."""

    def __init__(self, store: Store, scope: Scope, files: Files | None) -> None:
        self._store = store
        self._scope = scope
        self._files = files
        self._thread_ids: dict[str, None] = {}

    @property
    def beyond(self) -> tuple[str, ...]:
        """Places with copies that cannot be reached."""
        return (NO_VOLUME,) if self._files is None else self._files.beyond

    async def count(self, subject: ErasureSubject) -> dict[str, int]:
        """Count the files of a subject."""
        if self._files is None:
            return {}
        return await self._files.count(self._scope.tenant, await self._read_selection(subject))

    async def erase(self, subject: ErasureSubject, receipt: Receipt) -> dict[str, int]:
        """Remove the files of a subject, and count them.

        Raises:
            LegalHold: The subject, or one of its threads, is held by now.
        """
        if self._files is None:
            return {}
        selection = await self._read_selection(subject)
        await self._store.read(self._scope, erasure_subject.check_not_held(subject, selection.threads))
        return await self._remove(self._files, selection, receipt.id)

    async def remove_manifests(self, thread: str, receipt: Receipt) -> None:
        """Remove the manifests of a thread of which a part was erased, and of all that may share it.

        They hold what the thread held. The next checkpoint writes them anew.
        """
        if self._files is not None:
            family = await self._store.read(self._scope, read_family(thread))
            await self._remove(self._files, FileSelection(threads=tuple(family)), receipt.id)

    async def _remove(self, files: Files, selection: FileSelection, id: str) -> dict[str, int]:
        tenant = self._scope.tenant
        number = last_files_number(await read_receipt_lines(self._store, self._scope), id)
        # Files cannot go in the same commit as rows: put aside, counted in the receipt, then removed.
        counts = await files.put_aside(tenant, selection, id, number + 1)
        if counts:
            planner = partial(erasure_subject.plan_count_files, id, number + 1, counts, self._store.limits)
            await self._store.change(self._scope, planner)
        await files.remove(tenant, id, number + 1)
        return counts

    async def _read_selection(self, subject: ErasureSubject) -> FileSelection:
        ids = await self._store.read(self._scope, erasure_subject.read_subject_threads(subject))
        # Threads that are gone from the tables may still have files, so their ids are kept here.
        self._thread_ids |= dict.fromkeys(ids)
        return await self._store.read(
            self._scope, erasure_subject.read_file_selection(subject, tuple(self._thread_ids))
        )


RUNNING_TEXTS = "texts of running answers"
PASSES = 20
"""The most passes over what was written meanwhile."""
STILL_WRITING = "others go on writing; erase again once they have stopped"
DAMAGED_THREAD = "a thread whose row is damaged could not be erased; restore it from a backup and erase again"

Counts: TypeAlias = dict[str, int]
CountsListener: TypeAlias = Callable[[Counts], None]
"""A function that is called with the counts of what each commit removed."""


def ignore_counts(counts: Counts) -> None:
    """Do nothing with the counts."""


async def erase_subject(
    store: Store,
    scope: Scope,
    subject: ErasureSubject,
    *,
    files: Files | None = None,
    dry_run: bool = False,
    notify: CountsListener = ignore_counts,
) -> Receipt:
    """Erase a subject everywhere, in files too if they are given, and say so in a receipt.

    Raises:
        LegalHold: The subject, or one of its threads, is held; nothing was removed.
        ThreadNotFound: There is no such thread, nothing was forked from it, and nothing is about it.
        Forbidden: The scope is one user's.
    """
    check_operator(scope)
    check_id(subject.name, subject.what)
    if dry_run:
        return await _preview(store, scope, subject, files)
    receipt = await _open_receipt(store, scope, subject, files)
    erasure_files = ErasureFiles(store, scope, files)
    threads = {*subject.threads, *await store.read(scope, erasure_subject.read_subject_threads(subject))}
    counts: Counts = {}
    # Until a pass finds nothing: others may go on writing while it is at work.
    for _ in range(PASSES):
        # Files before rows: records and threads that are about to go say which files there are.
        counts = await erasure_files.erase(subject, receipt)
        notify({name: count for name, count in counts.items() if not name.startswith("bytes")})
        counts = add_counts(counts, await _erase_pass(store, scope, subject, receipt, notify))
        receipt = msgspec.structs.replace(receipt, counts=add_counts(receipt.counts, counts))
        if not counts:
            break
    # After the threads: a turn at work on one that is gone keeps no more of its text.
    owner = subject.owner if subject.is_owner else None
    text_count = await drop_subject_texts(store, scope, owner=owner, threads=threads)
    # Archives of the threads lie beside the database, and hold the same words.
    sweep = await archive_files.sweep_archives(await _archive_directory(store), subject)
    last_counts = {RUNNING_TEXTS: text_count, "archives": sweep.count}
    last_counts = {name: count for name, count in last_counts.items() if count}
    notify(last_counts)
    receipt = msgspec.structs.replace(receipt, counts=add_counts(receipt.counts, last_counts))
    reasons = [*sweep.reasons, *([STILL_WRITING] if counts else [])]
    if await store.read(scope, erasure_subject.read_damaged_count(subject)):
        reasons.append(DAMAGED_THREAD)
    return await _finish_receipt(store, scope, receipt, reasons, erasure_files.beyond)


async def erase_parts(
    store: Store, scope: Scope, thread: str, parts: Parts, files: Files | None = None
) -> Receipt:
    """Erase parts of a thread, with the manifests that hold them, and say so in a receipt.

    Raises:
        RecordNotFound: There is no item of an id.
        LegalHold: The thread is held; nothing was removed.
        Forbidden: The scope is one user's.
    """
    check_operator(scope)
    erasure_parts.check_parts(parts)
    await _create_receipts_thread(store, scope)
    id, salt = f"receipt-{secrets.token_hex(10)}", secrets.token_hex(16)
    for attempt in range(PASSES):
        try:
            await store.change(
                scope, partial(erasure_parts.plan_erase_parts, thread, parts, id, salt, store.limits)
            )
            break
        except VersionConflict:  # the thread was written to between two questions
            if attempt + 1 == PASSES:
                raise
    erasure_files = ErasureFiles(store, scope, files)
    await erasure_files.remove_manifests(thread, await _read_receipt(store, scope, id))
    # An answer that is being written may repeat what was erased.
    await drop_thread_texts(store, scope, await store.read(scope, read_family(thread)))
    reasons = await archive_files.archives_with_thread(await _archive_directory(store), thread)
    return await _finish_receipt(
        store, scope, await _read_receipt(store, scope, id), reasons, erasure_files.beyond
    )


async def settle_receipts(store: Store, scope: Scope, files: Files | None = None) -> list[Receipt]:
    """Try again what made receipts wait, and return those that are complete now."""
    all_receipts = await read_receipts(store, scope)
    waiting = [
        r for r in all_receipts if r.status == PENDING or (r.status == UNFINISHED and r.what == PARTS_SUBJECT)
    ]
    for receipt in waiting:
        if receipt.status == UNFINISHED and (thread := await _thread_of(store, scope, receipt)) is not None:
            # It was broken off between its commit and its files.
            await ErasureFiles(store, scope, files).remove_manifests(thread, receipt)
    waiting = [await _read_receipt(store, scope, receipt.id) for receipt in waiting]
    archives = archive_files.archive_names(await _archive_directory(store)) if waiting else set()
    results = [
        await _finish_receipt(
            store,
            scope,
            receipt,
            [why for why in receipt.waiting if _still_applies(why, archives)],
            receipt.beyond,
        )
        for receipt in waiting
    ]
    return [receipt for receipt in results if receipt.status == COMPLETE]


async def _thread_of(store: Store, scope: Scope, receipt: Receipt) -> str | None:
    """The thread of which a part was erased: the one whose salted hash the receipt has."""
    every_thread = ErasureSubject(what="owner", name="")
    for id in await store.read(scope, erasure_subject.read_subject_threads(every_thread)):
        if receipts.salted_hash(receipt.salt, PARTS_SUBJECT, id) == receipt.subject:
            return id
    return None


def _still_applies(why: str, archives: set[str]) -> bool:
    """Return whether a reason still makes the receipt wait: scrubbing again does not remove it."""
    return why in (STILL_WRITING, DAMAGED_THREAD) or any(
        why.startswith(f"{archive_files.REASON_PREFIX}{name} ") for name in archives
    )


async def find_erased_thread(store: Store, scope: Scope, thread: str) -> Verdict | None:
    """Find the verdict on a thread that was erased whole; None if it was not, or is there again."""
    if scope.user is not None or await store.read(scope, ask(AskThread(thread))) is not None:
        return None
    lines = await read_receipt_lines(store, scope)
    salts = {receipt.id: receipt.salt for receipt in receipts.receipts_of(lines)}
    for receipt, tombstones in receipts.tombstones_of(lines).items():
        for tombstone in tombstones:
            if tombstone.mark == receipts.salted_hash(salts[receipt], "thread", thread):
                whole = (f"the whole thread ({receipt})",)
                return Verdict(
                    tenant=scope.tenant,
                    thread=thread,
                    version=tombstone.version,
                    hash=tombstone.hash,
                    erased=whole,
                )
    return None


async def read_receipts(store: Store, scope: Scope) -> list[Receipt]:
    """Every receipt, the oldest first."""
    return receipts.receipts_of(await read_receipt_lines(store, scope))


async def _preview(store: Store, scope: Scope, subject: ErasureSubject, files: Files | None) -> Receipt:
    """A receipt of what erasing would remove now."""
    ids = await store.read(scope, erasure_subject.read_subject_threads(subject))
    rest = await store.read(scope, erasure_subject.read_rest_batch(subject, NO_LIMIT))
    file_counts = await ErasureFiles(store, scope, files).count(subject)
    _check_exists(subject, ids, rest, file_counts)
    await store.read(scope, erasure_subject.check_not_held(subject, ids))
    batches = [
        await store.read(scope, erasure_subject.read_erasure_batch(subject, chunk)) for chunk in _chunks(ids)
    ]
    return Receipt(
        id="",
        time=0,
        what=subject.what,
        subject="",
        salt="",
        status=PREVIEW,
        counts=add_counts(erasure_subject.merge_batches([*batches, rest]).counts, file_counts),
        kept=await store.read(scope, erasure_subject.read_retained_records(subject, ids)),
    )


def _check_exists(
    subject: ErasureSubject, ids: Sequence[str], rest: ErasureBatch, file_counts: Counts
) -> None:
    if subject.what == "thread" and not ids and not rest.counts and not file_counts:
        raise ThreadNotFound(thread=subject.name)


async def _open_receipt(store: Store, scope: Scope, subject: ErasureSubject, files: Files | None) -> Receipt:
    """The receipt to go on with: one that was begun for this subject and is not complete, or a new one."""
    ids = await store.read(scope, erasure_subject.read_subject_threads(subject))
    # An erasure that was broken off goes on with its receipt, which then counts everything.
    for receipt in await read_receipts(store, scope):
        if receipt.status in (UNFINISHED, PENDING) and receipt.is_about(subject):
            await store.read(scope, erasure_subject.check_not_held(subject, ids))
            return receipt
    file_counts = await ErasureFiles(store, scope, files).count(subject)
    _check_exists(
        subject, ids, await store.read(scope, erasure_subject.read_rest_batch(subject)), file_counts
    )
    await _create_receipts_thread(store, scope)
    id, salt = f"receipt-{secrets.token_hex(10)}", secrets.token_hex(16)
    await store.change(scope, partial(erasure_subject.plan_begin_receipt, subject, id, salt, store.limits))
    return await _read_receipt(store, scope, id)


async def _create_receipts_thread(store: Store, scope: Scope) -> None:
    """Create the thread of receipts, if it is not there yet."""
    with suppress(ThreadExists):
        await store.change(scope, lambda context: lineage.plan_create(RECEIPTS_THREAD, None, context))


async def _read_receipt(store: Store, scope: Scope, id: str) -> Receipt:
    return next(receipt for receipt in await read_receipts(store, scope) if receipt.id == id)


async def _erase_pass(
    store: Store, scope: Scope, subject: ErasureSubject, receipt: Receipt, notify: CountsListener
) -> Counts:
    """Remove what is there now, one commit after another, and count it."""
    counts: Counts = {}
    for chunk in _chunks(await store.read(scope, erasure_subject.read_subject_threads(subject))):
        for id in chunk:
            counts = add_counts(counts, await _erase_large_thread(store, scope, receipt, id, notify))
        planner = partial(erasure_subject.plan_erase_threads, subject, receipt, chunk, store.limits)
        batch_counts = await _commit_and_count(store, scope, planner)
        notify(batch_counts)
        counts = add_counts(counts, batch_counts)
    while batch_counts := await _commit_and_count(
        store, scope, partial(erasure_subject.plan_erase_rest, subject, receipt, store.limits)
    ):
        notify(batch_counts)
        counts = add_counts(counts, batch_counts)
    return counts


async def _erase_large_thread(
    store: Store, scope: Scope, receipt: Receipt, id: str, notify: CountsListener
) -> Counts:
    """Blank the items of a large thread, some at a time, before it goes; count its index entries."""
    counts: Counts = {}
    for log in await store.read(scope, erasure_subject.read_large_logs(id)):
        above = -1
        while True:
            planner = partial(erasure_subject.plan_erase_items, receipt, id, log, above, store.limits)
            plan = await store.change(scope, planner)
            erasures = [write for write in plan.writes if isinstance(write, EraseParts)]
            if not erasures:
                break
            above = erasures[0].items[-1][1]
            counts = add_counts(counts, _counts_in(plan))
            notify({"bodies": len(erasures[0].items)})
    return counts


async def _commit_and_count(store: Store, scope: Scope, planner: Planner) -> Counts:
    """Commit a plan, and count what it removed by the line that went with it."""
    return _counts_in(await store.change(scope, planner))


def _counts_in(plan: Plan) -> Counts:
    # The only append of such a plan is the line of its receipt.
    lines = [write.items[0].body for write in plan.writes if isinstance(write, Advance)]
    return msgspec.convert(decode(lines[0]), ErasureStep).counts if lines and lines[0] is not None else {}


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), erasure_subject.THREADS_PER_COMMIT):
        yield ids[start : start + erasure_subject.THREADS_PER_COMMIT]


async def _archive_directory(store: Store) -> Path | None:
    """The directory with archives of a store: that of its file, if it has one."""
    path = (await store.report()).facts.get("path")
    return Path(path).parent if isinstance(path, str) else None


async def _finish_receipt(
    store: Store, scope: Scope, receipt: Receipt, reasons: Sequence[str], beyond: Sequence[str] = ()
) -> Receipt:
    """Remove the last traces, as far as the store can now, and finish the receipt."""
    # After the last row: pages, index and log still hold bytes of what was removed.
    scrub_result = await store.scrub()
    waiting = (*reasons, *scrub_result.waiting)
    result = msgspec.structs.replace(
        receipt,
        status=PENDING if waiting else COMPLETE,
        waiting=waiting,
        beyond=tuple(dict.fromkeys((*scrub_result.beyond, *beyond))),
    )
    await store.change(scope, partial(erasure_subject.plan_finish_receipt, result, store.limits))
    return await _read_receipt(store, scope, receipt.id)
