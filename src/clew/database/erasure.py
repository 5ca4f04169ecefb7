"""Erasing a subject everywhere: in batches, each a commit of its own, until nothing is left; then a receipt.

It can be killed at any moment. Whoever asks for the same subject again goes on with the same receipt.
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
from clew.core.erasure.parts import PARTS, Parts, read_family
from clew.core.erasure.receipts import (
    COMPLETE,
    PENDING,
    PREVIEW,
    UNFINISHED,
    Receipt,
    Sought,
    Step,
    Subject,
    added,
    files_of,
)
from clew.core.erasure.subject import Batch
from clew.core.errors import Forbidden, ThreadExists, ThreadNotFound, VersionConflict
from clew.core.log import lineage
from clew.core.log.commit import Plan, Setting
from clew.core.log.holds import RECEIPTS
from clew.core.log.reader import read_thread, read_window
from clew.core.log.rows import Advance, Asking, AskThread, EraseParts, ask
from clew.core.ports import Files, Store
from clew.core.values import Item, ItemQuery, Scope, Window
from clew.database import archive_files
from clew.database.verify import Verdict


def check_operator(scope: Scope) -> None:
    """Refuse a database that is used for one user.

    Raises:
        Forbidden: It is. A receipt belongs to no user, so erasing is for operators.
    """
    if scope.user is not None:
        raise Forbidden(problem="Erasing, holds and receipts are for operators. Use the tenant's database.")


async def read_lines(store: Store, scope: Scope) -> Sequence[Item]:
    """The lines of the thread of receipts; none if nothing was erased yet."""
    check_operator(scope)
    try:
        return await store.read(scope, _lines())
    except ThreadNotFound:
        return ()


def _lines() -> Asking[Window]:
    row = yield from read_thread(RECEIPTS)
    return (yield from read_window(row, ItemQuery(log=receipts.LOG)))


NOT_NAMED = "files on a volume, if there is one: none was named"


class FilesBeside:
    """The files beside a store, as one erasure sees them. It remembers threads after they are gone."""

    def __init__(self, store: Store, scope: Scope, files: Files | None) -> None:
        self._store = store
        self._scope = scope
        self._files = files
        self._seen: dict[str, None] = {}

    @property
    def beyond(self) -> tuple[str, ...]:
        """Places with copies that cannot be reached."""
        return (NOT_NAMED,) if self._files is None else self._files.beyond

    async def found(self, subject: Subject) -> dict[str, int]:
        """How much of a subject there is."""
        if self._files is None:
            return {}
        return await self._files.found(self._scope.tenant, await self._sought(subject))

    async def erased(self, subject: Subject, receipt: Receipt) -> dict[str, int]:
        """Remove what is there of a subject; how much it was.

        Raises:
            LegalHold: The subject, or one of its threads, is held by now.
        """
        if self._files is None:
            return {}
        sought = await self._sought(subject)
        await self._store.read(self._scope, erasure_subject.check_free(subject, sought.threads))
        return await self._removed(self._files, sought, receipt.id)

    async def blanked(self, thread: str, receipt: Receipt) -> None:
        """Remove the manifests of a thread of which a part was erased, and of all that may share it.

        They hold what the thread held. The next checkpoint writes them anew.
        """
        if self._files is not None:
            family = await self._store.read(self._scope, read_family(thread))
            await self._removed(self._files, Sought(threads=tuple(family)), receipt.id)

    async def _removed(self, files: Files, sought: Sought, id: str) -> dict[str, int]:
        tenant = self._scope.tenant
        number = files_of(await read_lines(self._store, self._scope), id)
        counts = await files.put_aside(tenant, sought, id, number + 1)
        if counts:
            planning = partial(erasure_subject.plan_files, id, number + 1, counts, self._store.limits)
            await self._store.change(self._scope, planning)
        await files.remove(tenant, id, number + 1)
        return counts

    async def _sought(self, subject: Subject) -> Sought:
        ids = await self._store.read(self._scope, erasure_subject.read_members(subject))
        self._seen |= dict.fromkeys(ids)
        return await self._store.read(self._scope, erasure_subject.read_sought(subject, tuple(self._seen)))


PASSES = 20
"""How often to look for what somebody wrote meanwhile."""
WRITING = "somebody goes on writing; erase again once they have stopped"
DAMAGED = "a thread whose row is damaged could not be erased; restore it from a backup and erase again"

Counts: TypeAlias = dict[str, int]
Told: TypeAlias = Callable[[Counts], None]
"""Who is told what each commit removed."""
Planning: TypeAlias = Callable[[Setting], Asking[Plan]]


def nobody(counts: Counts) -> None:
    """Nobody is told."""


async def erase(
    store: Store,
    scope: Scope,
    subject: Subject,
    *,
    files: Files | None = None,
    dry_run: bool = False,
    told: Told = nobody,
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
    receipt = await _begun(store, scope, subject, files)
    beside = FilesBeside(store, scope, files)
    removed: Counts = {}
    for _ in range(PASSES):
        removed = await beside.erased(subject, receipt)
        told({name: count for name, count in removed.items() if not name.startswith("bytes")})
        removed = added(removed, await _pass(store, scope, subject, receipt, told))
        receipt = msgspec.structs.replace(receipt, counts=added(receipt.counts, removed))
        if not removed:
            break
    swept = await archive_files.sweep(await _directory(store), subject)
    told({"archives": swept.count} if swept.count else {})
    receipt = msgspec.structs.replace(
        receipt, counts=added(receipt.counts, {"archives": swept.count} if swept.count else {})
    )
    left = [*swept.left, *([WRITING] if removed else [])]
    if await store.read(scope, erasure_subject.read_damaged(subject)):
        left.append(DAMAGED)
    return await _ended(store, scope, receipt, left, beside.beyond)


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
    erasure_parts.checked(parts)
    await _make_thread(store, scope)
    id, salt = f"receipt-{secrets.token_hex(10)}", secrets.token_hex(16)
    for attempt in range(PASSES):
        try:
            await store.change(
                scope, partial(erasure_parts.plan_parts, thread, parts, id, salt, store.limits)
            )
            break
        except VersionConflict:  # somebody wrote between two questions
            if attempt + 1 == PASSES:
                raise
    beside = FilesBeside(store, scope, files)
    await beside.blanked(thread, await _receipt(store, scope, id))
    left = await archive_files.holding(await _directory(store), thread)
    return await _ended(store, scope, await _receipt(store, scope, id), left, beside.beyond)


async def settle(store: Store, scope: Scope, files: Files | None = None) -> list[Receipt]:
    """Try again what made receipts wait; those that are complete now."""
    found = await read_receipts(store, scope)
    waiting = [r for r in found if r.status == PENDING or (r.status == UNFINISHED and r.what == PARTS)]
    for receipt in waiting:
        if receipt.status == UNFINISHED and (thread := await _thread_of(store, scope, receipt)) is not None:
            await FilesBeside(store, scope, files).blanked(thread, receipt)
    waiting = [await _receipt(store, scope, receipt.id) for receipt in waiting]
    there = archive_files.names(await _directory(store)) if waiting else set()
    ended = [
        await _ended(
            store, scope, receipt, [why for why in receipt.waiting if _is_left(why, there)], receipt.beyond
        )
        for receipt in waiting
    ]
    return [receipt for receipt in ended if receipt.status == COMPLETE]


async def _thread_of(store: Store, scope: Scope, receipt: Receipt) -> str | None:
    """The thread of which a part was erased: no name is in a receipt, but it can be held against one."""
    everybody = Subject(what="owner", name="")
    for id in await store.read(scope, erasure_subject.read_members(everybody)):
        if receipts.mark(receipt.salt, PARTS, id) == receipt.subject:
            return id
    return None


def _is_left(why: str, there: set[str]) -> bool:
    """Whether only erasing the subject again, or removing an archive, can help."""
    return why in (WRITING, DAMAGED) or any(why.startswith(f"{archive_files.LEFT}{name} ") for name in there)


async def erased_whole(store: Store, scope: Scope, thread: str) -> Verdict | None:
    """What there is to say of a thread that was erased whole; None if it was not, or is there again."""
    if scope.user is not None or await store.read(scope, ask(AskThread(thread))) is not None:
        return None
    lines = await read_lines(store, scope)
    salts = {receipt.id: receipt.salt for receipt in receipts.receipts_of(lines)}
    for receipt, stones in receipts.tombstones_of(lines).items():
        for stone in stones:
            if stone.mark == receipts.mark(salts[receipt], "thread", thread):
                whole = (f"the whole thread ({receipt})",)
                return Verdict(
                    tenant=scope.tenant, thread=thread, version=stone.version, hash=stone.hash, erased=whole
                )
    return None


async def read_receipts(store: Store, scope: Scope) -> list[Receipt]:
    """Every receipt, the oldest first."""
    return receipts.receipts_of(await read_lines(store, scope))


async def _preview(store: Store, scope: Scope, subject: Subject, files: Files | None) -> Receipt:
    """What erasing would remove now."""
    ids = await store.read(scope, erasure_subject.read_members(subject))
    rest = await store.read(scope, erasure_subject.read_rest(subject, erasure_subject.EVERY))
    beside = await FilesBeside(store, scope, files).found(subject)
    _check_there(subject, ids, rest, beside)
    await store.read(scope, erasure_subject.check_free(subject, ids))
    batches = [await store.read(scope, erasure_subject.read_batch(subject, chunk)) for chunk in _chunks(ids)]
    return Receipt(
        id="",
        time=0,
        what=subject.what,
        subject="",
        salt="",
        status=PREVIEW,
        counts=added(erasure_subject.joined([*batches, rest]).counts, beside),
        kept=await store.read(scope, erasure_subject.read_kept(subject, ids)),
    )


def _check_there(subject: Subject, ids: Sequence[str], rest: Batch, beside: Counts) -> None:
    if subject.what == "thread" and not ids and not rest.counts and not beside:
        raise ThreadNotFound(thread=subject.name)


async def _begun(store: Store, scope: Scope, subject: Subject, files: Files | None) -> Receipt:
    """The receipt to go on with: one that was begun for this subject and is not complete, or a new one."""
    ids = await store.read(scope, erasure_subject.read_members(subject))
    for receipt in await read_receipts(store, scope):
        if receipt.status in (UNFINISHED, PENDING) and receipt.is_of(subject):
            await store.read(scope, erasure_subject.check_free(subject, ids))
            return receipt
    beside = await FilesBeside(store, scope, files).found(subject)
    _check_there(subject, ids, await store.read(scope, erasure_subject.read_rest(subject)), beside)
    await _make_thread(store, scope)
    id, salt = f"receipt-{secrets.token_hex(10)}", secrets.token_hex(16)
    await store.change(scope, partial(erasure_subject.plan_begin, subject, id, salt, store.limits))
    return await _receipt(store, scope, id)


async def _make_thread(store: Store, scope: Scope) -> None:
    """The thread of receipts, if it is not there yet."""
    with suppress(ThreadExists):
        await store.change(scope, lambda setting: lineage.plan_create(RECEIPTS, None, setting))


async def _receipt(store: Store, scope: Scope, id: str) -> Receipt:
    return next(receipt for receipt in await read_receipts(store, scope) if receipt.id == id)


async def _pass(store: Store, scope: Scope, subject: Subject, receipt: Receipt, told: Told) -> Counts:
    """Remove what is there now, one commit after another; how much it was."""
    counts: Counts = {}
    for chunk in _chunks(await store.read(scope, erasure_subject.read_members(subject))):
        for id in chunk:
            counts = added(counts, await _emptied(store, scope, receipt, id, told))
        planning = partial(erasure_subject.plan_threads, subject, receipt, chunk, store.limits)
        removed = await _removed(store, scope, planning)
        told(removed)
        counts = added(counts, removed)
    while removed := await _removed(
        store, scope, partial(erasure_subject.plan_rest, subject, receipt, store.limits)
    ):
        told(removed)
        counts = added(counts, removed)
    return counts


async def _emptied(store: Store, scope: Scope, receipt: Receipt, id: str, told: Told) -> Counts:
    """Take a large thread's items away, some at a time, before it goes; the index entries that were."""
    counts: Counts = {}
    for log in await store.read(scope, erasure_subject.read_large(id)):
        above = -1
        while True:
            planning = partial(erasure_subject.plan_thin, receipt, id, log, above, store.limits)
            plan = await store.change(scope, planning)
            taken = [effect for effect in plan.effects if isinstance(effect, EraseParts)]
            if not taken:
                break
            above = taken[0].items[-1][1]
            counts = added(counts, _counted(plan))
            told({"bodies": len(taken[0].items)})
    return counts


