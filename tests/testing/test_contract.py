"""The contract in other hands: a store of somebody else's, in a project with nothing but defaults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.nested import only_plugins

OPENING = """
from contextlib import asynccontextmanager
import pytest
from clew.stores.memory import MemoryStore
from clew.testing import StoreContract


class TestOurs(StoreContract):
    store_name = "ours"
    durable = shared = False

    @pytest.fixture
    def opening(self):
        @asynccontextmanager
        async def opened(clock):
            yield MemoryStore(clock=clock)

        return opened
"""
STORE = """
import pytest_asyncio
from clew.stores.memory import MemoryStore
from clew.testing import StoreContract


class TestOurs(StoreContract):
    @pytest_asyncio.fixture
    async def store(self, clock):
        yield MemoryStore(clock=clock)
"""
NOTHING = """
from clew.testing import StoreContract


class TestOurs(StoreContract):
    pass
"""


def run_pytest(directory: Path, text: str, *options: str) -> str:
    """What pytest says about a module in a directory of its own."""
    (directory / "test_ours.py").write_text(text, encoding="utf-8")
    (directory / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", *options]
    settings = {**os.environ, **only_plugins("asyncio", "clew.testing.plugin")}
    return subprocess.run(
        command, cwd=directory, env=settings, capture_output=True, text=True, check=False
    ).stdout


@pytest.mark.promise("T-14")
@pytest.mark.parametrize("text", [OPENING, STORE], ids=["opening", "store"])
def test_one_fixture_gives_the_contract(tmp_path: Path, text: str) -> None:
    output = run_pytest(tmp_path, text, "-k", "window or pop or stale")

    assert " passed" in output, output
    assert "failed" not in output, output
    assert "error" not in output, output


def test_without_a_fixture_the_contract_says_what_it_needs(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, NOTHING, "-k", "stale_writer")

    assert "needs a fixture" in output
