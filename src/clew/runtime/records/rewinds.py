"""Rewinds, as the log of a thread shows them."""

from clew.core.values import Changeset, Item
from clew.database.thread import Thread, changesets_after

REWIND = "Rewind"
"""The reason of a changeset that takes back what others added."""


async def was_rewound(thread: Thread, item: Item) -> bool:
    """Return whether an item that the thread once had was taken back.

    An item that was compacted was not: it was said. The answer costs a read, and for an item that is no
    longer visible a read of the log from there on.
    """
    if await thread.items(after=item.place - 1, before=item.place + 1, log=item.log):
        return False
    async for change in changesets_after(thread, item.version):
        if change.reason == REWIND and _has_cut(change, item):
            return True
    return False


def _has_cut(change: Changeset, item: Item) -> bool:
    return any(cut.log == item.log and cut.first <= item.place <= cut.last for cut in change.cuts)
