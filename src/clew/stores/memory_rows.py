"""The rows that the store in memory keeps, by tenant and thread."""

from bisect import insort
from collections.abc import Iterable

import msgspec

from clew.core.encoding import decoder
from clew.core.errors import StoreDamaged
from clew.core.log.rows import (
    Advance,
    ChangesetRow,
    CutRow,
    ItemRow,
    KeyRow,
    SearchText,
    ThreadRow,
    UnreadableThread,
)
from clew.core.values import Counters

_decode_counters = decoder(Counters)


class ThreadRows:
    """The rows of one thread key. Bodies are bytes, so nothing is shared with a caller."""

    def __init__(self, thread: ThreadRow) -> None:
        self.set_thread(thread)
        self.deleted = False
        self.changesets: dict[int, ChangesetRow] = {}
        self.items: dict[tuple[str, int], ItemRow] = {}
        self.places_by_log: dict[str, list[int]] = {}
        self.cuts: list[CutRow] = []
        self.anchors: dict[int, bytes] = {}
        self.keys: dict[str, KeyRow] = {}
        self.texts: list[SearchText] = []
        self.indexed_upto = 0

    def set_thread(self, thread: ThreadRow) -> None:
        """Take over the thread's row."""
        self.thread = thread
        self.counters = msgspec.json.encode(thread.counters)

    def read(self) -> ThreadRow:
        """The thread's row.

        Raises:
            StoreDamaged: It is not what was written.
        """
        return msgspec.structs.replace(self.thread, counters=_decode_counters(self.counters))

    def try_read(self) -> ThreadRow | UnreadableThread:
        """The thread's row in a list, where one that is damaged hides no other."""
        try:
            return self.read()
        except StoreDamaged as error:
            return UnreadableThread(id=self.thread.id, created=self.thread.created, problem=error.problem)

    def add_changeset(self, advance: Advance) -> None:
        """Add the rows of one changeset."""
        self.changesets[advance.change.version] = advance.change
        self._add_items(advance.items)
        self.cuts += advance.cuts
        if advance.anchor is not None:
            self.anchors[advance.change.version] = advance.anchor
        if advance.idempotency_key is not None:
            self.keys[advance.idempotency_key] = KeyRow(advance.change.version, advance.fingerprint or b"")

    def _add_items(self, items: Iterable[ItemRow]) -> None:
        for item in items:
            self.items[item.log, item.place] = item
            insort(self.places_by_log.setdefault(item.log, []), item.place)

    def copy_rows(self, source: "ThreadRows", upto: int) -> None:
        """Take over another's rows up to a version."""
        self.changesets |= {v: row for v, row in source.changesets.items() if v <= upto}
        self._add_items(row for row in source.items.values() if row.version <= upto)
        self.cuts += [cut for cut in source.cuts if cut.version <= upto]
        self.anchors |= {v: state for v, state in source.anchors.items() if v <= upto}


class TenantRows:
    """Everything of one tenant."""

    def __init__(self) -> None:
        self.rows: dict[int, ThreadRows] = {}
        self.ids: dict[str, int] = {}
        self.records: dict[tuple[str, str], bytes] = {}
        self.jobs: dict[str, bytes] = {}
