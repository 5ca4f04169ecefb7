"""The conversation store: a thread for each conversation, a changeset for each save."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from clew.adapters.pydantic_ai.entries import FORMAT, entries_of, items_of
from clew.core import patch
from clew.core.arguments import check_methods
from clew.core.errors import (
    InvalidArgument,
    RecordNotFound,
    RevisionConflict,
    ThreadExists,
    ThreadNotFound,
    VersionConflict,
)
from clew.core.values import (
    ABOUT,
    HISTORY,
    Absent,
    AppendTo,
    Changeset,
    Cut,
    Exact,
    Head,
    Item,
    Put,
    Record,
    RecordQuery,
    Window,
)
from clew.database.database import Database
from clew.database.thread import Thread

KIND = "pydantic-ai.conversation"
"""The records that conversations are listed by; all that they hold is in the threads as well."""

AT_ONCE = 16
PAGE = 256
KNOWN = 4096

_record_adapter = TypeAdapter(ConversationRecord)


@check_methods
class Conversations(ConversationStore):
    """Pydantic AI's conversations in a Clew database, which stays open when this is done.

    A conversation's id is its thread's. What a history leaves when it is rewritten or branched stays in the
    thread's past; a fork stands on the thread it came from and copies nothing. Deleting a conversation
    removes its messages, but for those that a fork still stands on.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._places: dict[str, str] = {}

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None if there is none.

        Raises:
            InvalidArgument: The thread of that id was written by something else.
        """
        head = await self._head(conversation_id)
        return None if head is None else self._record_in(head)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Records, of a scope or all, the one saved last first."""
        records: list[ConversationRecord] = []
        async for ids in self._pages(scope, limit):
            for start in range(0, len(ids), AT_ONCE):
                some = await asyncio.gather(*map(self.read_record, ids[start : start + AT_ONCE]))
                records += [record for record in some if record is not None]
        return sorted(records, key=lambda record: record.updated_at, reverse=True)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Write a record and its new entries together, or nothing.

        Raises:
            ConversationConflict: The conversation is not at the revision expected, or goes on from an entry
                that is not there.
            InvalidArgument: The thread of that id was written by something else.
        """
        id = record.conversation_id
        head = await self._head(id)
        stored = None if head is None else self._record_in(head)
        if (None if stored is None else stored.revision) != expected_revision:
            raise ConversationConflict(id)
        parent = new_entries[0].parent_id if new_entries else record.head_id
        try:
            if head is None and parent is not None:
                head = await self._forked(record, parent)
            change = await self._change(head, stored, parent, record, items_of(new_entries))
            expect = Absent() if head is None else Exact(head.version, head.hash)
            listed = _listed(record, None if head is None else head.owner)
            await self._db.commit([AppendTo(thread=id, change=change, expect=expect), Put(record=listed)])
        except (VersionConflict, ThreadExists, ThreadNotFound) as lost:
            raise ConversationConflict(id) from lost
        self._learn(id, record.head_id, *record.branches)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Remove a conversation with its messages; forks of it stay whole.

        Raises:
            ConversationConflict: The conversation is not at the revision expected.
        """
        head = await self._head(conversation_id)
        stored = None if head is None else self._record_in(head)
        if head is None or stored is None or stored.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        listed = await self._listing(conversation_id)
        try:
            await self._db.thread(conversation_id).delete(expect=Exact(head.version, head.hash))
        except (VersionConflict, ThreadNotFound) as lost:
            raise ConversationConflict(conversation_id) from lost
        if listed is not None:
            await self._unlist(listed)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """An entry by its id.

        One whose conversation was not read before is looked for in all of them.

        Raises:
            LookupError: There is none.
        """
        entries = await self.read_history(entry_id, limit=1)
        if not entries or entries[-1].id != entry_id:
            raise LookupError(f"Entry {entry_id!r} cannot be read.")
        return entries[-1]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to one, oldest first, or only the last of them.

        Raises:
            LookupError: There is no such entry.
        """
        if head_id is None or limit == 0:
            return []
        thread, window = await self._located(head_id, None if limit is None else limit + 1)
        entries = entries_of(window, thread.id)
        self._learn(thread.id, *(entry.id for entry in entries))
        return entries if limit is None else entries[-limit:]

    # Writing.

    async def _change(
        self,
        head: Head | None,
        stored: ConversationRecord | None,
        parent: str | None,
        record: ConversationRecord,
        added: list[Item],
    ) -> Changeset:
        """What to append so that the thread shows the line up to the parent, then what is added."""
        cuts: tuple[Cut, ...] = ()
        if head is not None and (stored is None or stored.head_id != parent):
            cuts, again = await self._turned(self._db.thread(record.conversation_id), head, parent)
            added = again + added
        return Changeset(
            items=tuple(added),
            cuts=cuts,
            patches=(patch.set([FORMAT], _record_adapter.dump_python(record, mode="json")),),
            reason="Save",
            run_id=added[-1].run if added else None,
        )

    async def _turned(
        self, thread: Thread, head: Head, parent: str | None
    ) -> tuple[tuple[Cut, ...], list[Item]]:
        """The cut that ends what another line does not share with the one shown, and what it has besides."""
        wanted = [] if parent is None else list((await self._line(thread, parent)) or ())
        if parent is not None and not wanted:
            raise ThreadNotFound(thread=thread.id)
        shown = await thread.items(at=head.version)
        shared = 0
        while shared < min(len(shown), len(wanted)) and shown[shared].id == wanted[shared].id:
            shared += 1
        again = [Item(body=i.body, role=i.role, id=i.id, format=i.format, run=i.run) for i in wanted[shared:]]
        after = shown[shared - 1].place if shared else 0
        places = [item.place for item in shown] + [broken.place for broken in shown.broken]
        places = [place for place in places if place > after]
        cut = [Cut(first=min(places), last=max(places), count=len(places))] if places else []
        return tuple(cut), again

    async def _forked(self, record: ConversationRecord, parent: str) -> Head:
        """A thread that begins as another did when an entry was added to it."""
        if record.forked_from is not None:
            self._learn(record.forked_from, parent)
        try:
            source, _ = await self._located(parent, 1)
        except LookupError as missing:
            raise ConversationConflict(record.conversation_id) from missing
        born = await _newest(source, parent)
        at = None if born is None else born.version
        fork = await source.fork(record.conversation_id, at=at)
        return await fork.head()

    # Reading.

    async def _head(self, id: str) -> Head | None:
        try:
            return await self._db.thread(id).head()
        except ThreadNotFound:
            return None

    def _record_in(self, head: Head) -> ConversationRecord | None:
        """The record that a thread holds; None if it is empty, or a fork that was never finished."""
        body = head.state.get(FORMAT)
        if body is None:
            if head.counters.logs or head.state.keys() - {ABOUT}:
                raise InvalidArgument(
                    problem=f"Thread {head.id!r} was not written by Pydantic AI. Choose another id."
                )
            return None
        record = _record_adapter.validate_python(body)
        if record.conversation_id != head.id:
            return None
        self._learn(head.id, record.head_id, *record.branches)
        return record

    async def _located(self, entry: str, last: int | None) -> tuple[Thread, Window]:
        """The thread that holds an entry, and the end of the line up to it."""
        known = self._places.get(entry)
        if known is not None and (window := await self._line(self._db.thread(known), entry, last)):
            return self._db.thread(known), window
        async for ids in self._pages(None, None):
            for id in ids:
                if window := await self._line(self._db.thread(id), entry, last):
                    return self._db.thread(id), window
        raise LookupError(f"There is no entry {entry!r} here.")

    async def _line(self, thread: Thread, entry: str, last: int | None = None) -> Window | None:
        """The line up to an entry: what the thread showed when the entry was added, as far as the entry."""
        try:
            born = await _newest(thread, entry)
            if born is not None:
                return await thread.items(at=born.version, before=born.place + 1, last=last)
            head = await thread.head()
        except ThreadNotFound:
            return None
        # It may be there and be broken; then the rest of the line can still be read.
        record = head.state.get(FORMAT)
        is_head = isinstance(record, dict) and record.get("head_id") == entry
        return await thread.items(at=head.version, last=last) if is_head else None

    def _learn(self, thread: str, *entries: str | None) -> None:
        """Remember where entries are; those learned first are forgotten when they are too many."""
        for entry in entries:
            if entry is not None:
                self._places.pop(entry, None)
                self._places[entry] = thread
        while len(self._places) > KNOWN:
            self._places.pop(next(iter(self._places)))

    # Listing.

    async def _pages(self, scope: str | None, limit: int | None) -> AsyncIterator[list[str]]:
        """The ids of conversations, page by page, the one saved last first."""
        tags = () if scope is None else (_tag(scope),)
        after: tuple[int, str] | None = None
        while limit is None or limit > 0:
            size = PAGE if limit is None else min(limit, PAGE)
            found = await self._db.records.find(
                RecordQuery(kind=KIND, tags=tags, newest=True, limit=size, after=after)
            )
            if not found:
                return
            yield [record.id for record in found]
            after = (found[-1].sort, found[-1].id)
            limit = None if limit is None else limit - len(found)

    async def _listing(self, id: str) -> Record | None:
        try:
            return await self._db.records.get(KIND, id)
        except RecordNotFound:
            return None

    async def _unlist(self, listed: Record) -> None:
        try:
            await self._db.records.drop(KIND, listed.id, expect=listed.revision)
        except RevisionConflict:
            return  # there is a new conversation of that id already


async def _newest(thread: Thread, entry: str) -> Item | None:
    """An entry as it was added last: switching back to a line adds what it had left again."""
    found = [item for item in await thread.named([entry]) if item.log == HISTORY and item.format == FORMAT]
    return max(found, key=lambda item: item.version, default=None)


def _listed(record: ConversationRecord, owner: str | None) -> Record:
    """What a conversation is listed by: its scope, and when it was saved."""
    tags = () if record.scope is None else (_tag(record.scope),)
    saved = int(record.updated_at.timestamp() * 1_000_000)
    return Record(kind=KIND, id=record.conversation_id, body=None, owner=owner, tags=tags, sort=saved)


def _tag(scope: str) -> str:
    return f"scope {scope}"
