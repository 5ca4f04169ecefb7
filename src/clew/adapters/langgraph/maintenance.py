"""Deleting, pruning and copying.

A checkpoint that goes is taken out of the index, and what only it needed is erased. A deleted thread is gone
altogether.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from uuid import uuid4

import msgspec

from clew.adapters.langgraph import registry
from clew.adapters.langgraph.checkpoints import ThreadCheckpoints
from clew.adapters.langgraph.layout import CHECKPOINTS, FORMAT, encode
from clew.adapters.langgraph.leases import LeaseName
from clew.adapters.langgraph.registry import CheckpointSelection, IndexEntry, thread_drop
from clew.core.erasure.parts import read_family
from clew.core.errors import InvalidArgument, LegalHold, ThreadNotFound
from clew.core.log import places
from clew.core.values import AppendTo, Changeset, Item, Scope, Write
from clew.database.database import Database

BATCH_SIZE = 256
KEEP_LATEST = "keep_latest"
DELETE_STRATEGIES = ("delete", "delete_all")


async def delete_thread(db: Database, checkpoints: ThreadCheckpoints, thread: str) -> None:
    """Remove a thread and everything in it; one that is not LangGraph's is left alone."""
    thread_entry = await checkpoints.threads.read_entry(db, thread)
    if thread_entry is not None:
        with suppress(ThreadNotFound):  # another process is deleting it
            await db.thread(thread).delete()
        lease = LeaseName(thread, thread_entry.owner)
        await db.commit([thread_drop(thread_entry.record), lease.drop()])
        checkpoints.runs.leases.forget(lease)
    index_entries = await registry.find_all_checkpoints(db, CheckpointSelection(thread=thread))
    await _commit_in_batches(db, [registry.index_drop(checkpoint) for checkpoint in index_entries])
    checkpoints.threads.forget(thread)
    checkpoints.cache.drop_thread(thread)


async def delete_for_runs(db: Database, checkpoints: ThreadCheckpoints, runs: Sequence[str]) -> None:
    """Remove the checkpoints of some runs. Values that other checkpoints share stay with those.

    Raises:
        TurnBusy: A run is at work on one of their threads.
    """
    for run in runs:
        entries = await registry.find_all_checkpoints(db, CheckpointSelection(run=str(run)))
        for thread, some in _by_thread(entries).items():
            await _remove_checkpoints(db, checkpoints, thread, some)


async def prune(db: Database, checkpoints: ThreadCheckpoints, threads: Sequence[str], strategy: str) -> None:
    """Remove all but the newest checkpoint of each namespace, or delete the threads.

    Raises:
        InvalidArgument: The strategy is none of these.
        TurnBusy: A run is at work on one of the threads.
    """
    if strategy not in (KEEP_LATEST, *DELETE_STRATEGIES):
        raise InvalidArgument(problem=f"{strategy!r} is not a way to prune: 'keep_latest' or 'delete'.")
    for thread in threads:
        if strategy in DELETE_STRATEGIES:
            await delete_thread(db, checkpoints, thread)
        else:
            entries = await registry.find_all_checkpoints(db, CheckpointSelection(thread=thread))
            await _remove_checkpoints(db, checkpoints, thread, _older_entries(entries))


def _by_thread(index_entries: Iterable[IndexEntry]) -> dict[str, list[IndexEntry]]:
    by_thread: defaultdict[str, list[IndexEntry]] = defaultdict(list)
    for checkpoint in index_entries:
        by_thread[checkpoint.thread].append(checkpoint)
    return by_thread


def _older_entries(newest_first: Iterable[IndexEntry]) -> list[IndexEntry]:
    """All but the first of each namespace."""
    namespaces: set[str] = set()
    older: list[IndexEntry] = []
    for checkpoint in newest_first:
        if checkpoint.namespace in namespaces:
            older.append(checkpoint)
        namespaces.add(checkpoint.namespace)
    return older


