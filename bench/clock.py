"""Interleaved timing: the contestants take turns in short blocks, so what disturbs one disturbs all."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
Act = Callable[[], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """Something to time.

    ``ready(number)`` makes the numbered input, untimed, and returns the act that is timed.
    """

    name: str
    detail: str
    ready: Callable[[int], Act]
    share: float = 1.0
    """Part of a block it runs; the slowest run less, or the run would be all theirs."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What one contestant took, in microseconds per act."""

    name: str
    detail: str
    p50: float
    p99: float
    mean: float
    count: int
    per_second: float


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How much to time: ``rounds`` blocks of ``block`` acts for each, after ``warmup`` acts."""

    rounds: int
    block: int
    warmup: int = 50

    @property
    def acts(self) -> int:
        """Timed acts of each contestant."""
        return self.rounds * self.block


@dataclass
class _Lane:
    """One contestant's samples and the number its next act gets."""

    contestant: Contestant
    samples: list[float] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    next_number: int = 0

    def take(self, count: int) -> list[Act]:
        """The next ``count`` acts, made ready."""
        first = self.next_number
        self.next_number += count
        return [self.contestant.ready(number) for number in range(first, first + count)]

    def timing(self) -> Timing:
        """The samples in four numbers."""
        series = sorted(self.samples)
        last = len(series) - 1
        return Timing(
            name=self.contestant.name,
            detail=self.contestant.detail,
            p50=statistics.median(series),
            p99=series[min(last, round(last * 0.99))],
            mean=statistics.fmean(series),
            count=len(series),
            per_second=1e6 / statistics.median(self.walls),
        )


async def one_by_one(contestants: Sequence[Contestant], pace: Pace) -> list[Timing]:
    """Time each act alone, block after block, round robin; the order turns by one each round."""
    lanes = [_Lane(contestant) for contestant in contestants]
    for lane in lanes:
        await _run(lane.take(round(pace.warmup * lane.contestant.share)))
    for number in range(pace.rounds):
        for lane in _rotate(lanes, number):
            count = max(1, round(pace.block * lane.contestant.share))
            _record(lane, [await _run(lane.take(count))])
    return [lane.timing() for lane in lanes]


async def all_at_once(contestants: Sequence[tuple[Contestant, int]], pace: Pace) -> list[Timing]:
    """Time blocks run by so many tasks together; ``per_second`` is then the throughput."""
    lanes = [(_Lane(contestant), tasks) for contestant, tasks in contestants]
    for lane, tasks in lanes:
        await _together(lane.take(max(pace.warmup, tasks)), tasks)
    for number in range(pace.rounds):
        for lane, tasks in _rotate(lanes, number):
            acts = lane.take(pace.block)
            start = time.perf_counter()
            latencies = await _together(acts, tasks)
            _record(lane, latencies, wall=time.perf_counter() - start)
    return [lane.timing() for lane, _ in lanes]


async def turn_by_turn(pair: tuple[Contestant, Contestant], pace: Pace) -> tuple[Timing, Timing]:
    """Time two contestants act by act, for differences too small for blocks."""
    first, second = (_Lane(contestant) for contestant in pair)
    for lane in (first, second):
        await _run(lane.take(pace.warmup))
    for number in range(pace.acts):
        for lane in _rotate([first, second], number):
            _record(lane, [await _run(lane.take(1))])
    return first.timing(), second.timing()


def _rotate(lanes: Sequence[T], by: int) -> list[T]:
    by %= len(lanes)
    return [*lanes[by:], *lanes[:by]]


def _record(lane: _Lane, latencies: Sequence[list[float]], wall: float | None = None) -> None:
    flat = [sample for samples in latencies for sample in samples]
    lane.samples.extend(flat)
    lane.walls.append((sum(flat) if wall is None else wall * 1e6) / len(flat))


async def _together(acts: list[Act], tasks: int) -> list[list[float]]:
    return await asyncio.gather(*(_run(acts[task::tasks]) for task in range(tasks)))


async def _run(acts: Sequence[Act]) -> list[float]:
    samples: list[float] = []
    for act in acts:
        start = time.perf_counter()
        await act()
        samples.append((time.perf_counter() - start) * 1e6)
    return samples
