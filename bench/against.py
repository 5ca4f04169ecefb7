"""Another checkout of Clew beside this one: the same claims, in processes that take turns."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.report import tell
from bench.verdict import Section


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One contestant in both checkouts: acts a second, and microseconds at the median, round by round."""

    name: str
    here: list[tuple[float, float]]
    there: list[tuple[float, float]]

    def __str__(self) -> str:
        rates, times = (self._median(index) for index in (0, 1))
        return (
            f"  {self.name}: {rates[0]:,.0f}/s here, {rates[1]:,.0f}/s there, {rates[0] / rates[1]:.2f} × "
            f"({self._spread()}); {times[0]:,.0f} µs here, {times[1]:,.0f} µs there, "
            f"{times[0] / times[1]:.2f} ×"
        )

    def _median(self, index: int) -> tuple[float, float]:
        here = statistics.median(figures[index] for figures in self.here)
        return here, statistics.median(figures[index] for figures in self.there)

    def _spread(self) -> str:
        ratios = [here[0] / there[0] for here, there in zip(self.here, self.there, strict=True)]
        return f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds"


def compare(names: Sequence[str], tree: Path, *, rounds: int, quick: bool) -> None:
    """Measure claims here and in another checkout, round by round, and print both."""
    for name in names:
        tell(f"{name}, here and in {tree.name} …")
        for comparison in _comparisons(name, tree, rounds=rounds, quick=quick):
            tell(str(comparison))


def _comparisons(name: str, tree: Path, *, rounds: int, quick: bool) -> Iterator[Comparison]:
    here: dict[str, list[tuple[float, float]]] = {}
    there: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        # Who is first changes from round to round: what disturbs the second disturbs both in turn.
        pair = [(Path.cwd(), here), (tree, there)]
        for source, figures in pair if number % 2 == 0 else pair[::-1]:
            for section in _measure(name, source, quick=quick):
                for timing in section.timings:
                    figures.setdefault(timing.name, []).append((timing.per_second, timing.p50))
    for contestant, figures_here in here.items():
        if contestant in there:
            yield Comparison(name=contestant, here=figures_here, there=there[contestant])


def _measure(name: str, source: Path, *, quick: bool) -> list[Section]:
    """Measure a claim by this bench, with the sources of a checkout."""
    paths = os.pathsep.join(str(source / folder) for folder in ("src", "companion/src"))
    command = [sys.executable, "-m", "bench", "--only", name, "--json", *(["--quick"] if quick else [])]
    child = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, check=True, stdout=subprocess.PIPE
    )
    return msgspec.json.decode(child.stdout, type=list[Section])
