"""Fixtures of the interop tests: import those that a test uses into its module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext

from tests.support.interop.pages import open_window, serve_folder
from tests.support.interop.server_process import ServerProcess


@dataclass(frozen=True, kw_only=True)
class Site:
    """A folder whose files are pages at an address."""

    folder: Path
    address: str


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """An empty site on loopback; the server of the test lets its pages ask."""
    folder = tmp_path / "site"
    folder.mkdir()
    with serve_folder(folder) as address:
        yield Site(folder=folder, address=address)


@pytest.fixture
async def server(tmp_path: Path, site: Site) -> AsyncIterator[ServerProcess]:
    """A server that runs, with a database of its own."""
    process = ServerProcess(tmp_path, cors=site.address)
    await process.start()
    yield process
    process.kill()


@pytest.fixture
async def window() -> AsyncIterator[BrowserContext]:
    """A window of Chromium."""
    async with open_window() as context:
        yield context
