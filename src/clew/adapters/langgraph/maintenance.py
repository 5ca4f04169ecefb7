"""Deleting, pruning and copying. What goes is hidden by the index; a deleted thread is gone altogether."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from clew.adapters.langgraph import registry
from clew.adapters.langgraph.checkpoints import Checkpoints
from clew.adapters.langgraph.layout import CHECKPOINTS, FORMAT, encode
from clew.adapters.langgraph.registry import Indexed, Wanted, dropped
from clew.core.errors import InvalidArgument, ThreadNotFound
from clew.core.values import AppendTo, Changeset, Item, Write
from clew.database.database import Database

BATCH = 256
KEEP_LATEST = "keep_latest"
DELETE = ("delete", "delete_all")


async def delete_thread(db: Database, checkpoints: Checkpoints, thread: str) -> None:
    """Remove a thread and everything in it; one that is not LangGraph's is left alone."""
    lot = await checkpoints.lots.look(db, thread)
    if lot is not None:
        with suppress(ThreadNotFound):  # somebody else is deleting it
            await db.thread(thread).delete()
        await db.commit([dropped(lot.record)])
    gone = await registry.find_all(db, Wanted(thread=thread))
    await _commit(db, [registry.removed(checkpoint) for checkpoint in gone])
    checkpoints.lots.forget(thread)
    checkpoints.at_hand.forget(thread)


async def delete_for_runs(db: Database, runs: Sequence[str]) -> None:
    """Hide the checkpoints of some runs. What others stand on stays with them."""
    for run in runs:
        await _hide(db, await registry.find_all(db, Wanted(run=str(run))))


async def prune(db: Database, checkpoints: Checkpoints, threads: Sequence[str], strategy: str) -> None:
    """Hide all but the newest checkpoint of each namespace, or delete the threads.

    Raises:
        InvalidArgument: The strategy is none of these.
    """
    if strategy not in (KEEP_LATEST, *DELETE):
        raise InvalidArgument(problem=f"{strategy!r} is not a way to prune: 'keep_latest' or 'delete'.")
    for thread in threads:
        if strategy in DELETE:
            await delete_thread(db, checkpoints, thread)
        else:
            await _hide(db, _older(await registry.find_all(db, Wanted(thread=thread))))


def _older(newest_first: Iterable[Indexed]) -> list[Indexed]:
    """All but the first of each namespace."""
    seen: set[str] = set()
    older: list[Indexed] = []
    for checkpoint in newest_first:
        if checkpoint.namespace in seen:
            older.append(checkpoint)
        seen.add(checkpoint.namespace)
    return older


async def _hide(db: Database, gone: Sequence[Indexed]) -> None:
    """Take checkpoints out of the index, and say so in their threads."""
    by_thread: defaultdict[str, list[Indexed]] = defaultdict(list)
    for checkpoint in gone:
        by_thread[checkpoint.thread].append(checkpoint)
    for thread, some in by_thread.items():
        for first in range(0, len(some), BATCH):
            batch = some[first : first + BATCH]
            item = Item(
                body=encode([checkpoint.key for checkpoint in batch]),
                codec="msgpack",
                log=CHECKPOINTS,
                kind="hidden",
                format=FORMAT,
            )
            told = AppendTo(thread=thread, change=Changeset(items=(item,), reason="prune"))
            await db.commit([told, *map(registry.removed, batch)])


async def copy_thread(db: Database, checkpoints: Checkpoints, source: str, target: str) -> None:
    """A new thread with all checkpoints and writes of another. Nothing is copied but the index.

    Raises:
        ThreadExists: The new id is taken.
    """
    if await checkpoints.lots.look(db, source) is None:
        return
    await db.thread(source).fork(target)
    await db.commit([checkpoints.lots.claim(target)])
    found = await registry.find_all(db, Wanted(thread=source))
    await _commit(db, [registry.added(_moved(checkpoint, target)) for checkpoint in found])


def _moved(checkpoint: Indexed, thread: str) -> Indexed:
    return Indexed(thread=thread, namespace=checkpoint.namespace, id=checkpoint.id, run=checkpoint.run)


async def reindex(db: Database, checkpoints: Checkpoints, thread: str) -> int:
    """Make the index of a thread anew from its log, and say how many checkpoints it has.

    An imported thread needs it: an archive holds threads, not what was found out about them.
    """
    await checkpoints.lots.of(db, thread)
    found = await checkpoints.logged(db, thread)
    await _commit(db, [registry.added(checkpoint) for checkpoint in found])
    return len(found)


async def _commit(db: Database, writes: Sequence[Write]) -> None:
    for first in range(0, len(writes), BATCH):
        await db.commit(writes[first : first + BATCH])
