"""Where threads stood when their last turn here ended, so that the next one need not read it again.

It may be out of date, since other processes write too. Whatever is begun on it is committed at its version
and its episode's revision, so what is out of date costs a second look, never a wrong turn.
"""

import msgspec

from clew.core.values import Head
from clew.runtime.episodes import Episode
from clew.threads.database import Database

MOST = 512
MOST_BYTES = 32 * 1024


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """A thread between two turns: its head, if it exists, and the episode that it is in, if any."""

    head: Head | None
    episode: Episode | None


class Recent:
    """The threads whose turns ended last; small ones, and not many."""

    def __init__(self) -> None:
        self._rests: dict[tuple[str, str | None, str], Rest] = {}

    def keep(self, db: Database, rest: Rest) -> None:
        """Remember where a thread stands."""
        head = rest.head
        if head is None or head.counters.size + head.counters.weight > MOST_BYTES:
            return
        self._rests[db.tenant, db.user, head.id] = rest
        if len(self._rests) > MOST:
            del self._rests[next(iter(self._rests))]

    def take(self, db: Database, thread: str) -> Rest | None:
        """What is remembered of a thread; only once, so that a second look is a fresh one."""
        return self._rests.pop((db.tenant, db.user, thread), None)
