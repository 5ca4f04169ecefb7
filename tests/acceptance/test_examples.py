"""Every example runs with no arguments, in an empty directory, and says something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.test_docs import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LEAVES_BEHIND = {"quickstart.py": {"agent.db"}}
"""Only the README's example keeps its file: that is what it shows."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.name))
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.strip()
    assert {path.name for path in tmp_path.iterdir()} == LEAVES_BEHIND.get(example.name, set())
