"""Power lost at every point of a workload, each time in a child process; looked at in another."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.stores.sqlite import writer
from clew.stores.sqlite.writer import CommitWay
from clew.testing.disk import (
    POWER_LOST,
    DiskOperation,
    DiskStep,
    FaultyDisk,
    PowerLossMode,
    _after_power_loss,
    write_image,
)
from tests.stores.sqlite.contents import Contents, missing, read_contents
from tests.stores.workload import FULL_ROUNDS, Fact, Workday

CHECKPOINT_PAGES: Final = 150
FILE: Final = "agent.db"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where to stop: at each point of a share of all points, keeping as much as the mode says."""

    mode: PowerLossMode
    first: int = 1
    stride: int = 1
    synchronous: str = "FULL"
    commits: CommitWay = "thread"
    rounds: int = FULL_ROUNDS
    seed: int = 0

    def includes(self, point: int) -> bool:
        """Whether to stop there."""
        return point >= self.first and (point - self.first) % self.stride == 0


@dataclass(kw_only=True)
class Findings:
    """How many points there are, at how many it was stopped, and what was wrong after which."""

    points: int = 0
    stops: int = 0
    images: int = 0
    commits: int = 0
    checkpoints: int = 0
    wrong: dict[int, list[str]] = field(default_factory=dict)


class StoppingDisk(FaultyDisk):
    """A disk at whose points a copy of the process loses power and leaves what survives in a directory."""

    def __init__(self, name: str, plan: Plan, directory: Path, tell: Callable[[list[Any]], None]) -> None:
        super().__init__(name)
        self._plan = plan
        self._directory = directory
        self._report_stop = tell

    def begin_step(
        self,
        operation: DiskOperation,
        inode: int,
        path: str,
        offset: int = 0,
        data: bytes = b"",
        *,
        directory: bool = False,
    ) -> DiskStep:
        """The step, once a copy of this process has been stopped in the middle of it."""
        self.stop_a_copy(DiskStep(self.points + 1, operation, inode, path, offset, data, directory))
        return super().begin_step(operation, inode, path, offset, data, directory=directory)

    def stop_a_copy(self, step: DiskStep) -> None:
        """Have a copy of this process lose power here, if it is a point to stop at."""
        if not self._plan.includes(step.point):
            return
        child = os.fork()
        if child == 0:
            code = 1
            try:
                survivors = _after_power_loss(self._contents, step, self._plan.mode, self._plan.seed)
                place = self._directory / str(step.point)
                place.mkdir()
                write_image(survivors, place)
                code = POWER_LOST
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self._report_stop(["stopped", step.point, code])


def stop_everywhere(plan: Plan, directory: str) -> Findings:
    """Run the workload once, stop copies of it at its points, and look at what each leaves."""
    warnings.simplefilter("ignore", DeprecationWarning)  # about forking beside threads, which is on purpose
    findings, facts = Findings(), list[Fact]()
    cache: dict[bytes, Contents] = {}
    for fact in lines(lambda tell, wait: _work(plan, Path(directory), tell, wait)):
        match fact:
            case ["stopped", point, code]:
                assert code == POWER_LOST, f"the copy stopped at point {point} ended with {code}"
                findings.stops += 1
                if wrong := _wrong(Path(directory) / str(point), facts, cache):
                    findings.wrong[point] = wrong
            case ["end", points, commits, checkpoints]:
                findings.points, findings.commits, findings.checkpoints = points, commits, checkpoints
            case _:
                facts.append(fact)
    assert findings.points, "the workload did not come to its end"
    findings.images = len(cache)
    return findings


def _work(plan: Plan, directory: Path, tell: Callable[[list[Any]], None], wait: Callable[[], None]) -> None:
    """The workload, in its own process; it waits at each point until the point was looked at."""

    def report(fact: list[Any]) -> None:
        tell(fact)
        wait()

    writer.CHECKPOINT_PAGES = CHECKPOINT_PAGES
    disk = StoppingDisk("stopping", plan, directory, report)
    place = directory / "live"
    place.mkdir()
    day = Workday(str(place / FILE), vfs=disk.name, synchronous=plan.synchronous, commits=plan.commits)
    asyncio.run(day.spend(tell, plan.rounds))
    disk.stop_a_copy(DiskStep(disk.points + 1, "sync", 0, ""))
    tell(["end", disk.points, day.commits, checkpoints(disk)])


def checkpoints(disk: FaultyDisk) -> int:
    """How often pages were moved from the WAL to the file, as its syncs say."""
    wal_start = next((step.point for step in disk.steps if step.suffix == "-wal"), disk.points)
    return sum(step.operation == "sync" and not step.suffix and step.point > wal_start for step in disk.steps)


def _wrong(place: Path, facts: list[Fact], cache: dict[bytes, Contents]) -> list[str]:
    """What is wrong with what was left; the very same bytes are opened only once."""
    digest = hashlib.sha256()
    for file in sorted(place.iterdir()):
        digest.update(f"{file.name} {file.stat().st_size} ".encode() + file.read_bytes())
    contents = cache.get(digest.digest())
    if contents is None:
        contents = cache[digest.digest()] = look(str(place / FILE))
    shutil.rmtree(place)
    return [*contents.problems, *missing(facts, contents)]


def look(path: str) -> Contents:
    """What a new process finds in a file."""
    data = b"".join(line for line in _raw_lines(lambda out: _tell_contents(path, out)))
    return msgspec.json.decode(data, type=Contents)


def _tell_contents(path: str, out: int) -> None:
    try:
        contents = read_contents(path)
    except Exception:  # noqa: BLE001 - it is part of what was found
        contents = Contents(problems=[traceback.format_exc()])
    _write(out, msgspec.json.encode(contents))


def lines(work: Callable[[Callable[[list[Any]], None], Callable[[], None]], None]) -> Iterator[list[Any]]:
    """What a child process tells, line by line; it may wait until a line was dealt with."""
    go_out, go_in = os.pipe()

    def child(out: int) -> None:
        def tell(fact: list[Any]) -> None:
            _write(out, msgspec.json.encode(fact) + b"\n")

        work(tell, lambda: _expect(os.read(go_out, 1)))

    for line in _raw_lines(child):
        fact: list[Any] = msgspec.json.decode(line)
        yield fact
        if fact[0] == "stopped":
            os.write(go_in, b"!")
    os.close(go_out)
    os.close(go_in)


def _raw_lines(work: Callable[[int], None]) -> Iterator[bytes]:
    """What a forked child writes, line by line; it must end well."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(out)
            work(into)
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            raise
        finally:
            os._exit(code)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        yield from pipe
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"a child process ended with {code}"


def _expect(byte: bytes) -> None:
    assert byte == b"!"


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
