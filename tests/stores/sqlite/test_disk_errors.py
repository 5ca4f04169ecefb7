"""A disk that fails or is full, at every write and sync: an error with a code, and on it goes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.stores.sqlite.disk_errors import Findings, Plan, fail_everywhere
from tests.support.child_process import run_in_child

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(400)]

# On either way all points are met by one of the two errors.
EVERYWHERE = (
    Plan(kind="eio", first=1, stride=2),
    Plan(kind="enospc", first=2, stride=2),
    Plan(kind="eio", first=2, stride=2, commits="loop"),
    Plan(kind="enospc", first=1, stride=2, commits="loop"),
)
FOR_A_WHILE = (
    Plan(kind="eio", stride=13, lasts=3),
    Plan(kind="enospc", stride=13, lasts=3),
    Plan(kind="eio", stride=13, lasts=3, commits="loop"),
    Plan(kind="enospc", stride=13, lasts=3, commits="loop"),
)


def show(capfd: pytest.CaptureFixture[str], plan: Plan, findings: Findings) -> None:
    """Print what was done, for whoever watches the run."""
    with capfd.disabled():
        sys.stderr.write(
            f"\ndisk errors, {plan}: "
            f"{findings.points} points; failed at {findings.faults}, callers told at {findings.reports}, "
            f"{len(findings.wrong)} wrong\n"
        )


class TestDiskErrors:
    store_name = "sqlite"

    @pytest.mark.promise("S-02", "S-04")
    @pytest.mark.parametrize("plan", EVERYWHERE, ids=str)
    def test_a_failed_write_has_a_code_and_loses_nothing(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], plan: Plan
    ) -> None:
        findings = run_in_child(fail_everywhere, plan, str(tmp_path))
        show(capfd, plan, findings)

        assert findings.wrong == {}
        assert findings.reports > findings.faults / 2

    @pytest.mark.promise("S-02")
    @pytest.mark.parametrize("plan", FOR_A_WHILE, ids=str)
    def test_a_disk_that_fails_for_a_while_is_used_again(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], plan: Plan
    ) -> None:
        findings = run_in_child(fail_everywhere, plan, str(tmp_path))
        show(capfd, plan, findings)

        assert findings.wrong == {}
