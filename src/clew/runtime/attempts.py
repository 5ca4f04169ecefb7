"""Attempts: how often something is tried again, and how long it waits, before its error is raised."""

import asyncio
import math
from collections.abc import Iterable
from typing import Any, Final

ATTEMPTS: Final = 64
"""More conflicts in a row than a merely slow writer meets: by then something is wrong."""

CANCEL_INTERVAL: Final = 0.1


class Attempts:
    """The attempts and the seconds that a loop has left."""

    def __init__(self, seconds: float = math.inf) -> None:
        self._left = ATTEMPTS
        self._until = asyncio.get_running_loop().time() + seconds

    def count(self, error: Exception) -> None:
        """Take a failed attempt off what is left; raise its error if it was the last."""
        self._left -= 1
        if not self._left:
            raise error

    def check_time(self, error: Exception) -> None:
        """Raise an error if the time is over."""
        if asyncio.get_running_loop().time() >= self._until:
            raise error


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
