"""Attempts: how often something is tried again, and how long it waits, before its error is raised."""

import asyncio
import math
from collections.abc import Iterable
from typing import Any, Final

from clew.database.thread import Thread

ATTEMPTS: Final = 64
"""More conflicts in a row than a merely slow writer meets: by then something is wrong."""

LOOK_AGAIN = 1.0
"""Seconds between two looks of a waiting turn at the database: at a thread that changes, or that does not."""

CANCEL_INTERVAL: Final = 0.1


class Attempts:
    """The attempts and the seconds that a loop has left."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._left = ATTEMPTS
        self._clock = asyncio.get_running_loop().time
        self._until = self._clock() + seconds
        self._next_look = 0.0

    def count(self, error: Exception) -> None:
        """Take a failed attempt off what is left; raise its error if it was the last."""
        self._left -= 1
        if not self._left:
            raise error

    def check_time(self, error: Exception) -> None:
        """Raise an error if the time is over."""
        if self._clock() >= self._until:
            raise error

    async def wait_for_change(self, thread: Thread, version: int, timeout: float = math.inf) -> None:
        """Return when a thread that another process holds may be past a version or the time is over.

        The first change is looked at as soon as it is seen. After that a second passes between two looks,
        however often the thread changes: a turn at work commits many times before it ends.
        """
        await thread.wait_for_change(version, timeout=min(timeout, LOOK_AGAIN))
        await asyncio.sleep(self._next_look - self._clock())
        self._next_look = self._clock() + LOOK_AGAIN


async def cancel_tasks(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel tasks until each has ended; their results and errors are left in them.

    One attempt may not do: a cancel that comes just as the call of a driver, or what ``asyncio.wait_for``
    waits for, is done may be lost.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_INTERVAL)
