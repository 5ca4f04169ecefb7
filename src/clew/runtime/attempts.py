"""Attempts: how often something is tried again, and how long it waits, before its error is raised."""

import asyncio
import math
from typing import Final

ATTEMPTS: Final = 64
"""Conflicts in a row that nobody meets who is only slower than others: by then something is wrong."""


class Attempts:
    """What is left of the attempts, and of the seconds, that a loop may take."""

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
