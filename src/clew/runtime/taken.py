"""What was taken back by a rewind, and may therefore be said again."""

from clew.core.values import Changeset, Item
from clew.threads.thread import Thread

REWIND = "Rewind"
"""The reason of a changeset that takes back what others added."""
PAGE = 256


async def was_taken_back(thread: Thread, item: Item) -> bool:
    """Whether an item that the thread once had was taken back. What was compacted was not: it was said.

    It costs a read, and for an item that is no longer visible one of the log from there on.
    """
    if await thread.items(after=item.place - 1, before=item.place + 1, log=item.log):
        return False
    version = item.version
    while changes := await thread.changesets(after=version, limit=PAGE):
        if any(change.reason == REWIND and _ends(change, item) for change in changes):
            return True
        version = changes[-1].version
    return False


def _ends(change: Changeset, item: Item) -> bool:
    return any(cut.log == item.log and cut.first <= item.place <= cut.last for cut in change.cuts)
