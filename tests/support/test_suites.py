"""Tests that need servers of other projects run where they are asked for, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.nested import only_plugins
from tests.support.promises import read_promises
from tests.support.suites import NO_TESTS, SUITES, Suite, has_tests, main

# The marks are put in later: this file itself belongs to no suite.
SAMPLE_TESTS = """
import pytest

def test_plain():
    pass

@pytest.mark.{interop}
def test_with_node():
    pass

@pytest.mark.{ha}
def test_with_a_cluster():
    pass
""".format(interop="interop", ha="ha")
INI = "[pytest]\nmarkers =\n    interop: a suite\n    ha: a suite\n"

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def importable(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs started by these tests import the plugin, and load none that they do not need."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    for name, value in only_plugins().items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("arguments", "test"),
    [
        ([], "test_plain"),
        (["-m", "interop or not interop"], "test_plain"),
        (["--suite=interop"], "test_with_node"),
        (["--suite=ha"], "test_with_a_cluster"),
    ],
    ids=["a plain run", "a plain run with marks", "interop", "ha"],
)
def test_a_run_has_the_tests_of_one_suite(pytester: pytest.Pytester, arguments: list[str], test: str) -> None:
    pytester.makeconftest('pytest_plugins = ["tests.support.suites"]')
    pytester.makepyfile(SAMPLE_TESTS)
    pytester.makeini(INI)

    result = pytester.runpytest_subprocess("-v", *arguments)

    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.fnmatch_lines([f"*::{test} PASSED*"])


def test_a_run_of_a_suite_does_not_import_other_files(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["tests.support.suites"]')
    pytester.makepyfile(test_suite=SAMPLE_TESTS, test_other="raise AssertionError")
    pytester.makeini(INI)

    result = pytester.runpytest_subprocess("--suite=ha")

    result.assert_outcomes(passed=1, deselected=2)


def test_every_promise_that_waits_for_a_suite_exists() -> None:
    ids = {promise.id for group in read_promises() for promise in group.promises}

    assert {promise for suite in SUITES for promise in suite.promises} <= ids


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: str(suite.name))
def test_a_suite_without_tests_names_the_promises_that_wait(
    suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    if has_tests(suite):
        pytest.skip("it has tests now")

    status = main(suite.name)
    message = capsys.readouterr().err

    assert status == NO_TESTS
    assert all(f"  {promise} " in message for promise in suite.promises)


def test_a_suite_has_tests_once_a_file_names_its_mark(tmp_path: Path) -> None:
    interop, ha = SUITES
    (tmp_path / "test_it.py").write_text(SAMPLE_TESTS.replace("ha\n", "slow\n"), encoding="utf-8")

    assert has_tests(interop, tmp_path)
    assert not has_tests(ha, tmp_path)
