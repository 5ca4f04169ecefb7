"""The registry of LangGraph's threads and of the lengths of their logs, guarded by a record.

A version of a channel names the items that hold its parts, so a writer has to know the places that its items
will get. Every put moves the record of its thread on by one revision; if another writer was first, it looks
again. Pending writes name nothing and conflict with nothing.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import uuid4

import msgspec

from clew.adapters.langgraph.layout import FORMAT, LAYOUT, checkpoint_key, digest
from clew.core.errors import InvalidArgument, RecordNotFound, ThreadExists, ThreadNotFound, VersionConflict
from clew.core.patch import set as set_op
from clew.core.values import Absent, AppendTo, Changeset, Drop, Exact, Expectation, Put, Record, RecordQuery
from clew.database.database import Database

CHECKPOINT_KIND: Final = "langgraph.checkpoint"
CHECKPOINTS_PER_PAGE: Final = 64


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as the index knows it."""

    thread: str
    namespace: str
    id: str
    run: str | None = None
    epoch: int = 0

    @property
    def key(self) -> str:
        """Its name within the thread."""
        return checkpoint_key(self.namespace, self.id)

    @property
    def record(self) -> str:
        """Its record's id. A space sorts before everything that may follow in a longer id."""
        return f"{self.id} {digest(self.thread, self.namespace)}"


class CheckpointSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of checkpoints, the newest first: all, or those of a thread, a namespace or a run."""

    thread: str | None = None
    namespace: str | None = None
    run: str | None = None
    before: str | None = None
    before_epoch: int = 0

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


def index_write(checkpoint: IndexEntry) -> Put:
    """The write that adds a checkpoint to the index."""
    tags = [_thread_tag(checkpoint.thread), _namespace_tag(checkpoint.thread, checkpoint.namespace)]
    body = [checkpoint.thread, checkpoint.namespace]
    if checkpoint.run is not None:
        tags.append(_run_tag(checkpoint.run))
        body.append(checkpoint.run)
    return Put(
        record=Record(
            kind=CHECKPOINT_KIND, id=checkpoint.record, body=body, tags=tuple(tags), sort=checkpoint.epoch
        )
    )


def index_drop(checkpoint: IndexEntry) -> Drop:
    """The write that takes a checkpoint out of the index."""
    return Drop(kind=CHECKPOINT_KIND, id=checkpoint.record)


async def is_indexed(db: Database, checkpoint: IndexEntry) -> bool:
    """Return whether a checkpoint is there."""
    return await epoch_of(db, checkpoint) is not None


async def epoch_of(db: Database, checkpoint: IndexEntry) -> int | None:
    """The epoch of a checkpoint, if it is there."""
    try:
        return (await db.records.get(CHECKPOINT_KIND, checkpoint.record)).sort
    except RecordNotFound:
        return None


async def find_checkpoints(
    db: Database,
    selection: CheckpointSelection,
    *,
    after: IndexEntry | None = None,
    limit: int = CHECKPOINTS_PER_PAGE,
) -> Sequence[IndexEntry]:
    """Some checkpoints, the newest first, that come after the last one found."""
    cursor = None if selection.before is None else (selection.before_epoch, selection.before)
    query = RecordQuery(
        kind=CHECKPOINT_KIND,
        tags=selection.tags,
        newest=True,
        limit=limit,
        after=cursor if after is None else (after.epoch, after.record),
    )
    return [_index_entry(record) for record in await db.records.find(query)]


async def find_all_checkpoints(db: Database, selection: CheckpointSelection) -> list[IndexEntry]:
    """All checkpoints that are wanted."""
    index_entries: list[IndexEntry] = []
    while page := await find_checkpoints(
        db, selection, after=index_entries[-1] if index_entries else None, limit=4 * CHECKPOINTS_PER_PAGE
    ):
        index_entries += page
    return index_entries


def _index_entry(record: Record) -> IndexEntry:
    thread, namespace, *run = record.body
    return IndexEntry(
        thread=thread,
        namespace=namespace,
        id=record.id.rpartition(" ")[0],
        run=run[0] if run else None,
        epoch=record.sort,
    )


THREAD_KIND = "langgraph.thread"


class PutOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order of a thread's puts: its epoch, and the newest checkpoint of the outermost graph.

    LangGraph takes the checkpoint with the greatest id for the newest, and makes ids from the clock of
    whichever process it runs in. A run's checkpoint is newer than what it goes on from whatever its id says:
    if the id does not say so, a new epoch begins. Within an epoch, ids decide.
    """

    epoch: int = 0
    newest: str = ""

    def after(self, id: str, *, is_newer: bool) -> "PutOrder":
        """The order after one more put of the outermost graph."""
        if id > self.newest:
            return PutOrder(epoch=self.epoch, newest=id)
        if is_newer and id != self.newest:
            return PutOrder(epoch=self.epoch + 1, newest=id)
        return self


