"""The report of promises tells the truth about the run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.nested import only_plugins
from tests.support.promises import (
    Group,
    Outcome,
    Promise,
    PromiseResult,
    Report,
    merge,
    read_promises,
    tally,
    worst,
)
from tests.support.promises_page import page, read_reports
from tests.support.suites import SUITES

CONFTEST = 'pytest_plugins = ["tests.support.promises"]'
SAMPLE_TESTS = """
import pytest

@pytest.fixture(params=["memory", "sqlite"])
def store(request):
    return request.param

@pytest.mark.promise("T-01", "T-02")
def test_on_each_store(store):
    assert store == "memory"

class TestPostgres:
    store_name = "postgres"

    @pytest.mark.promise("T-01")
    @pytest.mark.promise("T-03")
    def test_on_one_store(self):
        pass

@pytest.mark.promise("T-04")
def test_on_none():
    pytest.skip("not today")
"""
UNKNOWN = "Z-1"
"""A promise that nobody made."""

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def importable(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs started by these tests import the plugin, and load none that they do not need."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    for name, value in only_plugins("xdist").items():
        monkeypatch.setenv(name, value)


def outcomes(report: Report) -> dict[tuple[str, str], str]:
    """What each promise came to on each store."""
    return {
        (id_, store): result.outcome for id_, by in report.promises.items() for store, result in by.items()
    }


def run(pytester: pytest.Pytester, *arguments: str) -> Report:
    """Run the marked tests in a process of their own and read their report."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(SAMPLE_TESTS)
    pytester.makeini("[pytest]\nmarkers = promise(*ids): a promise\n")
    pytester.runpytest_subprocess("--promise-report=build/promises.json", *arguments)
    return msgspec.json.decode((pytester.path / "build" / "promises.json").read_bytes(), type=Report)


@pytest.mark.parametrize("arguments", [[], ["-n", "2"]], ids=["one process", "two processes"])
def test_outcomes_are_reported_by_promise_and_store(pytester: pytest.Pytester, arguments: list[str]) -> None:
    report = run(pytester, *arguments)

    assert outcomes(report) == {
        ("T-01", "memory"): "passed",
        ("T-01", "sqlite"): "failed",
        ("T-01", "postgres"): "passed",
        ("T-02", "memory"): "passed",
        ("T-02", "sqlite"): "failed",
        ("T-03", "postgres"): "passed",
        ("T-04", "-"): "skipped",
    }


def test_a_test_whose_process_dies_is_reported_as_lost(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_dies="import os\ndef test_dies():\n    os._exit(9)\n")

    report = run(pytester, "-n", "1")

    assert report.lost == ["test_dies.py::test_dies"]


def test_an_unknown_promise_stops_the_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(f"import pytest\n@pytest.mark.promise({UNKNOWN!r})\ndef test_it(): pass\n")

    result = pytester.runpytest_subprocess()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*names the promise {UNKNOWN}*"])


def test_without_the_option_nothing_is_written(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("def test_it(): pass\n")
    result = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=1)
    assert not (pytester.path / "build").exists()


def test_one_bad_phase_decides_a_test() -> None:
    assert worst(["passed", "passed", "failed"]) == "failed"
    assert worst(["skipped", "passed"]) == "skipped"
    assert worst(["passed", "passed", "passed"]) == "passed"


def test_one_failure_breaks_a_promise_and_a_skip_shows_nothing() -> None:
    assert tally({"a": "passed", "b": "failed"}).outcome == "failed"
    assert tally({"a": "passed", "b": "skipped"}).outcome == "passed"
    assert tally({"a": "skipped"}).outcome == "skipped"


def test_every_promise_has_an_id_of_its_own() -> None:
    ids = [promise.id for group in read_promises() for promise in group.promises]

    assert len(ids) == len(set(ids)) == 103


def test_the_page_has_a_row_for_every_promise() -> None:
    groups = [
        Group(
            title="threads",
            promises=[Promise(id=id_, title="Title", text="Text.") for id_ in ("T-01", "T-02")],
        )
    ]
    good = PromiseResult(outcome="passed", passed=1, failed=0, skipped=0, tests=["test"])
    bad = PromiseResult(outcome="failed", passed=0, failed=1, skipped=0, tests=["test"])

    text = page(
        groups, Report(promises={"T-01": {"memory": good, "sqlite": bad}, "T-02": {"-": good}}, lost=[])
    )

    assert "| T-01 | Title | ✓ | ✗ | – | – |" in text
    assert "| T-02 | Title | – | – | – | ✓ |" in text
    assert "1 of 2 promises have a passing test and no failing one." in text


def result_of(outcome: Outcome) -> PromiseResult:
    """What one test came to."""
    return tally({f"test_{outcome}": outcome})


def write_report(path: Path, promises: dict[str, dict[str, PromiseResult]]) -> None:
    """Write a report as a run does."""
    path.write_bytes(msgspec.json.encode(Report(promises=promises, lost=[])))


def test_a_failure_in_any_run_breaks_a_promise() -> None:
    plain = Report(
        promises={"T-01": {"sqlite": result_of("passed")}, "T-02": {"-": result_of("passed")}}, lost=["a"]
    )
    suite = Report(promises={"T-01": {"sqlite": result_of("failed"), "-": result_of("passed")}}, lost=["b"])

    report = merge([plain, suite])

    assert outcomes(report) == {
        ("T-01", "sqlite"): "failed",
        ("T-01", "-"): "passed",
        ("T-02", "-"): "passed",
    }
    assert report.promises["T-01"]["sqlite"].tests == ["test_failed", "test_passed"]
    assert report.lost == ["a", "b"]


def test_the_page_merges_the_reports_that_exist_and_names_what_was_not_run(tmp_path: Path) -> None:
    write_report(tmp_path / "promises.json", {"T-01": {"sqlite": result_of("passed")}})
    write_report(tmp_path / "promises-interop.json", {"B-17": {"-": result_of("passed")}})

    report, not_run = read_reports(tmp_path)
    text = page(read_promises(), report, not_run)

    assert set(report.promises) == {"T-01", "B-17"}
    assert "make interop`, which" not in text
    assert "Not run: `make ha`, which needs etcd and Patroni and is to show B-18." in text


def test_a_suite_that_ran_no_test_was_not_run(tmp_path: Path) -> None:
    write_report(tmp_path / "promises.json", {})
    write_report(tmp_path / "promises-ha.json", {})

    _, not_run = read_reports(tmp_path)

    assert not_run == list(SUITES)
