"""The shipped contract notices a store that is wrong: each mutant of the SQLite store fails it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.nested import only_plugins
from tests.testing.contracts.mutants import MUTANTS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
MODULE = '''"""One part of the contract, against a store with a fault."""

import pytest

from clew.testing.contracts.{module} import {contract}
from tests.testing.contracts.mutants import MUTANTS
from tests.stores.sqlite.test_contract import TestSqliteStore as Sqlite


class TestMutant({contract}):
    store_name = "mutant"
    commits = Sqlite.commits
    opening = Sqlite.opening
    damage = Sqlite.damage

    @pytest.fixture(autouse=True)
    def fault(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if {name!r} in MUTANTS:
            MUTANTS[{name!r}].plant(monkeypatch)


del Sqlite, {contract}
'''
HARMLESS = "no fault"


def verdict(tmp_path: Path, name: str, contract: str) -> tuple[int, str]:
    """What a part of the contract says about a mutant: pytest's exit code, and its last words."""
    module, _, kind = contract.partition(".")
    path = tmp_path / "test_mutant.py"
    path.write_text(MODULE.format(module=module, contract=kind, name=name), encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "--timeout=60", "--tb=line", "--rootdir", str(ROOT)]
    stop = [] if name == HARMLESS else ["--exitfirst"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *options, *stop, str(path)],
        cwd=ROOT,
        env={**os.environ, **only_plugins("asyncio", "timeout")},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout[-2000:]


@pytest.mark.promise("T-14")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_killed_by_the_contract(tmp_path: Path, name: str) -> None:
    code, output = verdict(tmp_path, name, MUTANTS[name].contract)

    assert (code, re.findall(r"\b\d+ (?:failed|error)", output)) == (1, ["1 failed"]), output


@pytest.mark.promise("T-14")
@pytest.mark.parametrize("contract", sorted({mutant.contract for mutant in MUTANTS.values()}))
def test_a_store_without_a_fault_passes(tmp_path: Path, contract: str) -> None:
    code, output = verdict(tmp_path, HARMLESS, contract)

    assert (code, "failed" in output) == (0, False), output
