"""Lines before a busy thread: the turns of this process wait one behind another, and for other processes."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from clew.database.database import Database
from clew.database.thread import Thread

LOOK_AGAIN = 1.0
"""Seconds between two looks of a waiting turn at the database: at a thread that changes, or that does not."""

HOLD_SECONDS = 0.5
"""The time for which a line holds a thread, turn after turn, although another process waits for it."""
YIELD_SECONDS = 1.5
"""The time for which a line lets another process go first: until it has certainly looked, and a bit more."""

LineKey: TypeAlias = tuple[str, str | None, str]
"""Tenant, user and thread: no turn is in a line with turns that its user could not see."""


class TurnLine:
    """The turns of this process that hold a thread or wait for it; the first is at work."""

    def __init__(self) -> None:
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

    def leave(self) -> None:
        """Give the place up; the turn goes on without one, and the next in line moves up."""
        places = self._line.places
        if self in places:
            places.remove(self)
            if places:
                places[0].move_up()
        self.move_up()

    def start_turn(self) -> None:
        """Record that a turn of the line has the thread now."""
        if self._line.held_since is None:
            self._line.held_since = self._loop.time()

    def end_turn(self, version: int, *, awaited: bool) -> None:
        """Make the next in line let a turn of another process go first, if one waits and it is time.

        Without it a line that never empties would keep other processes out: it follows itself at once, and
        they see that a thread has become free only when they look.
        """
        line = self._line
        line.is_awaited = line.is_awaited or awaited
        if line.is_awaited and self._loop.time() - (line.held_since or 0.0) >= HOLD_SECONDS:
            line.is_awaited, line.held_since, line.yields_at = False, None, version

    def disperse(self) -> None:
        """Let every turn in the line try by itself, as if each were the first."""
        for place in self._line.places:
            place.move_up()

    def move_up(self) -> None:
        """Stop waiting."""
        if not self._reached.done():
            self._reached.set_result(None)


class TurnLines:
    """The turns of one process, in the order in which they came, thread by thread.

    A turn is in line from the moment it is asked for until it has ended. Only the first of a line asks the
    database, and the next follows without a look at it. Lines only save work: what keeps turns apart is the
    run that a thread's state names, which turns of other processes respect too.
    """

    def __init__(self) -> None:
        self._lines: dict[LineKey, TurnLine] = {}

    @contextmanager
    def join(self, db: Database, thread: str) -> Iterator[LinePlace]:
        """Take the last place in a thread's line, and give it up at the end."""
        key = (db.tenant, db.user, thread)
        line = self._lines.setdefault(key, TurnLine())
        place = LinePlace(line)
        try:
            yield place
        finally:
            place.leave()
            if not line.places and self._lines.get(key) is line:
                del self._lines[key]


class BusyWait:
    """Waits for a thread that a turn of another process holds.

    The first change is looked at as soon as it is seen. After that a second passes between two looks,
    however often the thread changes: a turn at work commits many times before it ends.
    """

    def __init__(self) -> None:
        self._earliest = 0.0

    async def until_change(self, thread: Thread, version: int, timeout: float = LOOK_AGAIN) -> None:
        """Return when the thread may be past a version or the time is over, but not too soon."""
        clock = asyncio.get_running_loop().time
        await thread.wait_for_change(version, timeout=min(timeout, LOOK_AGAIN))
        await asyncio.sleep(self._earliest - clock())
        self._earliest = clock() + LOOK_AGAIN
