"""Which Clew thread belongs to LangGraph, and how far its logs reach: known here, guarded by a record.

A version of a channel names the items its parts stand in, so whoever writes one has to know where its items
will stand. Every put moves the record of its thread on by one revision; if somebody else was first, it looks
again. Pending writes name nothing and conflict with nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import msgspec

from clew.adapters.langgraph.entries import FORMAT, LAYOUT
from clew.core.errors import InvalidArgument, ThreadExists, ThreadNotFound, VersionConflict
from clew.core.making import set as set_op
from clew.core.values import Absent, AppendTo, Changeset, Drop, Exact, Expect, Put, Record, RecordQuery
from clew.threads.database import Database

KIND = "langgraph.thread"


class Lot(msgspec.Struct, frozen=True):
    """A thread's record, its revision, and how many items each of its logs has."""

    record: str
    revision: int
    ends: dict[str, int]


class Lots:
    """What is known of the threads in use. It may be out of date; a put finds out."""

    def __init__(self, new_name: Callable[[], str] = lambda: uuid4().hex) -> None:
        self._known: dict[str, Lot] = {}
        self._new_name = new_name

    async def of(self, db: Database, thread: str) -> Lot:
        """A thread's lot; the thread is made if there is none.

        Raises:
            InvalidArgument: The thread holds something that is not LangGraph's.
        """
        lot = await self.find(db, thread)
        while lot is None:
            try:
                await self._make(db, thread, Absent())
            except ThreadExists:
                await self._adopt(db, thread)
            lot = await self.find(db, thread)
        return lot

    async def find(self, db: Database, thread: str) -> Lot | None:
        """A thread's lot, if the thread is there; what is known of it may be out of date."""
        if thread not in self._known and (lot := await self.look(db, thread)) is not None:
            self._known[thread] = lot
        return self._known.get(thread)

    async def look(self, db: Database, thread: str) -> Lot | None:
        """A thread's lot as it is now."""
        found = await db.records.find(RecordQuery(kind=KIND, tags=(thread,), limit=1))
        if not found:
            return None
        try:
            head = await db.thread(thread).head()
        except ThreadNotFound:
            await db.records.drop(KIND, found[0].id)  # what a delete that was cut short has left
            return None
        ends = {log: size.end for log, size in head.counters.logs.items()}
        return Lot(record=found[0].id, revision=found[0].revision, ends=ends)

    def moved(self, thread: str, lot: Lot, ends: dict[str, int]) -> None:
        """A put has come through."""
        self._known[thread] = Lot(record=lot.record, revision=lot.revision + 1, ends=ends)

    def forget(self, thread: str) -> None:
        """Look again next time."""
        self._known.pop(thread, None)

    def claim(self, thread: str, *, revision: int = 0, name: str | None = None) -> Put:
        """The write that moves a thread's record on."""
        record = Record(kind=KIND, id=name or self._new_name(), body={"thread": thread}, tags=(thread,))
        return Put(record=record, expect=revision)

    async def _adopt(self, db: Database, thread: str) -> None:
        """Take a thread that is empty, or LangGraph's but imported; one made just now is fine too."""
        if await self.look(db, thread) is not None:
            return
        head = await db.thread(thread).head()
        if head.version and FORMAT not in head.state:
            raise InvalidArgument(
                problem=f"Thread {thread!r} was not written by LangGraph. Choose another thread_id."
            )
        with suppress(VersionConflict):  # somebody else was first; the caller looks again
            await self._make(db, thread, Exact(head.version))

    async def _make(self, db: Database, thread: str, expect: Expect) -> None:
        mark = Changeset(patches=(set_op([FORMAT], {"layout": LAYOUT}),), reason="langgraph")
        await db.commit([AppendTo(thread=thread, change=mark, expect=expect), self.claim(thread)])


def dropped(record: str) -> Drop:
    """The write that ends a thread's record."""
    return Drop(kind=KIND, id=record)
