"""A test that leaves a thread behind fails, and only that one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.left_behind import PATIENCE_SECONDS, lingering_threads
from tests.support.nested import only_plugins

CARELESS = """
import threading

def test_careless():
    threading.Thread(target=threading.Event().wait, name="clew-writer", daemon=True).start()

def test_after_it():
    pass
"""
IMPATIENT = """
from tests.support import left_behind
from tests.support.left_behind import leaves_no_thread

left_behind.PATIENCE_SECONDS = 0
"""

pytest_plugins = ["pytester"]


def test_a_thread_that_does_not_end_is_named() -> None:
    before, end = set(threading.enumerate()), threading.Event()
    thread = threading.Thread(target=end.wait, name="clew-forgotten")
    thread.start()
    names = lingering_threads(before, patience=0)
    end.set()
    thread.join()

    assert names == ["clew-forgotten"]


def test_a_thread_that_is_about_to_end_is_waited_for() -> None:
    before = set(threading.enumerate())
    names = check_ending_thread(before)

    assert names == []


def check_ending_thread(before: set[threading.Thread]) -> list[str]:
    """What is said of a thread that ends only once somebody waits for it."""
    joining = threading.Event()

    class Ending(threading.Thread):
        def run(self) -> None:
            joining.wait()

        def join(self, timeout: float | None = None) -> None:
            joining.set()
            super().join(timeout)

    Ending(name="clew-ending").start()
    return lingering_threads(before, patience=PATIENCE_SECONDS)


def test_the_test_that_left_a_thread_fails_and_the_next_does_not(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    for name, value in only_plugins().items():
        monkeypatch.setenv(name, value)
    pytester.makeconftest(IMPATIENT)
    pytester.makepyfile(CARELESS)

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*left threads behind: clew-writer*"])
