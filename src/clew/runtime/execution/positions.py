"""Positions: threads as their last turn in this process left them, so that the next need not read them."""

import msgspec

from clew.core.values import Head
from clew.database.database import Database
from clew.runtime.records.episodes import Episode
from clew.runtime.turn.journal import ThreadJournal

MOST_POSITIONS = 512
MOST_BYTES = 32 * 1024


class ThreadPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A thread between two turns: its head, if it exists, and the episode that it is in, if any."""

    head: Head | None
    episode: Episode | None


def position_after(journal: ThreadJournal) -> ThreadPosition | None:
    """Return the position of a thread after the last commit of a run, if the journal knows it."""
    if journal.head is None or journal.episode is None or journal.has_pending_episode:
        return None
    return ThreadPosition(head=journal.head, episode=journal.episode)


class PositionCache:
    """The positions of the threads whose turns ended last; small ones, and not many.

    A position may be out of date: another process may have written since. A turn that starts from it expects
    its version and its revisions, so that nothing is committed then, and the thread is read.
    """

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str | None, str], ThreadPosition] = {}

    def remember(self, db: Database, position: ThreadPosition) -> None:
        """Remember a position, unless it takes too much memory."""
        head = position.head
        if head is None or head.counters.size + head.counters.weight > MOST_BYTES:
            return
        self._positions[db.tenant, db.user, head.id] = position
        if len(self._positions) > MOST_POSITIONS:
            del self._positions[next(iter(self._positions))]

    def take(self, db: Database, thread: str) -> ThreadPosition | None:
        """Return what is remembered of a thread, and forget it: a second look is then a fresh one."""
        return self._positions.pop((db.tenant, db.user, thread), None)
