"""The README's example is short, is the file it says it is, and does what is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.acceptance.test_docs import ROOT, blocks_of

LONGEST = 15
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = blocks_of(README)[0]


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.code.splitlines()) <= LONGEST


def test_the_example_is_the_quickstart() -> None:
    opening, _, code = (ROOT / "examples/quickstart.py").read_text(encoding="utf-8").partition("\n\n")

    assert opening.startswith('"""')
    assert code == EXAMPLE.code


def test_the_example_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(EXAMPLE.code, encoding="utf-8")
    command = [sys.executable, "example.py"]

    runs = [
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]

    assert runs[0] == EXAMPLE.output
    assert runs[1].startswith("now: 2 {'turns': 2}")


def test_the_readme_names_only_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split()[1] for line in README.splitlines() if line.startswith("make ")}

    assert targets == {"demo", "serve", "test"}
    assert all(f"\n{target}:" in makefile for target in targets)
