"""A disk that fails once, at every point of a workload that goes on when the disk is well again."""

from __future__ import annotations

import asyncio
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from clew.stores.sqlite import writer
from clew.stores.sqlite.writer import CommitWay
from clew.testing.disk import Fault, FaultyDisk, write_image
from tests.stores.sqlite.contents import Contents, missing
from tests.stores.sqlite.power_loss import FILE, lines, look
from tests.stores.workload import Fact, Workday

CHECKPOINT_PAGES: Final = 60
ROUNDS: Final = 1
CODES: Final = {"eio": "storage_error", "enospc": "storage_full"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which error, at which share of the points, and for how many points on end."""

    kind: Literal["eio", "enospc"]
    first: int = 1
    stride: int = 1
    lasts: int = 1
    commits: CommitWay = "thread"

    def __str__(self) -> str:
        return f"{self.kind} at {self.first} and every {self.stride} for {self.lasts}, {self.commits}"


@dataclass(kw_only=True)
class Findings:
    """How many points there are, how many faults somebody was told of, and what was wrong after which."""

    points: int = 0
    faults: int = 0
    reports: int = 0
    wrong: dict[int, list[str]] = field(default_factory=dict)


@dataclass(kw_only=True)
class Run:
    """One run of the workload: what was acknowledged, the codes of what failed, and all points."""

    facts: list[Fact] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    points: int = 0


def fail_everywhere(plan: Plan, directory: str) -> Findings:
    """Run the workload again and again, each time with the fault at another point."""
    warnings.simplefilter("ignore", DeprecationWarning)  # about forking beside threads
    well = Path(directory) / "well"
    points = _run(well, None, plan.commits).points
    shape = _shape(look(str(well / "live" / FILE)))
    findings = Findings(points=points)
    for point in range(plan.first, points + 1, plan.stride):
        place = Path(directory) / str(point)
        run = _run(place, Fault(plan.kind, at=point, until=point + plan.lasts - 1), plan.commits)
        findings.faults += 1
        findings.reports += bool(run.codes)
        # A power loss leaves no more than there is, so mostly it is enough to look at what it leaves.
        places = ["after", "live"] if findings.faults % 4 == 0 else ["after"]
        contents = {name: look(str(place / name / FILE)) for name in places}
        wrong = _wrong(run, CODES[plan.kind], contents, shape)
        if wrong:
            findings.wrong[point] = wrong
        shutil.rmtree(place)
    return findings


def _run(place: Path, fault: Fault | None, commits: CommitWay) -> Run:
    """The workload in a process of its own. It leaves the file, and what a power loss would leave of it."""
    for name in ("live", "after"):
        (place / name).mkdir(parents=True)
    run = Run()
    for line in lines(lambda tell, _: _work(place, fault, commits, tell)):
        match line:
            case ["end", points, codes]:
                run.points, run.codes = points, codes
            case fact:
                run.facts.append(fact)
    assert run.points, "the workload did not come to its end"
    return run


def _work(place: Path, fault: Fault | None, commits: CommitWay, tell: Callable[[list[Any]], None]) -> None:
    writer.CHECKPOINT_PAGES = CHECKPOINT_PAGES
    disk = FaultyDisk("failing")
    if fault is not None:
        disk.arm(fault)
    day = Workday(str(place / "live" / FILE), vfs=disk.name, commits=commits)
    asyncio.run(day.spend(tell, ROUNDS))
    write_image(disk.trace().image_at(disk.points + 1, "lose"), place / "after")
    tell(["end", disk.points, [failure.code for failure in day.failures]])


def _wrong(run: Run, code: str, by_name: dict[str, Contents], shape: dict[str, int]) -> list[str]:
    """What is wrong with the errors, with the file, and with what a power loss would leave of it."""
    wrong = [f"it failed as {other}" for other in run.codes if other != code]
    for name, contents in by_name.items():
        wrong += [f"{name}: {problem}" for problem in [*contents.problems, *missing(run.facts, contents)]]
        if _shape(contents) != shape:
            wrong.append(f"{name}: there are {_shape(contents)}, not {shape}")
    return wrong


def _shape(contents: Contents) -> dict[str, int]:
    return {name: len(hashes) for name, hashes in sorted(contents.threads.items())}
