"""The library asks for nothing that only Unix has, so that it can run elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.acceptance.test_readme import EXAMPLE

# What the standard library itself needs here is imported first. ``darwin`` has none of the locks of Linux.
WITHOUT_UNIX = """
import asyncio, multiprocessing, runpy, subprocess, sys
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "uvloop"):
    sys.modules[name] = None
sys.platform = "darwin"
runpy.run_path("example.py", run_name="__main__")
"""


def test_the_example_runs_without_what_only_unix_has(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(EXAMPLE.code, encoding="utf-8")
    command = [sys.executable, "-c", WITHOUT_UNIX]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run.stdout == EXAMPLE.output, run.stderr
