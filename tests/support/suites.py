"""Tests that need servers of other projects: each suite has a lock, an environment and a report of its own.

``make interop`` and ``make ha`` run them. A plain run of pytest leaves them out, whatever its ``-m`` says.
``python -m tests.support.suites NAME`` runs before a suite's environment is made, so this module needs the
standard library alone.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
NO_TESTS = 5
"""The exit code of pytest where no test was collected."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A kind of tests by its mark: what they need beside the lock, and the promises that wait for them."""

    name: str
    needs: str
    promises: tuple[str, ...]


SUITES = (
    Suite(name="interop", needs="Node and npm", promises=("B-17",)),
    Suite(name="ha", needs="etcd and Patroni", promises=("B-18",)),
)


def has_tests(suite: Suite, tests: Path = ROOT / "tests") -> bool:
    """True if a test file names the mark of the suite."""
    return any(has_mark(path, suite.name) for path in tests.rglob("test_*.py"))


def has_mark(path: Path, name: str) -> bool:
    """True if a test file names the mark of a suite."""
    return re.search(rf"\bmark\.{name}\b", path.read_text(encoding="utf-8")) is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that chooses a suite."""
    names = [suite.name for suite in SUITES]
    parser.addoption("--suite", choices=names, help="run the tests that have this mark, and no others")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that have no test of the chosen suite: to import them all takes half a minute."""
    name = config.getoption("--suite")
    is_test_file = collection_path.is_file() and collection_path.match("test_*.py")
    return True if name and is_test_file and not has_mark(collection_path, name) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the chosen suite, or those of no suite."""
    name = config.getoption("--suite")
    suites = [
        next((suite.name for suite in SUITES if item.get_closest_marker(suite.name)), None) for item in items
    ]
    others = [item for item, suite in zip(items, suites, strict=True) if suite != name]
    items[:] = [item for item, suite in zip(items, suites, strict=True) if suite == name]
    config.hook.pytest_deselected(items=others)


def main(name: str) -> int:
    """Return 0 if the suite has a test, else say which promises wait for one."""
    suite = next(suite for suite in SUITES if suite.name == name)
    if has_tests(suite):
        return 0
    lines = (ROOT / "docs" / "promises.txt").read_text(encoding="utf-8").splitlines()
    print(f"There is nothing to run: no test is marked {name!r} yet. Waiting for one:", file=sys.stderr)  # noqa: T201
    for line in lines:
        if line.split(" ")[0] in suite.promises:
            print(f"  {line}", file=sys.stderr)  # noqa: T201
    return NO_TESTS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