async def _remove_checkpoints(
    db: Database, checkpoints: ThreadCheckpoints, thread: str, index_entries: Sequence[IndexEntry]
) -> None:
    """Take checkpoints out of the index, say so in their thread, and erase what nobody else needs."""
    entry = await checkpoints.threads.read_entry(db, thread)
    if not index_entries or entry is None:
        return
    leases, name, run = checkpoints.runs.leases, LeaseName(thread, entry.owner), f"prune {uuid4().hex}"
    if await leases.try_take(db, name, run) is None:  # a run may build on what is about to go
        raise leases.busy(name)
    try:
        for first in range(0, len(index_entries), BATCH_SIZE):
            await _hide_checkpoints(db, thread, index_entries[first : first + BATCH_SIZE])
        await _erase_values(db, checkpoints, thread, index_entries)
    finally:
        await leases.release(db, name, run)


async def _hide_checkpoints(db: Database, thread: str, index_entries: Sequence[IndexEntry]) -> None:
    item = Item(
        body=encode([checkpoint.key for checkpoint in index_entries]),
        codec="msgpack",
        log=CHECKPOINTS,
        kind="hidden",
        format=FORMAT,
    )
    append = AppendTo(thread=thread, change=Changeset(items=(item,), reason="prune"))
    await db.commit([append, *map(registry.index_drop, index_entries)])


async def _erase_values(
    db: Database, checkpoints: ThreadCheckpoints, thread: str, index_entries: Sequence[IndexEntry]
) -> None:
    """Erase hidden checkpoints, their writes and their values, except what others need or share.

    A copy shares its items with its source, and a thread that is held keeps all; then nothing is erased.
    Erasing is for operators, so with a database that is used for one user nothing is erased either.
    """
    family = await db.store.read(Scope(tenant=db.tenant, user=db.user), read_family(thread))
    if db.user is not None or len(family) != 1:
        return
    kept = await registry.find_all_checkpoints(db, CheckpointSelection(thread=thread))
    unused = await checkpoints.unused_items(db, thread, index_entries, kept)
    with suppress(LegalHold):
        for first in range(0, len(unused.names), BATCH_SIZE):
            await db.thread(thread).erase(unused.names[first : first + BATCH_SIZE], state=False)
        for log, first_item, last_item in unused.stretches:
            await db.thread(thread).erase(
                after=places.place_of(first_item) - 1,
                before=places.place_of(last_item) + 1,
                log=log,
                state=False,
            )
    checkpoints.cache.drop_thread(thread)


async def copy_thread(db: Database, checkpoints: ThreadCheckpoints, source: str, target: str) -> None:
    """A new thread with all checkpoints and writes of another. Nothing is copied but the index.

    Raises:
        ThreadExists: The new id is taken.
    """
    source_entry = await checkpoints.threads.read_entry(db, source)
    if source_entry is None:
        return
    await db.thread(source).fork(target)
    await db.commit([checkpoints.threads.claim_write(target, order=source_entry.order)])
    index_entries = await registry.find_all_checkpoints(db, CheckpointSelection(thread=source))
    await _commit_in_batches(
        db, [registry.index_write(_entry_in_thread(checkpoint, target)) for checkpoint in index_entries]
    )


def _entry_in_thread(checkpoint: IndexEntry, thread: str) -> IndexEntry:
    return msgspec.structs.replace(checkpoint, thread=thread)


async def reindex(db: Database, checkpoints: ThreadCheckpoints, thread: str) -> int:
    """Make the index of a thread anew from its log, and say how many checkpoints it has.

    An imported thread needs it: an archive holds threads, not what was found out about them.
    """
    index_entries, order = await checkpoints.index_entries_in_log(db, thread)
    entry = await checkpoints.threads.get_or_create(db, thread)
    await _commit_in_batches(db, [registry.index_write(checkpoint) for checkpoint in index_entries])
    await db.commit([checkpoints.threads.claim_write(thread, entry, order)])
    checkpoints.threads.forget(thread)
    return len(index_entries)


async def _commit_in_batches(db: Database, writes: Sequence[Write]) -> None:
    for first in range(0, len(writes), BATCH_SIZE):
        await db.commit(writes[first : first + BATCH_SIZE])
