"""The history of a load and the verdict on it: nothing lost, nothing doubled, versions in order of time."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An append or a reading of a head that was answered; an append began with its first attempt."""

    thread: str
    version: int
    began: float
    ended: float
    key: str | None = None
    writer: int = 0

    @property
    def is_append(self) -> bool:
        """True for an append: only those have a key."""
        return self.key is not None


@dataclass(frozen=True, kw_only=True)
class StoredAppend:
    """An append as it is in the database afterwards."""

    thread: str
    key: str
    version: int


@dataclass(frozen=True, kw_only=True)
class HistoryVerdict:
    """Everything that is wrong with a history; nothing, if it is sound."""

    acknowledged: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    backward: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """True if nothing was lost or doubled and the versions are linearisable."""
        return not (self.lost or self.doubled or self.backward)


def check_history(operations: Sequence[Operation], stored: Iterable[StoredAppend]) -> HistoryVerdict:
    """Compare what was acknowledged with what is stored, and the versions with the order of time."""
    rows = list(stored)
    versions = {(row.thread, row.key): row.version for row in rows}
    counts = Counter((row.thread, row.key) for row in rows)
    appends = [operation for operation in operations if operation.key is not None]
    lost = [one for one in appends if versions.get((one.thread, one.key or "")) != one.version]
    return HistoryVerdict(
        acknowledged=len(appends),
        lost=tuple(f"{one.thread} {one.key} at {one.version}" for one in lost),
        doubled=tuple(f"{thread} {key} × {count}" for (thread, key), count in counts.items() if count > 1),
        backward=tuple(_backward_versions(operations)),
    )


def _backward_versions(operations: Sequence[Operation]) -> list[str]:
    """The operations whose version contradicts one that had ended before they began.

    A thread's version only grows, so this is all that linearisability asks for: an append that begins after
    an answer gets a higher version than that answer, and a reading no lower one.
    """
    threads: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        threads[operation.thread].append(operation)
    return [text for some in threads.values() for text in _backward_in_thread(some)]


def _backward_in_thread(operations: list[Operation]) -> list[str]:
    texts: list[str] = []
    under_way: list[tuple[float, int]] = []
    highest = 0
    for operation in sorted(operations, key=lambda one: one.began):
        while under_way and under_way[0][0] < operation.began:
            highest = max(highest, heapq.heappop(under_way)[1])
        if operation.version < highest + operation.is_append:
            kind = "append" if operation.is_append else "reading"
            texts.append(f"{operation.thread}: {kind} got {operation.version} after {highest}")
        heapq.heappush(under_way, (operation.ended, operation.version))
    return texts


def longest_gap(operations: Iterable[Operation], began: float, ended: float) -> float:
    """The longest time between two acknowledgements in a span, its ends included."""
    times = sorted(one.ended for one in operations if one.is_append and began <= one.ended <= ended)
    moments = [began, *times, ended]
    return max(later - earlier for earlier, later in itertools.pairwise(moments))


def longest_wait(operations: Iterable[Operation]) -> float:
    """The longest that one append took, attempts and all."""
    return max((one.ended - one.began for one in operations if one.is_append), default=0.0)
