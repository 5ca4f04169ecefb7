"""Waiting for a busy thread: in line behind the turns of this process, and patiently for those of others."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from holdfast.threads.database import Database
from holdfast.threads.thread import Thread

LOOK_AGAIN = 1.0
"""Seconds between two looks of a waiting turn at the database: at a thread that changes, or that does not."""

LineKey: TypeAlias = tuple[str, str | None, str]
"""Tenant, user and thread. Nobody stands in a line with turns that they could not see."""


class LinePlace:
    """A place in the line of a thread, taken when a turn is asked for and given up when it has ended."""

    def __init__(self, line: "deque[LinePlace]") -> None:
        self._line = line
        self._reached = asyncio.get_running_loop().create_future()
        line.append(self)
        if line[0] is self:
            self._reached.set_result(None)

    @property
    def is_reached(self) -> bool:
        """Whether there is nothing to wait for: no turn is before it, or the place was given up."""
        return self._reached.done()

    async def reach(self) -> None:
        """Return once no turn is before it."""
        await self._reached

    def leave(self) -> None:
        """Give the place up, once or again; the turn goes on without one, and the next in line moves up."""
        if self in self._line:
            self._line.remove(self)
            if self._line:
                self._line[0].move_up()
        self.move_up()

    def disperse(self) -> None:
        """Let all who wait in the line try by themselves, as if each were the first."""
        for place in self._line:
            place.move_up()

    def move_up(self) -> None:
        """Wait no longer."""
        if not self._reached.done():
            self._reached.set_result(None)


class TurnLines:
    """The turns of one process, in the order in which they came, thread by thread.

    A turn is in line from the moment it is asked for until it has ended. Only the first of a line asks the
    database, and the next follows without a look at it. Lines only save work: what keeps turns apart is the
    run that a thread's state names, which turns of other processes respect too.
    """

    def __init__(self) -> None:
        self._lines: dict[LineKey, deque[LinePlace]] = {}

    @contextmanager
    def join(self, db: Database, thread: str) -> Iterator[LinePlace]:
        """Take the last place in a thread's line, and give it up at the end."""
        key = (db.tenant, db.user, thread)
        line = self._lines.setdefault(key, deque())
        place = LinePlace(line)
        try:
            yield place
        finally:
            place.leave()
            if not line and self._lines.get(key) is line:
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
        await thread.changed(version, timeout=min(timeout, LOOK_AGAIN))
        await asyncio.sleep(self._earliest - clock())
        self._earliest = clock() + LOOK_AGAIN
