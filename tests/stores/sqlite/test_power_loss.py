"""Power lost at every write and sync of 200 commits: nothing acknowledged is lost, nothing is in part."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from clew.stores.sqlite import writer
from clew.stores.sqlite.writer import CommitWay
from clew.testing.disk import POWER_LOST, Fault, FaultyDisk
from tests.stores.sqlite.contents import missing, read_contents
from tests.stores.sqlite.power_loss import CHECKPOINT_PAGES, FILE, Findings, Plan, stop_everywhere
from tests.stores.workload import FULL_ROUNDS, Fact, Workday
from tests.support.child_process import run_in_child

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(400)]

SHARES = 4
WAYS: tuple[CommitWay, ...] = ("loop", "thread")


def show(capfd: pytest.CaptureFixture[str], plan: Plan, findings: Findings) -> None:
    """Print what was done, for whoever watches the run."""
    share = "" if plan.stride == 1 else f" (share {plan.first} of {plan.stride})"
    with capfd.disabled():
        sys.stderr.write(
            f"\npower loss, {plan.mode}{share}: {findings.points} points in {findings.commits} commits and "
            f"{findings.checkpoints} checkpoints; stopped at {findings.stops}, opened {findings.images} "
            f"different images, {len(findings.wrong)} wrong\n"
        )


class TestPowerLoss:
    store_name = "sqlite"

    @pytest.mark.promise("T-02", "S-02", "S-04", "T-13")
    @pytest.mark.parametrize("commits", WAYS)
    def test_nothing_acknowledged_is_lost_with_the_unsynced_writes(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], commits: CommitWay
    ) -> None:
        plan = Plan(mode="lose", commits=commits)
        findings = run_in_child(stop_everywhere, plan, str(tmp_path))
        show(capfd, plan, findings)

        assert findings.wrong == {}
        assert findings.commits >= 200
        assert findings.checkpoints >= 2
        assert findings.stops == findings.points + 1

    @pytest.mark.promise("T-02", "S-02", "S-04", "T-13")
    @pytest.mark.parametrize("share", range(1, SHARES + 1))
    def test_nothing_acknowledged_is_lost_with_torn_writes(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], share: int
    ) -> None:
        # Half of the points, and each way at half of these, for time.
        plan = Plan(
            mode="torn", first=2 * share, stride=2 * SHARES, seed=share, commits=WAYS[share % len(WAYS)]
        )
        findings = run_in_child(stop_everywhere, plan, str(tmp_path))
        show(capfd, plan, findings)

        assert findings.wrong == {}
        assert findings.stops * 2 * SHARES >= findings.points - 2 * SHARES

    def test_without_syncs_acknowledged_commits_are_lost(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        plan = Plan(mode="lose", stride=29, synchronous="OFF")
        findings = run_in_child(stop_everywhere, plan, str(tmp_path))
        show(capfd, plan, findings)

        assert any("was lost" in wrong for wrongs in findings.wrong.values() for wrong in wrongs)
        assert len(findings.wrong) > findings.stops / 2

    @pytest.mark.parametrize("commits", WAYS)
    def test_a_process_that_really_stops_leaves_the_same(self, tmp_path: Path, commits: CommitWay) -> None:
        """The points above are met by copies of one process; here each process is stopped for good."""
        for point in range(20, 2400, 130):
            directory = tmp_path / str(point)
            directory.mkdir()
            facts = run_in_child(run_until_power_loss, point, str(directory), commits)

            contents = run_in_child(read_contents, str(directory / FILE))
            assert [*contents.problems, *missing(facts, contents)] == []

    def test_two_runs_ask_the_same_of_the_disk(self, tmp_path: Path) -> None:
        """In the thread: on the loop, the moment decides which commits the thread still has to make."""
        first, second = (run_in_child(disk_steps, str(tmp_path / name)) for name in ("one", "two"))

        assert first == second


def disk_steps(path: str) -> list[str]:
    """What the workload asks of a disk, without the bytes."""
    disk = FaultyDisk("asked")
    asyncio.run(Workday(path, vfs=disk.name).spend(lambda _: None, FULL_ROUNDS))
    return [str(step) for step in disk.steps]


def run_until_power_loss(point: int, directory: str, commits: CommitWay) -> list[Fact]:
    """What was acknowledged by a process that lost power at a point."""
    out, into = os.pipe()

    def tell(fact: Fact) -> None:
        os.write(into, json.dumps(fact).encode() + b"\n")

    if os.fork() == 0:
        try:
            writer.CHECKPOINT_PAGES = CHECKPOINT_PAGES
            disk = FaultyDisk("stopped")
            disk.arm(Fault("stop", at=point))
            day = Workday(str(Path(directory) / FILE), vfs=disk.name, commits=commits)
            asyncio.run(day.spend(tell, FULL_ROUNDS))
        finally:
            os._exit(1)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        facts: list[Fact] = [json.loads(line) for line in pipe]
    assert os.waitstatus_to_exitcode(os.wait()[1]) == POWER_LOST
    return facts
