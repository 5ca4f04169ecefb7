"""Whether a measured ratio keeps its bound."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bench.clock import Timing

Sign = Literal["≤", "≥"]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One row of the speed table."""

    what: str
    sign: Sign
    target: float
    unit: str = "×"

    def __str__(self) -> str:
        return f"{self.sign} {self.target:g} {self.unit}".rstrip()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A bound and what was measured: by the median, and by the mean where that says more."""

    bound: Bound
    value: float
    by_mean: float | None = None

    @property
    def is_kept(self) -> bool:
        """Kept by the median and, if given, by the mean too."""
        keeps = operator.le if self.bound.sign == "≤" else operator.ge
        return all(keeps(value, self.bound.target) for value in self.values)

    @property
    def values(self) -> list[float]:
        """The median and, if given, the mean."""
        return [self.value] if self.by_mean is None else [self.value, self.by_mean]


@dataclass(frozen=True, kw_only=True)
class Section:
    """What one claim measured."""

    title: str
    timings: list[Timing]
    verdicts: list[Verdict]
    notes: tuple[str, ...] = ()
    caption: str = ""
    """The words over its bars in the picture of the page; without them it is not drawn."""


def of_latency(bound: Bound, timings: Iterable[Timing], name: str, against: str) -> list[Verdict]:
    """The verdict on one contestant's time against another's; none if either did not run."""
    by_name = {timing.name: timing for timing in timings}
    if name not in by_name or against not in by_name:
        return []
    ours, theirs = by_name[name], by_name[against]
    return [Verdict(bound=bound, value=ours.p50 / theirs.p50, by_mean=ours.mean / theirs.mean)]


def of_throughput(bound: Bound, timings: Iterable[Timing], name: str, against: str) -> list[Verdict]:
    """The verdict on one contestant's acts per second against another's; none if either did not run."""
    rates = {timing.name: timing.per_second for timing in timings}
    if name not in rates or against not in rates:
        return []
    return [Verdict(bound=bound, value=rates[name] / rates[against])]
