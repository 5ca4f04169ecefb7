"""What the package for tests is made of: faults, a clock, and names found when they are needed."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import clew.testing
from clew.core.errors import OutcomeUnknown, StoreUnavailable
from clew.core.items import user
from clew.database.database import Database
from clew.stores.memory import MemoryStore
from clew.testing import Clock, FailingStore

WITHOUT = """
import sys
sys.modules["{package}"] = None
import clew.testing
try:
    clew.testing.{name}
except clew.ClewError as error:
    print(error.code, error)
"""


async def test_a_failing_store_fails_before_the_call() -> None:
    store = MemoryStore()
    thread = await Database(store).create("t")
    failing = Database(FailingStore(store, fail_at=2)).thread("t")
    await failing.append(items=[user("one")])

    with pytest.raises(StoreUnavailable):
        await failing.append(items=[user("two")])
    assert (await thread.head()).version == 1


async def test_a_failing_store_fails_after_the_call() -> None:
    store = MemoryStore()
    thread = await Database(store).create("t")

    with pytest.raises(OutcomeUnknown):
        await Database(FailingStore(store, fail_at=1, how="after")).thread("t").append(items=[user("one")])
    assert (await thread.head()).version == 1


async def test_a_failing_store_is_cancelled_during_the_call() -> None:
    store = MemoryStore()
    await Database(store).create("t")

    with pytest.raises(asyncio.CancelledError):
        await Database(FailingStore(store, fail_at=1, how="cancel")).thread("t").append(items=[user("one")])


async def test_a_failing_store_fails_once_and_counts() -> None:
    failing = FailingStore(MemoryStore(), fail_at=1)
    db = Database(failing)
    with pytest.raises(StoreUnavailable):
        await db.create("t")
    await db.create("t")
    await db.jobs.claim(["k"])

    assert (failing.calls, (await db.report()).store) == (3, "memory")


def test_a_clock_stands_still_until_it_is_advanced() -> None:
    clock = Clock(5)
    times = [clock(), clock()]
    clock.advance(10)

    assert (times, clock()) == ([5, 5], 15)


def test_every_exported_name_is_there() -> None:
    names = {name for name in clew.testing.__all__ if getattr(clew.testing, name)}

    assert names == set(clew.testing.__all__)


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = clew.testing.nothing


@pytest.mark.parametrize(
    ("package", "name"),
    [("pytest", "StoreContract"), ("pytest_asyncio", "StoreContract"), ("hypothesis", "store_machine")],
)
def test_a_missing_package_is_named(package: str, name: str) -> None:
    script = WITHOUT.format(package=package, name=name)
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout

    assert output.startswith("missing_extra")
    assert package.replace("_", "-") in output
    assert ".[testing]" in output
