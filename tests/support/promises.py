"""Which promises the run has shown to be kept: collected from marks, reported by outcome.

A test names what it shows with ``@pytest.mark.promise("T-05")``. The store it ran on is the parameter, or
the class attribute ``store_name``, that says ``memory``, ``sqlite`` or ``postgres``. The report is written
only where ``--promise-report`` says, so a partial run changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROMISES = Path(__file__).parents[2] / "docs" / "promises.txt"
STORES = ("memory", "sqlite", "postgres")
NO_STORE = "-"

Outcome = Literal["passed", "failed", "skipped"]


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """One promise as written down: its id, its title and its whole text."""

    id: str
    title: str
    text: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Promises about one subject."""

    title: str
    promises: list[Promise]


class PromiseResult(msgspec.Struct, kw_only=True):
    """What the tests of one promise on one store came to."""

    outcome: Outcome
    passed: int
    failed: int
    skipped: int
    tests: list[str]


class Report(msgspec.Struct, kw_only=True):
    """What one run has shown, by promise and store; `lost` names tests whose process died."""

    promises: dict[str, dict[str, PromiseResult]]
    lost: list[str]


def read_promises(path: Path = PROMISES) -> list[Group]:
    """The promises in their groups, in the order of the file."""
    groups: list[Group] = []
    head = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            groups.append(Group(title=line.partition("] ")[2], promises=[]))
        elif line.startswith("    "):
            id_, _, title = head.partition(" ")
            groups[-1].promises.append(Promise(id=id_, title=title, text=line.strip()))
        elif not line.startswith("#"):
            head = line
    return groups


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """What a test came to after its set-up, call and tear-down."""
    kinds = set(outcomes)
    if "failed" in kinds:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def tally(results: dict[str, Outcome]) -> PromiseResult:
    """What several tests came to together: one failure breaks a promise, one pass shows it."""
    counts = Counter(results.values())
    passed, failed, skipped = counts["passed"], counts["failed"], counts["skipped"]
    outcome = _outcome(passed=passed, failed=failed)
    return PromiseResult(
        outcome=outcome, passed=passed, failed=failed, skipped=skipped, tests=sorted(results)
    )


def merge(reports: Sequence[Report]) -> Report:
    """What several runs have shown together: one failure in any of them breaks a promise."""
    by_promise: dict[str, dict[str, list[PromiseResult]]] = {}
    for report in reports:
        for promise, by_store in report.promises.items():
            for store, result in by_store.items():
                by_promise.setdefault(promise, {}).setdefault(store, []).append(result)
    promises = {
        promise: {store: _sum(parts) for store, parts in by_store.items()}
        for promise, by_store in by_promise.items()
    }
    return Report(promises=promises, lost=sorted({test for report in reports for test in report.lost}))


def _sum(parts: list[PromiseResult]) -> PromiseResult:
    passed, failed, skipped = (
        sum(getattr(part, kind) for part in parts) for kind in ("passed", "failed", "skipped")
    )
    tests = sorted({test for part in parts for test in part.tests})
    return PromiseResult(
        outcome=_outcome(passed=passed, failed=failed),
        passed=passed,
        failed=failed,
        skipped=skipped,
        tests=tests,
    )


def _outcome(*, passed: int, failed: int) -> Outcome:
    return "failed" if failed else "passed" if passed else "skipped"


class PromiseReporter:
    """Gathers the outcome of every marked test, in the process that began the run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, list[Outcome]] = {}
        self._shows: dict[str, set[tuple[str, str]]] = {}
        self._lost: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of one phase of one test."""
        if report.when not in ("setup", "call", "teardown"):
            # xdist reports a test whose process died without its marks.
            self._lost.add(report.nodeid)
            return
        shows = {(value[0], value[1]) for name, value in _properties(report) if name == "promise"}
        if shows:
            self._shows[report.nodeid] = shows
            self._outcomes.setdefault(report.nodeid, []).append(report.outcome)

    def pytest_sessionfinish(self) -> None:
        """Write the report."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        data = msgspec.json.encode(self._report(), order="sorted")
        self._path.write_bytes(msgspec.json.format(data, indent=1) + b"\n")

    def _report(self) -> Report:
        results: dict[str, dict[str, dict[str, Outcome]]] = {}
        for test, shows in self._shows.items():
            for promise, store in shows:
                results.setdefault(promise, {}).setdefault(store, {})[test] = worst(self._outcomes[test])
        promises = {
            promise: {store: tally(tests) for store, tests in by_store.items()}
            for promise, by_store in results.items()
        }
        return Report(promises=promises, lost=sorted(self._lost))


def _properties(report: pytest.TestReport) -> list[tuple[str, list[str]]]:
    return [(name, json.loads(str(value))) for name, value in report.user_properties if name == "promise"]


def store_of(item: pytest.Item) -> str:
    """The store that a test runs on, or ``-`` if it needs none."""
    callspec = getattr(item, "callspec", None)
    values = list(callspec.params.values()) if callspec is not None else []
    values.append(getattr(getattr(item, "cls", None), "store_name", None))
    return next((value for value in values if isinstance(value, str) and value in STORES), NO_STORE)


def promise_ids(item: pytest.Item) -> list[str]:
    """The ids of all promises that a test is marked with."""
    return [id_ for mark in item.iter_markers("promise") for id_ in mark.args]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--promise-report", metavar="PATH", help="write which promises the run has shown to be kept to PATH"
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--promise-report")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(PromiseReporter(config.rootpath / path), "promise-reporter")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ids = {promise.id for group in read_promises() for promise in group.promises}
    for item in items:
        for id_ in promise_ids(item):
            if id_ not in ids:
                raise pytest.UsageError(
                    f"{item.nodeid} names the promise {id_}, which {PROMISES.name} lacks."
                )
            item.user_properties.append(("promise", json.dumps([id_, store_of(item)])))
