"""The memory service: what was said in sessions, kept apart from them, and found again by words."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby

from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from clew.adapters.adk.scopes import thread_id_of
from clew.core.arguments import check_arguments, check_methods
from clew.core.encoding import encode
from clew.core.errors import ThreadExists, ThreadNotFound, VersionConflict
from clew.core.values import MEMORY_PREFIX, Absent, AppendTo, Changeset, Cut, Exact, Head, Item
from clew.database.database import Database
from clew.database.thread import Thread

EVENTS_LOG = "events"
"""The log of a memory thread that holds one item for each event."""

MOST_MEMORIES = 10
ITEMS_PER_CHANGE = 256


@check_methods
class MemoryService(BaseMemoryService):
    """The conversations of an app's users, searchable, in a Clew database, which stays open.

    Each user of an app has a thread of their own for it, so it is exported and erased with the rest of what
    is theirs. A search gives at most ``limit`` memories, the best first.
    """

    def __init__(self, db: Database, *, limit: int = MOST_MEMORIES) -> None:
        self._db = db
        self._limit = limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember the events of a session; those that are known already stay as they are."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id, events=session.events
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember some events. One that was forgotten does not come back; one that changed is renewed."""
        thread = self._db.thread(memory_thread_id_of(app_name, user_id))
        items_by_id = {
            item.id: item for item in (_memory_item(event, session_id) for event in events) if item
        }
        items = list(items_by_id.values())
        for first in range(0, len(items), ITEMS_PER_CHANGE):
            while not await self._append_new(thread, user_id, items[first : first + ITEMS_PER_CHANGE]):
                pass  # another writer has just appended; look again what is new

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The memories that hold any of the words, the best first."""
        thread = self._db.thread(memory_thread_id_of(app_name, user_id))
        hits = await self._db.search(
            _separate_scripts(query),
            any=True,
            owner=user_id,
            thread=thread.id,
            log=EVENTS_LOG,
            limit=self._limit,
        )
        items = [await _item_at(thread, hit.place) for hit in hits]
        return SearchMemoryResponse(memories=[_memory_entry(item) for item in items if item is not None])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget one memory by its id; it does not come back when its session is added again."""
        thread = self._db.thread(memory_thread_id_of(app_name, user_id))
        while memory_id:
            head, current_items = await _current_items(thread, [memory_id])
            if head is None or not current_items.get(memory_id):
                return
            change = Changeset(cuts=_cuts_of(current_items.values()), reason="Forget")
            if await self._try_commit(thread.id, change, Exact(head.version)):
                return

    async def _append_new(self, thread: Thread, owner: str, items: Sequence[Item]) -> bool:
        """Append those of the items that are new or changed; whether that is done."""
        head, current_items = await _current_items(thread, [item.id or "" for item in items])
        new_items = [item for item in items if _is_new(item, current_items)]
        if not new_items:
            return True
        old_items = [current_items.get(item.id or "") for item in new_items]
        change = Changeset(items=tuple(new_items), cuts=_cuts_of(old_items), reason="Remember")
        expect = Absent(owner=owner) if head is None else Exact(head.version)
        return await self._try_commit(thread.id, change, expect)

    async def _try_commit(self, thread: str, change: Changeset, expect: Absent | Exact) -> bool:
        try:
            await self._db.commit([AppendTo(thread=thread, change=change, expect=expect)])
        except (VersionConflict, ThreadExists):
            return False
        return True


@check_arguments
def memory_thread_id_of(app_name: str, user_id: str) -> str:
    """The id of the thread that holds what one user of an app said."""
    return f"{MEMORY_PREFIX}{thread_id_of(app_name, user_id)}"


async def _current_items(thread: Thread, ids: Sequence[str]) -> tuple[Head | None, dict[str, Item | None]]:
    """The head, and what is known under some ids: the item, or None if it was forgotten."""
    try:
        head = await thread.head()
    except ThreadNotFound:
        return None, {}
    newest = {item.id or "": item for item in await thread.items_by_id(ids) if item.log == EVENTS_LOG}
    return head, {id: await _item_at(thread, item.place, head.version) for id, item in newest.items()}


async def _item_at(thread: Thread, place: int, version: int | None = None) -> Item | None:
    window = await thread.items(after=place - 1, before=place + 1, log=EVENTS_LOG, at=version)
    return window[0] if window else None


def _is_new(item: Item, current_items: Mapping[str, Item | None]) -> bool:
    if item.id is None or item.id not in current_items:
        return True
    before = current_items[item.id]
    return before is not None and encode(before.body) != encode(item.body)


def _cuts_of(items: Iterable[Item | None]) -> tuple[Cut, ...]:
    return tuple(
        Cut(log=item.log, first=item.place, last=item.place, count=1) for item in items if item is not None
    )


def _memory_item(event: Event, session: str | None) -> Item | None:
    """An event as it is remembered; None if it says nothing."""
    parts = (event.content.parts if event.content else None) or []
    text = " ".join(part.text for part in parts if part.text)
    if event.content is None or not text:
        return None
    content = event.content.model_dump(mode="json", exclude_none=True)
    body = {
        "text": _separate_scripts(text),
        "said": content,
        "author": event.author,
        "timestamp": event.timestamp,
        "session": session,
    }
    return Item(body=body, id=event.id or sha256(encode(body)).hexdigest()[:32], kind="event", log=EVENTS_LOG)


def _memory_entry(item: Item) -> MemoryEntry:
    body = item.body
    return MemoryEntry(
        id=item.id,
        content=types.Content.model_validate(body["said"]),
        author=body["author"],
        timestamp=datetime.fromtimestamp(body["timestamp"], tz=UTC).isoformat(),
        custom_metadata={} if body["session"] is None else {"session_id": body["session"]},
    )


def _separate_scripts(text: str) -> str:
    """A text with a space where Latin letters meet others: some scripts put none between words."""
    return " ".join("".join(run) for _, run in groupby(unicodedata.normalize("NFC", text), _is_latin))


def _is_latin(letter: str) -> bool:
    return letter.isascii() or not letter.isalnum() or unicodedata.name(letter, "").startswith("LATIN")
