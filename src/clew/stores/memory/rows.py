"""What the store in memory holds."""

from bisect import insort
from collections.abc import Iterable

import msgspec

from clew.core.encoding import decoder
from clew.core.errors import StoreDamaged
from clew.core.rows import (
    Advance,
    ChangesetRow,
    CutRow,
    ItemRow,
    KeyRow,
    Text,
    ThreadRow,
    Unreadable,
)
from clew.core.values import Counters, Job, Record

_decode_counters = decoder(Counters)


class Rows:
    """The rows of one thread key. Bodies are bytes, so nothing is shared with a caller."""

    def __init__(self, thread: ThreadRow) -> None:
        self.move(thread)
        self.deleted = False
        self.changesets: dict[int, ChangesetRow] = {}
        self.items: dict[tuple[str, int], ItemRow] = {}
        self.order: dict[str, list[int]] = {}
        self.cuts: list[CutRow] = []
        self.anchors: dict[int, bytes] = {}
        self.keys: dict[str, KeyRow] = {}
        self.texts: list[Text] = []
        self.indexed = 0

    def move(self, thread: ThreadRow) -> None:
        """Take over the thread's row."""
        self.thread = thread
        self.counters = msgspec.json.encode(thread.counters)

    def read(self) -> ThreadRow:
        """The thread's row.

        Raises:
            StoreDamaged: It is not what was written.
        """
        return msgspec.structs.replace(self.thread, counters=_decode_counters(self.counters))

    def listed(self) -> ThreadRow | Unreadable:
        """The thread's row in a list, where one that is damaged hides no other."""
        try:
            return self.read()
        except StoreDamaged as error:
            return Unreadable(id=self.thread.id, created=self.thread.created, problem=error.problem)

    def write(self, step: Advance) -> None:
        """Add the rows of one changeset."""
        self.changesets[step.change.version] = step.change
        self._add_items(step.items)
        self.cuts += step.cuts
        if step.anchor is not None:
            self.anchors[step.change.version] = step.anchor
        if step.name is not None:
            self.keys[step.name] = KeyRow(step.change.version, step.fingerprint or b"")

    def _add_items(self, items: Iterable[ItemRow]) -> None:
        for item in items:
            self.items[item.log, item.place] = item
            insort(self.order.setdefault(item.log, []), item.place)

    def copy(self, source: "Rows", upto: int) -> None:
        """Take over another's rows up to a version."""
        self.changesets |= {v: row for v, row in source.changesets.items() if v <= upto}
        self._add_items(row for row in source.items.values() if row.version <= upto)
        self.cuts += [cut for cut in source.cuts if cut.version <= upto]
        self.anchors |= {v: state for v, state in source.anchors.items() if v <= upto}


class Tenant:
    """Everything of one tenant."""

    def __init__(self) -> None:
        self.rows: dict[int, Rows] = {}
        self.ids: dict[str, int] = {}
        self.records: dict[tuple[str, str], bytes] = {}
        self.jobs: dict[str, bytes] = {}


decode_record = msgspec.json.Decoder(Record).decode
decode_job = msgspec.json.Decoder(Job).decode
