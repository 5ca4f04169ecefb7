"""Limits for work on the event loop itself: which, for how long, and when it is better left to a thread.

To hand a short piece of work to a thread and to wake up again costs more than the work. But whatever holds
the loop holds every task on it, so what may wait for the disk is done there only while the disk is quick.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from typing import Final

from clew.core.log.rows import (
    AddJob,
    AddThread,
    Advance,
    AskAnchor,
    AskChangesets,
    AskCuts,
    AskCutsAtPlaces,
    AskIdempotencyKey,
    AskItems,
    AskItemsAtPlaces,
    AskItemsById,
    AskJob,
    AskRecord,
    AskRecordsById,
    AskThread,
    CheckRecord,
    DropRecord,
    EndJob,
    MoveJob,
    SaveRecord,
    StoreWrite,
)

QUICK_QUESTIONS: Final = frozenset(
    {AskThread, AskAnchor, AskChangesets, AskItems, AskCuts, AskItemsAtPlaces, AskCutsAtPlaces}
    | {AskItemsById, AskIdempotencyKey, AskRecord, AskRecordsById, AskJob}
)
"""Questions that are looked up by their key; others may go through many rows."""
QUICK_WRITES: Final = frozenset(
    {AddThread, Advance, SaveRecord, DropRecord, CheckRecord, AddJob, EndJob, MoveJob}
)
"""Writes of a few rows; others copy, purge or index as much as there is."""
QUICK_BYTES: Final = 1 << 16
"""Bytes of bodies that one commit may write on the loop."""
LOOP_SECONDS: Final = 0.001
"""Seconds for which questions may be asked, or commits be made one after the other, before others run."""
SLOW_SECONDS: Final = 0.001
"""Seconds after which a COMMIT counts as slow."""
SLOW_SECONDS_MORE: Final = 0.00003
"""Seconds that a COMMIT may take longer for each further commit in it."""
FEWEST_QUICK: Final = 16
MOST_QUICK: Final = 4096
"""Quick COMMITs in a row before one is made on the loop: twice as many after each that was slow there."""
READY: Final = "_ready"
"""The name under which asyncio's own loops keep what is ready to run; other loops do not show it."""


if sys.platform == "linux":
    import resource

EMPTY: "Final[deque[asyncio.Handle]]" = deque()


class ThreadNeeded(Exception):
    """Something turned out to be too long for the loop. It is undone, and done by the thread instead."""


def ready_handles(loop: asyncio.AbstractEventLoop) -> "deque[asyncio.Handle] | None":
    """The callbacks that are ready to run on a loop; None if it is one that does not show them."""
    handles = getattr(loop, READY, None)
    return handles if type(handles) is deque else None


def check_quick(writes: Sequence[StoreWrite]) -> None:
    """Check that writes may be made on the loop.

    Raises:
        ThreadNeeded: They are of a kind that may take long, or too large.
    """
    for write in writes:
        if type(write) not in QUICK_WRITES:
            raise ThreadNeeded
        if isinstance(write, Advance) and _size_of(write) > QUICK_BYTES:
            raise ThreadNeeded


def _size_of(advance: Advance) -> int:
    size = len(advance.change.content or b"") + len(advance.anchor or b"")
    for item in advance.items:
        size += len(item.body or b"")
    return size


class CommitPace:
    """The pace of the disk, as the last COMMITs show it: on the loop only quick ones are made.

    After a slow one so many have to be quick, in the thread, before the next is made on the loop; on a disk
    that is slow now and then these become more and more, so that few of the slow ones hold the loop.
    """

    def __init__(self) -> None:
        self.is_quick = False
        self._count = 0
        self._needed = FEWEST_QUICK

    def note(self, seconds: float, commits: int, *, on_loop: bool) -> None:
        """Note how long a COMMIT has taken for so many commits."""
        if seconds > SLOW_SECONDS + SLOW_SECONDS_MORE * (commits - 1):
            if on_loop:
                self._needed = min(self._needed * 2, MOST_QUICK)
            self.is_quick, self._count = False, 0
            return
        self._count += 1
        if self.is_quick and self._count >= MOST_QUICK:
            self._needed, self._count = FEWEST_QUICK, 0
        elif not self.is_quick and self._count >= self._needed:
            self.is_quick, self._count = True, 0


class DiskReads:
    """The blocks that the running thread had read from the disk, as the system counts them.

    The clock cannot tell a slow disk from a machine on which others run first.
    """

    def __init__(self) -> None:
        self._blocks = -1

    def have_risen(self) -> bool:
        """Return whether the thread has read from the disk since the last call; True where nobody counts."""
        if sys.platform != "linux":
            return True
        before, self._blocks = self._blocks, resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
        return self._blocks != before


class LoopShare:
    """The time for which the loop was held without a pass: others have their turn before it is too long."""

    def __init__(self) -> None:
        self._seconds = 0.0

    @property
    def is_used_up(self) -> bool:
        """True if others should run before more is done."""
        return self._seconds >= LOOP_SECONDS

    def use(self, seconds: float) -> None:
        """Note that the loop was held for so long."""
        self._seconds += seconds

    async def spend(self, seconds: float) -> None:
        """Note that the loop was held for so long; others have their turn if any is ready, or it was long."""
        self._seconds += seconds
        if self._seconds >= LOOP_SECONDS or ready_handles(asyncio.get_running_loop()) != EMPTY:
            await self.pass_on()

    async def pass_on(self) -> None:
        """Let others on this loop have their turn."""
        self._seconds = 0.0
        await asyncio.sleep(0)