class ThreadEntry(msgspec.Struct, frozen=True):
    """A thread's record, its revision and owner, the thread's version, and how many items each log has."""

    record: str
    revision: int
    ends: dict[str, int]
    owner: str | None = None
    version: int = 0
    order: PutOrder = PutOrder()


class ThreadRegistry:
    """The threads in use, as last known. An entry may be out of date; a put notices and reads it again."""

    def __init__(self, new_id: Callable[[], str] = lambda: uuid4().hex) -> None:
        self._entries: dict[str, ThreadEntry] = {}
        self._new_id = new_id

    async def get_or_create(self, db: Database, thread: str) -> ThreadEntry:
        """A thread's entry; the thread is made if there is none.

        Raises:
            InvalidArgument: The thread holds something that is not LangGraph's.
        """
        entry = await self.find(db, thread)
        while entry is None:
            try:
                await self._create_thread(db, thread, Absent())
            except ThreadExists:
                await self._adopt_thread(db, thread)
            entry = await self.find(db, thread)
        return entry

    async def find(self, db: Database, thread: str) -> ThreadEntry | None:
        """A thread's entry, if the thread is there; what is known of it may be out of date."""
        if thread not in self._entries and (entry := await self.read_entry(db, thread)) is not None:
            self._entries[thread] = entry
        return self._entries.get(thread)

    async def read_entry(self, db: Database, thread: str) -> ThreadEntry | None:
        """A thread's entry as it is now."""
        records = await db.records.find(RecordQuery(kind=THREAD_KIND, tags=(thread,), limit=1))
        if not records:
            return None
        try:
            head = await db.thread(thread).head()
        except ThreadNotFound:
            await db.records.drop(THREAD_KIND, records[0].id)  # what a delete that was cut short has left
            return None
        ends = {log: size.end for log, size in head.counters.logs.items()}
        return ThreadEntry(
            record=records[0].id,
            revision=records[0].revision,
            ends=ends,
            owner=records[0].owner,
            version=head.version,
            order=msgspec.convert(records[0].body, PutOrder),
        )

    def advance_entry(self, thread: str, entry: ThreadEntry, ends: dict[str, int], order: PutOrder) -> None:
        """A put has come through."""
        self._entries[thread] = msgspec.structs.replace(
            entry, revision=entry.revision + 1, ends=ends, order=order
        )

    def known_entry(self, thread: str) -> ThreadEntry | None:
        """A thread's entry, as last known."""
        return self._entries.get(thread)

    def forget(self, thread: str) -> None:
        """Look again next time."""
        self._entries.pop(thread, None)

    def claim_write(
        self, thread: str, entry: ThreadEntry | None = None, order: PutOrder | None = None
    ) -> Put:
        """The write that moves a thread's record on, or makes it."""
        record = Record(
            kind=THREAD_KIND,
            id=entry.record if entry is not None else self._new_id(),
            body={"thread": thread, **msgspec.to_builtins(order or PutOrder())},
            tags=(thread,),
        )
        return Put(record=record, expect=entry.revision if entry is not None else 0)

    async def _adopt_thread(self, db: Database, thread: str) -> None:
        """Take a thread that is empty, or LangGraph's but imported; one made just now is fine too."""
        if await self.read_entry(db, thread) is not None:
            return
        head = await db.thread(thread).head()
        if head.version and FORMAT not in head.state:
            raise InvalidArgument(
                problem=f"Thread {thread!r} was not written by LangGraph. Choose another thread_id."
            )
        with suppress(VersionConflict):  # another writer was first; the caller looks again
            await self._create_thread(db, thread, Exact(head.version))

    async def _create_thread(self, db: Database, thread: str, expect: Expectation) -> None:
        mark = Changeset(patches=(set_op([FORMAT], {"layout": LAYOUT}),), reason="langgraph")
        await db.commit([AppendTo(thread=thread, change=mark, expect=expect), self.claim_write(thread)])


def thread_drop(record: str) -> Drop:
    """The write that ends a thread's record."""
    return Drop(kind=THREAD_KIND, id=record)
