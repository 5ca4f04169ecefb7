"""The SDK's own tests for sessions, run against the adapter; the docs page says which, and which cannot."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.agents_sdk.source import ROOT, lock_entry, source
from tests.support.nested import only_plugins

PAGE = ROOT / "docs" / "how-to" / "openai-agents.md"
PLUGINS = ROOT / "tests" / "support" / "agents_sdk"
RUN = re.compile(r"^\| `(tests/[^`]+)` \| (\d+) \|$", re.MULTILINE)
EXCLUSION = re.compile(r"^- `(tests/[^`]+\.py)`:((?:\s+`test_\w+`,?)+)", re.MULTILINE)
MEMORY, RUNNER = "memory", "runner"


def counts_by_file() -> dict[str, int]:
    """How many tests of each file run against the adapter, as the page says."""
    return {file: int(count) for file, count in RUN.findall(PAGE.read_text(encoding="utf-8"))}


def exclusions() -> list[str]:
    """The tests that the page says cannot apply."""
    return [
        f"{file}::{name}"
        for file, names in EXCLUSION.findall(PAGE.read_text(encoding="utf-8"))
        for name in re.findall(r"`(\w+)`", names)
    ]


def part_of(file: str) -> str:
    """Which of the two runs a file belongs to."""
    return MEMORY if "/memory/" in file else RUNNER


def test_the_page_names_files_and_tests_of_the_distribution() -> None:
    sources = {file: (source() / file).read_text(encoding="utf-8") for file in counts_by_file()}

    assert sum(counts_by_file().values()) > 800
    assert [
        name
        for name in exclusions()
        if f"def {name.partition('::')[2]}(" not in sources[name.partition("::")[0]]
    ] == []
    assert len(set(exclusions())) == len(exclusions())


def test_the_lock_holds_the_hash_of_the_distribution() -> None:
    version, hashes = lock_entry()

    assert source().name == version
    assert len(hashes) >= 2


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.promise("S-15", "B-10")
@pytest.mark.parametrize("part", [MEMORY, RUNNER])
def test_the_tests_of_the_sdk_pass_against_the_adapter(part: str, tmp_path: Path) -> None:
    files = [file for file in counts_by_file() if part_of(file) == part]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "construction", "-p", "no:cacheprovider", *files],
        cwd=source(),
        env={
            **os.environ,
            **only_plugins("asyncio", "anyio"),
            "PYTHONPATH": os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")]),
            "CLEW_SDK_RESULT": str(tmp_path / "result.json"),
            "CLEW_SDK_EXCLUDED": json.dumps(exclusions()),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    result: dict[str, tuple[str, int]] = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    counts = Counter(name.partition("::")[0] for name, (outcome, count) in result.items() if count)

    assert [name for name, (outcome, _) in result.items() if outcome == "failed"] == []
    assert process.returncode == 0, process.stdout[-4000:]
    assert dict(counts) == {file: counts_by_file()[file] for file in files}
