"""Taking from a log: pop its tail, clear it, compact it. Each is a changeset; the past stays readable."""

from collections.abc import Sequence
from typing import Protocol

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
    Expect,
    Head,
    Item,
    LogSize,
    Window,
)


class Owner(Protocol):
    """The thread that a log belongs to."""

    id: str

    async def head(self) -> Head:
        """The thread at its newest version."""
        ...

    async def items(self, *, last: int | None = None, at: int | None = None, log: str = HISTORY) -> Window:
        """Visible items, oldest first."""
        ...

    async def append(self, change: Changeset, *, expect: Expect) -> Committed:
        """Commit one more changeset."""
        ...


@check_methods
class Log:
    """One log of a thread."""

    def __init__(self, thread: Owner, name: Id) -> None:
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
                open=tool_calls.open_before(head.counters.open, tail.items),
            )
            if await self._cut(head, Changeset(cuts=(cut,), reason="Pop")):
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
            cut = Cut(log=self._name, first=1, last=places.at(size.end + 1) - 1, count=size.length, open=open)
            if done := await self._cut(head, Changeset(cuts=(cut,), reason="Clear")):
                return done

    async def compact(self, summary: Items, *, keep: Count) -> Committed:
        """Put a summary in place of all visible items but the last few, in one changeset.

        A call stays with its result, so more than ``keep`` may be kept. Where there is no room for the
        summary, what is kept is appended anew behind it.

        Raises:
            InvalidArgument: There is nothing to compact.
            TranscriptBroken: A tool call among them is still open.
            VersionConflict: Somebody wrote meanwhile; the summary may be out of date.
        """
        head = await self._thread.head()
        items = await self._thread.items(at=head.version, log=self._name)
        ended = self._ended(items, keep, head)
        moved = [msgspec.structs.replace(item, log=self._name, place=0) for item in summary]
        try:
            change = self._squeezed(moved, items, ended, head)
            return await self._thread.append(change, expect=Exact(head.version))
        except LogFull:
            change = self._renewed(moved, items, ended, head)
            return await self._thread.append(change, expect=Exact(head.version))

    def _ended(self, items: Window, keep: int, head: Head) -> int:
        """How many of the visible items a compaction ends."""
        count = max(len(items) - keep, 0) if keep >= 0 else 0
        still = next((item.call for item in items[:count] if item.call in head.counters.open), None)
        if still is not None:
            raise TranscriptBroken(
                thread=self._thread.id, call=still, problem="compaction would end an open call"
            )
        count = tool_calls.parted(items.items, count)
        if not count:
            raise InvalidArgument(
                problem=f"Log {self._name!r} has {len(items)} items; there is nothing to compact."
            )
        return count

    def _squeezed(self, summary: Sequence[Item], items: Window, ended: int, head: Head) -> Changeset:
        """A compaction whose summary stands right behind the last item that it ends."""
        last = items[ended - 1].place
        broken = [entry for entry in items.broken if entry.place <= last]
        count = ended + len(broken)
        cut = Cut(log=self._name, first=1, last=last, count=count, open=head.counters.open)
        stands = places.between(last, len(summary), self._thread.id, self._name)
        placed = (
            msgspec.structs.replace(item, place=place) for item, place in zip(summary, stands, strict=True)
        )
        return Changeset(items=tuple(placed), cuts=(cut,), reason="Compact")

    def _renewed(self, summary: Sequence[Item], items: Window, ended: int, head: Head) -> Changeset:
        """A compaction that ends everything and appends the summary and what is kept."""
        size = head.counters.logs[self._name]
        kept = [msgspec.structs.replace(item, place=0) for item in items[ended:]]
        cut = Cut(
            log=self._name,
            first=1,
            last=places.at(size.end + 1) - 1,
            count=size.length,
            open=tool_calls.open_before(head.counters.open, kept),
        )
        return Changeset(items=(*summary, *kept), cuts=(cut,), reason="Compact")

    async def _cut(self, head: Head, change: Changeset) -> Committed | None:
        """The cut, committed; None if the thread has moved on meanwhile."""
        try:
            return await self._thread.append(change, expect=Exact(head.version))
        except VersionConflict:
            return None
