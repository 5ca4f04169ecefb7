"""Lines before a busy thread: the turns of this process wait one behind another, and for other processes.

Lines only save work. What keeps turns apart is the run that a thread's state names, which turns of other
processes respect too.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from clew.core.values import Head
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.records.episodes import Episode
from clew.runtime.records.runs import ROLLED_BACK, SUPERSEDED
from clew.runtime.state.log_entries import LogTail, LogTails
from clew.runtime.turn.journal import ThreadJournal

HOLD_SECONDS = 0.5
"""The time for which a line holds a thread, turn after turn, although another process waits for it."""
YIELD_SECONDS = 1.5
"""The time for which a line lets another process go first: until it has certainly looked, and a bit more."""

MOST_POSITIONS = 512
MOST_BYTES = 32 * 1024
"""The most that the state of a thread may take for its head to be remembered."""
MOST_TAIL_ENTRIES, MOST_TAIL_BYTES = 256, 128 * 1024
"""The longest and the largest tail of a log that is remembered."""
MOST_BYTES_OF_TAILS = 32 * 1024 * 1024
"""The most that the tails of all threads take together."""


class ThreadPosition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A thread between two turns: its head, if it exists, and the episode that it is in, if any.

    ``tails`` are the newest items of its logs at the version of the head, as far as they are known.
    """

    head: Head | None
    episode: Episode | None
    tails: LogTails = {}

    @property
    def tail_bytes(self) -> int:
        """About the bytes that the tails take in memory."""
        return sum(tail.size for tail in self.tails.values())


class TurnLine:
    """The turns of this process that hold a thread or wait for it; the first is at work.

    ``position`` is the thread as the last turn of the line left it, so that the next need not read it. It may
    be out of date: another process may have written since. A turn that starts from it expects its version and
    its revisions, so that nothing is committed then, and the thread is read.
    """

    def __init__(self, position: ThreadPosition | None) -> None:
        self.position = position
        self.places: deque[LinePlace] = deque()
        self.held_since: float | None = None
        self.is_awaited = False
        self.yields_at: int | None = None
        """The version after which the next turn lets another process go first, if it is to."""


class LinePlace:
    """A place in the line of a thread, taken when a turn is asked for and given up when it has ended."""

    def __init__(self, line: TurnLine) -> None:
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._reached = self._loop.create_future()
        self.overtakes = False
        line.places.append(self)
        if line.places[0] is self:
            self._reached.set_result(None)

    @property
    def is_reached(self) -> bool:
        """True if there is nothing to wait for: no turn is before it, or the place was given up."""
        return self._reached.done()

    async def reach(self, thread: Thread) -> None:
        """Return once no turn is before it, and after a turn of another process whose time has come."""
        await self._reached
        version, self._line.yields_at = self._line.yields_at, None
        if version is not None:
            await thread.wait_for_change(version, timeout=YIELD_SECONDS)

    def overtake(self) -> None:
        """Go before the turns that only wait, behind the one at work and others that overtake."""
        self.overtakes = True
        places = self._line.places
        if self.is_reached or self not in places:
            return
        places.remove(self)
        before = next((at for at, place in enumerate(places) if at and not place.overtakes), len(places))
        places.insert(before, self)

    async def wait_briefly(self, seconds: float) -> None:
        """Return once no turn is before it, or after so many seconds."""
        await asyncio.wait([self._reached], timeout=seconds)

    def leave(self) -> None:
        """Give the place up; the turn goes on without one, and the next in line moves up."""
        places = self._line.places
        if self in places:
            places.remove(self)
            if places:
                places[0].move_up()
        self.move_up()

    def take_position(self) -> ThreadPosition | None:
        """Return where the last turn left the thread, and forget it: a second look is then a fresh one."""
        position, self._line.position = self._line.position, None
        return position

    def start_turn(self) -> None:
        """Record that a turn of the line has the thread now."""
        if self._line.held_since is None:
            self._line.held_since = self._loop.time()

    def end_turn(self, journal: ThreadJournal, tails: LogTails, *, suspended: bool) -> None:
        """Leave the thread to the next in line, or to a turn of another process, if one waits and it is time.

        Without the latter a line that never empties would keep other processes out: it follows itself at
        once, and they see that a thread has become free only when they look.
        """
        line = self._line
        line.is_awaited = line.is_awaited or journal.run.awaited
        if line.is_awaited and self._loop.time() - (line.held_since or 0.0) >= HOLD_SECONDS:
            line.is_awaited, line.held_since, line.yields_at = False, None, journal.version
        if journal.run.stop in (SUPERSEDED, ROLLED_BACK) and not self._is_followed_by_overtaker():
            line.yields_at = journal.version  # a turn of another process has ended it, and goes first
        # The next turn on a suspended thread is refused or resumes the run, and both read the thread.
        if not suspended and journal.head is not None and journal.has_stored_episode:
            small_tails = {name: tail for name, tail in tails.items() if _is_small(tail, journal.head)}
            line.position = ThreadPosition(head=journal.head, episode=journal.episode, tails=small_tails)

    def _is_followed_by_overtaker(self) -> bool:
        return any(place.overtakes for place in self._line.places if place is not self)

    def disperse(self) -> None:
        """Let every turn in the line try by itself, as if each were the first."""
        for place in self._line.places:
            place.move_up()

    def move_up(self) -> None:
        """Stop waiting."""
        if not self._reached.done():
            self._reached.set_result(None)


def _is_small(tail: LogTail, head: Head) -> bool:
    """Return whether a tail is that of a head, and small enough to be remembered."""
    return (
        tail.version == head.version
        and len(tail.entries) <= MOST_TAIL_ENTRIES
        and tail.size <= MOST_TAIL_BYTES
    )


class TurnLines:
    """The turns of one process, in the order in which they came, thread by thread.

    A turn is in line from the moment it is asked for until it has ended. Only the first of a line asks the
    database, and the next follows without a look at it. Of lines that are empty the last positions are
    remembered; small ones, and not many.
    """

    def __init__(self) -> None:
        # By tenant, user and thread: no turn is in a line with turns that its user could not see.
        self._lines: dict[tuple[str, str | None, str], TurnLine] = {}
        self._positions: dict[tuple[str, str | None, str], ThreadPosition] = {}
        self._tail_bytes = 0

    @contextmanager
    def join(self, db: Database, thread: str) -> Iterator[LinePlace]:
        """Take the last place in a thread's line, and give it up at the end."""
        key = (db.tenant, db.user, thread)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = TurnLine(self._take(key))
        place = LinePlace(line)
        try:
            yield place
        finally:
            place.leave()
            if not line.places and self._lines.get(key) is line:
                del self._lines[key]
                self._remember(key, line.position)

    def _remember(self, key: tuple[str, str | None, str], position: ThreadPosition | None) -> None:
        """Remember where the last turn of a line left its thread, unless that takes too much memory."""
        head = position.head if position is not None else None
        if position is None or head is None or head.counters.size + head.counters.weight > MOST_BYTES:
            return
        self._positions[key] = position
        self._tail_bytes += position.tail_bytes
        while len(self._positions) > MOST_POSITIONS or self._tail_bytes > MOST_BYTES_OF_TAILS:
            self._take(next(iter(self._positions)))

    def _take(self, key: tuple[str, str | None, str]) -> ThreadPosition | None:
        """Return what is remembered of a thread, and forget it."""
        position = self._positions.pop(key, None)
        if position is not None:
            self._tail_bytes -= position.tail_bytes
        return position
