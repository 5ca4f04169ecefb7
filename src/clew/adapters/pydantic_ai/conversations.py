"""The conversation store: a thread for each conversation, a changeset for each save."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

from pydantic import TypeAdapter
from pydantic_ai import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from clew.adapters.pydantic_ai.entries import FORMAT, closing_message, entries_of, items_of
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
    ABOUT_KEY,
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

CONCURRENT_READS = 16
CONVERSATIONS_PER_PAGE = 256
MOST_PLACES = 4096

_record_adapter = TypeAdapter(ConversationRecord)
_log = logging.getLogger(__name__)


@check_methods
class Conversations(ConversationStore):
    """Pydantic AI's conversations in a Clew database, which stays open when this is done.

    A conversation's id is its thread's. What a history leaves when it is rewritten or branched stays in the
    thread's past; a fork shares the past of its parent and copies nothing. Deleting a conversation removes
    its messages, but for those that a fork still shares.

    With ``heal``, a conversation that ends with unanswered tool calls is loaded with a message that says that
    they were interrupted, so that it can go on with a prompt; the next save stores it. Calls that a run has
    deferred stay open.
    """

    def __init__(self, db: Database, *, heal: bool = False) -> None:
        self._db = db
        self._heal = heal
        self._thread_by_entry: dict[str, str] = {}

    async def load(
        self, conversation_id: str, *, limit: int | None = None, scope: str | None = None
    ) -> Conversation | None:
        """A conversation, or its last messages; None if there is none of that scope."""
        conversation = await super().load(conversation_id, limit=limit, scope=scope)
        if conversation is None or not self._heal or conversation.deferred_tool_requests is not None:
            return conversation
        closing = closing_message(conversation.messages)
        if closing is not None:
            calls = ", ".join(
                repr(part.tool_call_id) for part in closing.parts if part.part_kind == "tool-return"
            )
            _log.warning(
                "Conversation %r ended with open calls, which are closed: %s.", conversation_id, calls
            )
            conversation.messages = [*conversation.messages, closing]
        return conversation

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None if there is none.

        Raises:
            InvalidArgument: The thread of that id was written by something else.
        """
        head = await self._head(conversation_id)
        return None if head is None else self._record_of_head(head)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Records, of a scope or all, the one saved last first."""
        records: list[ConversationRecord] = []
        async for ids in self._id_pages(scope, limit):
            for start in range(0, len(ids), CONCURRENT_READS):
                some = await asyncio.gather(*map(self.read_record, ids[start : start + CONCURRENT_READS]))
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
        current = None if head is None else self._record_of_head(head)
        if (None if current is None else current.revision) != expected_revision:
            raise ConversationConflict(id)
        parent = new_entries[0].parent_id if new_entries else record.head_id
        try:
            if head is None and parent is not None:
                head = await self._fork_thread(record, parent)
            change = await self._changeset(head, current, parent, record, items_of(new_entries))
            expect = Absent() if head is None else Exact(head.version, head.hash)
            listing = _listing_record(record, None if head is None else head.owner)
            await self._db.commit([AppendTo(thread=id, change=change, expect=expect), Put(record=listing)])
        except (VersionConflict, ThreadExists, ThreadNotFound) as error:
            raise ConversationConflict(id) from error
        self._remember_thread(id, record.head_id, *record.branches)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Remove a conversation with its messages; forks of it stay whole.

        Raises:
            ConversationConflict: The conversation is not at the revision expected.
        """
        head = await self._head(conversation_id)
        current = None if head is None else self._record_of_head(head)
        if head is None or current is None or current.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        listing = await self._listing(conversation_id)
        try:
            await self._db.thread(conversation_id).delete(expect=Exact(head.version, head.hash))
        except (VersionConflict, ThreadNotFound) as error:
            raise ConversationConflict(conversation_id) from error
        if listing is not None:
            await self._unlist(listing)

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
        thread, window = await self._find_entry(head_id, None if limit is None else limit + 1)
        entries = entries_of(window, thread.id)
        self._remember_thread(thread.id, *(entry.id for entry in entries))
        return entries if limit is None else entries[-limit:]

    # Writing.

    async def _changeset(
        self,
        head: Head | None,
        current: ConversationRecord | None,
        parent: str | None,
        record: ConversationRecord,
        items: list[Item],
    ) -> Changeset:
        """The changeset after which the thread shows the history up to the parent, then the new messages."""
        cuts: tuple[Cut, ...] = ()
        if head is not None and (current is None or current.head_id != parent):
            cuts, missing = await self._difference_to_line(
                self._db.thread(record.conversation_id), head, parent
            )
            items = missing + items
        return Changeset(
            items=tuple(items),
            cuts=cuts,
            patches=(patch.set([FORMAT], _record_adapter.dump_python(record, mode="json")),),
            reason="Save",
            run_id=items[-1].run if items else None,
        )

    async def _difference_to_line(
        self, thread: Thread, head: Head, parent: str | None
    ) -> tuple[tuple[Cut, ...], list[Item]]:
        """The cut that ends what another line does not share with the one shown, and what it has besides."""
        line = [] if parent is None else list((await self._line_to_entry(thread, parent)) or ())
        if parent is not None and not line:
            raise ThreadNotFound(thread=thread.id)
        window = await thread.items(at=head.version)
        common = 0
        while common < min(len(window), len(line)) and window[common].id == line[common].id:
            common += 1
        missing = [Item(body=i.body, role=i.role, id=i.id, format=i.format, run=i.run) for i in line[common:]]
        after = window[common - 1].place if common else 0
        places = [item.place for item in window] + [unreadable.place for unreadable in window.broken]
        places = [place for place in places if place > after]
        cut = [Cut(first=min(places), last=max(places), count=len(places))] if places else []
        return tuple(cut), missing

    async def _fork_thread(self, record: ConversationRecord, parent: str) -> Head:
        """A thread that begins as another did when an entry was added to it."""
        if record.forked_from is not None:
            self._remember_thread(record.forked_from, parent)
        try:
            source, _ = await self._find_entry(parent, 1)
        except LookupError as missing:
            raise ConversationConflict(record.conversation_id) from missing
        item = await _newest_item(source, parent)
        at = None if item is None else item.version
        fork = await source.fork(record.conversation_id, at=at)
        return await fork.head()

    # Reading.

    async def _head(self, id: str) -> Head | None:
        try:
            return await self._db.thread(id).head()
        except ThreadNotFound:
            return None

    def _record_of_head(self, head: Head) -> ConversationRecord | None:
        """The record that a thread holds; None if it is empty, or a fork that was never finished."""
        body = head.state.get(FORMAT)
        if body is None:
            if head.counters.logs or head.state.keys() - {ABOUT_KEY}:
                raise InvalidArgument(
                    problem=f"Thread {head.id!r} was not written by Pydantic AI. Choose another id."
                )
            return None
        record = _record_adapter.validate_python(body)
        if record.conversation_id != head.id:
            return None
        self._remember_thread(head.id, record.head_id, *record.branches)
        return record

    async def _find_entry(self, entry: str, last: int | None) -> tuple[Thread, Window]:
        """The thread that holds an entry, and the end of the line up to it."""
        thread_id = self._thread_by_entry.get(entry)
        if thread_id is not None and (
            window := await self._line_to_entry(self._db.thread(thread_id), entry, last)
        ):
            return self._db.thread(thread_id), window
        async for ids in self._id_pages(None, None):
            for id in ids:
                if window := await self._line_to_entry(self._db.thread(id), entry, last):
                    return self._db.thread(id), window
        raise LookupError(f"There is no entry {entry!r} here.")

    async def _line_to_entry(self, thread: Thread, entry: str, last: int | None = None) -> Window | None:
        """The line up to an entry: what the thread showed when the entry was added, as far as the entry."""
        try:
            item = await _newest_item(thread, entry)
            if item is not None:
                return await thread.items(at=item.version, before=item.place + 1, last=last)
            head = await thread.head()
        except ThreadNotFound:
            return None
        # It may be there and be broken; then the rest of the line can still be read.
        record = head.state.get(FORMAT)
        is_head = isinstance(record, dict) and record.get("head_id") == entry
        return await thread.items(at=head.version, last=last) if is_head else None

    def _remember_thread(self, thread: str, *entries: str | None) -> None:
        """Remember where entries are; those learned first are forgotten when they are too many."""
        for entry in entries:
            if entry is not None:
                self._thread_by_entry.pop(entry, None)
                self._thread_by_entry[entry] = thread
        while len(self._thread_by_entry) > MOST_PLACES:
            self._thread_by_entry.pop(next(iter(self._thread_by_entry)))

    # Listing.

    async def _id_pages(self, scope: str | None, limit: int | None) -> AsyncIterator[list[str]]:
        """The ids of conversations, page by page, the one saved last first."""
        tags = () if scope is None else (_scope_tag(scope),)
        after: tuple[int, str] | None = None
        while limit is None or limit > 0:
            size = CONVERSATIONS_PER_PAGE if limit is None else min(limit, CONVERSATIONS_PER_PAGE)
            records = await self._db.records.find(
                RecordQuery(kind=KIND, tags=tags, newest=True, limit=size, after=after)
            )
            if not records:
                return
            yield [record.id for record in records]
            after = (records[-1].sort, records[-1].id)
            limit = None if limit is None else limit - len(records)

    async def _listing(self, id: str) -> Record | None:
        try:
            return await self._db.records.get(KIND, id)
        except RecordNotFound:
            return None

    async def _unlist(self, listing: Record) -> None:
        try:
            await self._db.records.drop(KIND, listing.id, expect=listing.revision)
        except RevisionConflict:
            return  # there is a new conversation of that id already


async def _newest_item(thread: Thread, entry: str) -> Item | None:
    """An entry as it was added last: switching back to a line adds what it had left again."""
    items = [
        item for item in await thread.items_by_id([entry]) if item.log == HISTORY and item.format == FORMAT
    ]
    return max(items, key=lambda item: item.version, default=None)


def _listing_record(record: ConversationRecord, owner: str | None) -> Record:
    """The record by which a conversation is listed: its scope, and when it was saved."""
    tags = () if record.scope is None else (_scope_tag(record.scope),)
    timestamp = int(record.updated_at.timestamp() * 1_000_000)
    return Record(kind=KIND, id=record.conversation_id, body=None, owner=owner, tags=tags, sort=timestamp)


def _scope_tag(scope: str) -> str:
    return f"scope {scope}"
