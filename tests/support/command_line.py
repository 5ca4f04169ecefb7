"""The command in this process: its exit code and what it writes, on one database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.cli.app import run


class CommandLine:
    """Runs commands on one database."""

    def __init__(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = file
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Run a command; return its exit code, its output and its errors."""
        code = run([*words, "--db", str(self.file)])
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *words: str) -> Any:
        """Run a command that succeeds; return its answer in JSON."""
        code, out, err = self(*words, "--json")
        assert code == 0, err
        return json.loads(out)
