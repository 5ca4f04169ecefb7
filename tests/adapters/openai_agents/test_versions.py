"""One program of a user runs on the lowest version of the SDK that is supported, and on the newest."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.support.wheels import ROOT, build_files, make_environment

PROGRAM = Path(__file__).with_name("session_program.py")
LOWEST = ROOT / "tests" / "support" / "agents_sdk" / "lowest.lock"
PAGE = ROOT / "docs" / "how-to" / "openai-agents.md"

pytestmark = [pytest.mark.slow, pytest.mark.promise("B-10", "S-09", "S-10")]


def lowest_version() -> str:
    """The version of the SDK in the lock of the lowest one."""
    [lowest] = re.findall(r"^openai-agents==(\S+)", LOWEST.read_text(encoding="utf-8"), re.MULTILINE)
    return str(lowest)


def assert_it_went_well(output: str, expected_version: str) -> None:
    result: dict[str, Any] = json.loads(output)

    assert result == {
        "version": expected_version,
        "is_session": True,
        "after_run": ["user", "function_call", "function_call_output", "message"],
        "after_callback": [
            *["user", "function_call", "function_call_output", "message"],
            *["user", "message"],
            *["user", "message"],
        ],
        "turns": [["Where is it?", 2], ["Sure?", 1], ["Sure?", 1]],
        "after_approval": ["user", "function_call", "function_call_output", "message"],
        "final": "It is sent.",
        "popped": ["message"],
        "imported": ["imported"],
    }


def test_the_newest_version_runs_it(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    assert_it_went_well(run.stdout, version("openai-agents"))


@pytest.mark.timeout(300)
def test_the_lowest_version_runs_it(tmp_path: Path) -> None:
    wheel = build_files("clew", tmp_path / "dist").wheel
    environment = make_environment(tmp_path / "venv", [wheel], extras=["openai-agents"], lock=LOWEST)
    check = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment.folder)]
    problems = subprocess.run([*check, "check"], capture_output=True, text=True, check=False)
    run = environment.run("python", str(PROGRAM), cwd=tmp_path)

    assert problems.returncode == 0, problems.stdout
    assert run.returncode == 0, run.stderr
    assert_it_went_well(run.stdout, lowest_version())


def test_the_lowest_version_is_the_one_that_is_asked_for_and_documented() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [requirement] = project["optional-dependencies"]["openai-agents"]
    words = " ".join(PAGE.read_text(encoding="utf-8").split())

    assert requirement == f"openai-agents>={lowest_version().removesuffix('.0')}"
    assert f"versions {lowest_version()} to {version('openai-agents')} of the SDK" in words