async def _removed(store: Store, scope: Scope, planning: Planning) -> Counts:
    """How much a commit removed, as the line says that went with it."""
    return _counted(await store.change(scope, planning))


def _counted(plan: Plan) -> Counts:
    lines = [effect.items[0].body for effect in plan.effects if isinstance(effect, Advance)]
    return msgspec.convert(decode(lines[0]), Step).counts if lines and lines[0] is not None else {}


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), erasure_subject.BATCH):
        yield ids[start : start + erasure_subject.BATCH]


async def _directory(store: Store) -> Path | None:
    """Where archives of a store are looked for: beside its file, if it has one."""
    path = (await store.report()).facts.get("path")
    return Path(path).parent if isinstance(path, str) else None


async def _ended(
    store: Store, scope: Scope, receipt: Receipt, left: Sequence[str], beyond: Sequence[str] = ()
) -> Receipt:
    """The receipt after the store has removed the last traces, as far as it can now."""
    scrubbed = await store.scrub()
    waiting = (*left, *scrubbed.waiting)
    ended = msgspec.structs.replace(
        receipt,
        status=PENDING if waiting else COMPLETE,
        waiting=waiting,
        beyond=tuple(dict.fromkeys((*scrubbed.beyond, *beyond))),
    )
    await store.change(scope, partial(erasure_subject.plan_done, ended, store.limits))
    return await _receipt(store, scope, receipt.id)
