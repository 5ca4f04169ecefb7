"""The index of checkpoints: a small record each, found by thread, namespace or run, in order of id."""

from collections.abc import Sequence
from typing import Final

import msgspec

from clew.adapters.langgraph.entries import digest, key_of
from clew.core.errors import RecordNotFound
from clew.core.values import Drop, Put, Record, RecordQuery
from clew.threads.database import Database

KIND: Final = "langgraph.checkpoint"
PAGE: Final = 64


class Indexed(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as the index knows it."""

    thread: str
    namespace: str
    id: str
    run: str | None = None

    @property
    def key(self) -> str:
        """Its name within the thread."""
        return key_of(self.namespace, self.id)

    @property
    def record(self) -> str:
        """Its record's id. A space sorts before everything that may follow in a longer id."""
        return f"{self.id} {digest(self.thread, self.namespace)}"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints to find, the newest first: all, or those of a thread, a namespace or a run."""

    thread: str | None = None
    namespace: str | None = None
    run: str | None = None
    before: str | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag of the narrowest thing that is given."""
        if self.run is not None:
            return (_run_tag(self.run),)
        if self.thread is None:
            return ()
        if self.namespace is None:
            return (_thread_tag(self.thread),)
        return (_namespace_tag(self.thread, self.namespace),)


def _thread_tag(thread: str) -> str:
    return f"thread {digest(thread)}"


def _namespace_tag(thread: str, namespace: str) -> str:
    return f"in {digest(thread, namespace)}"


def _run_tag(run: str) -> str:
    return f"run {digest(run)}"


def added(checkpoint: Indexed) -> Put:
    """The write that adds a checkpoint to the index."""
    tags = [_thread_tag(checkpoint.thread), _namespace_tag(checkpoint.thread, checkpoint.namespace)]
    body = [checkpoint.thread, checkpoint.namespace]
    if checkpoint.run is not None:
        tags.append(_run_tag(checkpoint.run))
        body.append(checkpoint.run)
    return Put(record=Record(kind=KIND, id=checkpoint.record, body=body, tags=tuple(tags)))


def removed(checkpoint: Indexed) -> Drop:
    """The write that takes a checkpoint out of the index."""
    return Drop(kind=KIND, id=checkpoint.record)


async def is_indexed(db: Database, checkpoint: Indexed) -> bool:
    """Whether a checkpoint is there."""
    try:
        await db.records.get(KIND, checkpoint.record)
    except RecordNotFound:
        return False
    return True


async def find(
    db: Database, wanted: Wanted, *, after: Indexed | None = None, limit: int = PAGE
) -> Sequence[Indexed]:
    """Some checkpoints, the newest first, that come after the last one found."""
    cursor = after.record if after is not None else wanted.before
    query = RecordQuery(
        kind=KIND,
        tags=wanted.tags,
        newest=True,
        limit=limit,
        after=(0, cursor) if cursor is not None else None,
    )
    return [_indexed(record) for record in await db.records.find(query)]


async def find_all(db: Database, wanted: Wanted) -> list[Indexed]:
    """All checkpoints that are wanted."""
    found: list[Indexed] = []
    while page := await find(db, wanted, after=found[-1] if found else None, limit=4 * PAGE):
        found += page
    return found


def _indexed(record: Record) -> Indexed:
    thread, namespace, *run = record.body
    return Indexed(
        thread=thread, namespace=namespace, id=record.id.rpartition(" ")[0], run=run[0] if run else None
    )
