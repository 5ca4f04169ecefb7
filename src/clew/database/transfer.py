"""Threads of another program's database, each taken in whole and once.

A reader makes a history of what it finds; here it is committed, in one transaction and at the times it had.
"""

from collections.abc import AsyncIterator
from enum import StrEnum

import msgspec

from clew.core.encoding import check_id, is_same
from clew.core.errors import Forbidden, InvalidInput, ThreadExists, ThreadNotFound
from clew.core.log.codec import prepare_append
from clew.core.log.commit import plan_past_appends
from clew.core.log.owners import check_named_owner
from clew.core.values import Absent, AnyVersion, Changeset, Scope
from clew.database.database import Database
from clew.database.thread import CHANGESETS_PER_PAGE, Thread


class TransferOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of an import from another program's database.

    ``prefix`` comes before the ids of the threads, ``owner`` owns those whose source names nobody, and with
    ``dry_run`` everything is checked and nothing written.
    """

    prefix: str = ""
    owner: str | None = None
    dry_run: bool = False


class ThreadHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as its changesets, each with its ``time``, and what of its source cannot be taken along."""

    thread: str
    owner: str | None = None
    changesets: tuple[Changeset, ...]
    left_out: tuple[str, ...] = ()


class TransferOutcome(StrEnum):
    """The end of a thread's transfer."""

    IMPORTED = "imported"
    PRESENT = "present"
    """It was imported before; nothing was added. It may have gone on since."""
    CONFLICT = "conflict"
    """Another thread of that id is there, and was left alone."""
    REFUSED = "refused"
    """It cannot be stored."""


class ThreadTransfer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The transfer of one thread: how it ended and why, and what was left out of it."""

    thread: str
    outcome: TransferOutcome
    version: int = 0
    items: int = 0
    problem: str | None = None
    left_out: tuple[str, ...] = ()


async def transfer_thread(db: Database, history: ThreadHistory, options: TransferOptions) -> ThreadTransfer:
    """Take in a thread whole, unless one of its id is there; then compare them and write nothing."""
    thread, left_out = history.thread, history.left_out
    if not history.changesets:
        problem = "Nothing of it can be read."
        return ThreadTransfer(
            thread=thread, outcome=TransferOutcome.REFUSED, problem=problem, left_out=left_out
        )
    try:
        if await _write_history(db, history, options):
            return ThreadTransfer(
                thread=thread,
                outcome=TransferOutcome.IMPORTED,
                version=len(history.changesets),
                items=sum(len(change.items) for change in history.changesets),
                left_out=left_out,
            )
        difference = await _difference(db.thread(thread), history)
    except (InvalidInput, Forbidden) as error:
        return ThreadTransfer(thread=thread, outcome=TransferOutcome.REFUSED, problem=str(error))
    outcome = TransferOutcome.PRESENT if difference is None else TransferOutcome.CONFLICT
    return ThreadTransfer(thread=thread, outcome=outcome, problem=difference, left_out=left_out)


async def _write_history(db: Database, history: ThreadHistory, options: TransferOptions) -> bool:
    """Commit a thread, or only check that it could be; return whether there was none of its id."""
    check_id(history.thread, "thread id")
    check_named_owner(history.thread, history.owner)
    absent = Absent(owner=history.owner)
    writes = [
        prepare_append(
            history.thread,
            msgspec.structs.replace(change, time=0),
            absent if index == 0 else AnyVersion(),
            db.store.limits,
        )
        for index, change in enumerate(history.changesets)
    ]
    times = [change.time for change in history.changesets]
    if options.dry_run:
        return not await _exists(db.thread(history.thread))
    scope = Scope(tenant=db.tenant, user=db.user)
    try:
        await db.store.change(scope, lambda context: plan_past_appends(writes, times, context))
    except ThreadExists:
        return False
    return True


async def _exists(thread: Thread) -> bool:
    try:
        await thread.head()
    except ThreadNotFound:
        return False
    return True


async def _difference(thread: Thread, history: ThreadHistory) -> str | None:
    """The difference of a stored thread to a history; None if it begins with the whole of it."""
    version = 0
    try:
        async for change in _changesets(thread, len(history.changesets)):
            if not _is_same_change(change, history.changesets[version]):
                return f"A thread of that id is there already, and differs from version {version + 1} on."
            version += 1
    except ThreadNotFound:
        return "A thread of that id is there already, and belongs to another user."
    if version < len(history.changesets):
        return f"A thread of that id is there already, and ends with version {version}; the source goes on."
    return None


async def _changesets(thread: Thread, upto: int) -> AsyncIterator[Changeset]:
    """The first changesets of a thread."""
    version = 0
    while page := await thread.changesets(after=version, limit=min(CHANGESETS_PER_PAGE, upto - version)):
        for change in page:
            yield change
        version = page[-1].version


def _is_same_change(stored: Changeset, change: Changeset) -> bool:
    return is_same(_as_given(stored), _as_given(change))


def _as_given(change: Changeset) -> object:
    """A changeset without what the store fills in."""
    items = tuple(msgspec.structs.replace(item, place=0, version=0, time=0) for item in change.items)
    return msgspec.to_builtins(msgspec.structs.replace(change, items=items, version=0, time=0, hash=b""))
