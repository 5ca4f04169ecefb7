"""Chromium, a server with a Studio, and people who look at it. No test may leave an error in the console."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from tests.architecture.source import ROOT
from tests.browser.world import Studio, furnish, running

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE = 15_000
"""Milliseconds that a test waits for something to appear."""

expect.set_options(timeout=PATIENCE)
numbers = itertools.count()


def chromium() -> str:
    """Where Chromium is; it is installed if it is missing and that can be done."""
    found = shutil.which("chromium")
    if found is None:
        done = subprocess.run([ROOT / "tools/install-browser"], capture_output=True, text=True, check=False)
        found = shutil.which("chromium")
        assert found is not None, done.stderr or "Chromium could not be installed."
    return found


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests of a process."""
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def studio(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Studio]:
    """One server for all tests of a process; each test has a user of its own."""
    file: Path = tmp_path_factory.mktemp("studio") / "studio.db"
    async with running(file) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def furnished(studio: Studio) -> str:
    """A user who has something of everything, for tests that only look."""
    await furnish(studio, "grace")
    return "grace"


@pytest.fixture
def user() -> str:
    """A user that no other test has."""
    return f"ada{next(numbers)}"


async def ready(page: Page) -> None:
    """Wait until a page has shown what it is about."""
    await page.wait_for_selector("main[aria-busy=false]")


class Visitor:
    """Opens pages of the Studio as one user, and keeps what the console says."""

    def __init__(self, browser: Browser, studio: Studio, user: str) -> None:
        self._browser = browser
        self.studio = studio
        self.user = user
        self._opened: list[BrowserContext] = []
        self.errors: list[str] = []
        self.expected: list[str] = []

    async def open(
        self,
        path: str,
        *,
        width: int = 1280,
        height: int = 800,
        theme: str = "light",
        everybody: bool = False,
    ) -> Page:
        """A page in a browser of its own, as this user; or as somebody who sees everybody's threads."""
        context = await self._browser.new_context(
            base_url=self.studio.address,
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
        )
        self._opened.append(context)
        context.set_default_timeout(PATIENCE)
        who = json.dumps(json.dumps({"user": self.user, "only": not everybody}))
        await context.add_init_script(
            f"localStorage.getItem('holdfast-who') ?? localStorage.setItem('holdfast-who', {who})"
        )
        page = await context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        await page.goto(path)
        await ready(page)
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in self.expected):
            self.errors.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    async def close(self) -> None:
        """Close whatever was opened."""
        for context in self._opened:
            await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(browser: Browser, studio: Studio, user: str) -> AsyncIterator[Visitor]:
    """Somebody who looks at the Studio; at the end the console must be silent."""
    made = Visitor(browser, studio, user)
    yield made
    studio.go_on.set()
    await made.close()
    assert made.errors == []
