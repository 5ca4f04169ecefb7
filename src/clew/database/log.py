"""Taking from a log: pop its tail, clear it, compact it. Each is a changeset; the past stays readable."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from clew.core.arguments import Count, check_methods
from clew.core.encoding import Id
from clew.core.errors import InvalidArgument, LogFull, TranscriptBroken, VersionConflict
from clew.core.log import places, tool_calls
from clew.core.log.codec import Items
from clew.core.values import (
    HISTORY,
    Changeset,
    Committed,
    Cut,
    Exact,
    Expectation,
    Head,
    Item,
    LogSize,
    Window,
)

T = TypeVar("T")


class LogThread(Protocol):
    """The thread that a log belongs to."""

    id: str

    async def head(self) -> Head:
        """The thread at its newest version."""
        ...

    async def items(self, *, last: int | None = None, at: int | None = None, log: str = HISTORY) -> Window:
        """Visible items, oldest first."""
        ...

    async def append(self, change: Changeset, *, expect: Expectation) -> Committed:
        """Commit one more changeset."""
        ...


@check_methods
class Log:
    """One log of a thread."""

    def __init__(self, thread: LogThread, name: Id) -> None:
        self._thread = thread
        self._name = name

    async def pop(self) -> Item | None:
        """Take away the newest visible item and give it back; None if there is none."""
        while True:
            head = await self._thread.head()
            tail = await self._thread.items(last=1, at=head.version, log=self._name)
            if not tail:
                return None
            cut = Cut(
                log=self._name,
                first=tail[0].place,
                last=tail[0].place,
                count=1,
                open=tool_calls.open_calls_before(head.counters.open, tail.items),
            )
            if await self._commit_cut(head, Changeset(cuts=(cut,), reason="Pop")):
                item: Item = tail[0]
                return item

    async def clear(self) -> Committed | None:
        """End every visible item; None if there is none."""
        while True:
            head = await self._thread.head()
            size = head.counters.logs.get(self._name, LogSize())
            if not size.length:
                return None
            open = {} if self._name == HISTORY else head.counters.open
            cut = Cut(log=self._name, first=1, last=places.end_of(size.end), count=size.length, open=open)
            if result := await self._commit_cut(head, Changeset(cuts=(cut,), reason="Clear")):
                return result

    async def compact(self, summary: Items, *, keep: Count) -> Committed:
        """Put a summary in place of all visible items but the last few, in one changeset.

        A call stays with its result, so more than ``keep`` may be kept. Where there is no room for the
        summary, what is kept is appended anew behind it.

        Raises:
            InvalidArgument: There is nothing to compact.
            TranscriptBroken: A tool call among them is still open.
            VersionConflict: The thread was written to meanwhile; the summary may be out of date.
        """
        head = await self._thread.head()
        items = await self._thread.items(at=head.version, log=self._name)

        async def append(change: Changeset) -> Committed:
            return await self._thread.append(change, expect=Exact(head.version))

        return await commit_compaction(head, items, summary, append, log=self._name, keep=keep)

    async def _commit_cut(self, head: Head, change: Changeset) -> Committed | None:
        """The cut, committed; None if the thread has moved on meanwhile."""
        try:
            return await self._thread.append(change, expect=Exact(head.version))
        except VersionConflict:
            return None


async def commit_compaction(
    head: Head,
    items: Window,
    summary: Sequence[Item],
    append: Callable[[Changeset], Awaitable[T]],
    *,
    log: str,
    keep: int,
) -> T:
    """Compact a log that was read at one version: see ``Log.compact``. ``append`` must commit only there."""
    cut_count = _compactable_count(head, items, log, keep)
    summary_items = [msgspec.structs.replace(item, log=log, place=0) for item in summary]
    try:
        return await append(_compact_in_place(head, items, summary_items, log, cut_count))
    except LogFull:
        return await append(_compact_at_end(head, items, summary_items, log, cut_count))


def _compactable_count(head: Head, items: Window, log: str, keep: int) -> int:
    """The number of visible items that a compaction ends."""
    count = max(len(items) - keep, 0) if keep >= 0 else 0
    open_call = next((item.call for item in items[:count] if item.call in head.counters.open), None)
    if open_call is not None:
        raise TranscriptBroken(thread=head.id, call=open_call, problem="compaction would end an open call")
    count = tool_calls.split_index(items.items, count)
    if not count:
        raise InvalidArgument(problem=f"Log {log!r} has {len(items)} items; there is nothing to compact.")
    return count


def _compact_in_place(
    head: Head, items: Window, summary: Sequence[Item], log: str, cut_count: int
) -> Changeset:
    """A compaction whose summary is put right behind the last item that it ends."""
    last = items[cut_count - 1].place
    unreadable = [entry for entry in items.broken if entry.place <= last]
    count = cut_count + len(unreadable)
    cut = Cut(log=log, first=1, last=last, count=count, open=head.counters.open)
    item_places = places.places_after(last, len(summary), head.id, log)
    new_items = (
        msgspec.structs.replace(item, place=place) for item, place in zip(summary, item_places, strict=True)
    )
    return Changeset(items=tuple(new_items), cuts=(cut,), reason="Compact")


def _compact_at_end(
    head: Head, items: Window, summary: Sequence[Item], log: str, cut_count: int
) -> Changeset:
    """A compaction that ends everything and appends the summary and what is kept."""
    size = head.counters.logs[log]
    tail = [msgspec.structs.replace(item, place=0) for item in items[cut_count:]]
    cut = Cut(
        log=log,
        first=1,
        last=places.end_of(size.end),
        count=size.length,
        open=tool_calls.open_calls_before(head.counters.open, tail),
    )
    return Changeset(items=(*summary, *tail), cuts=(cut,), reason="Compact")
