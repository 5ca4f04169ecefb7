"""Chromium, a server with a Studio, and people who look at it. No test may leave an error in the console."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from tests.architecture.source import ROOT
from tests.server.studio.studio_server import Studio, furnish, running

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--process-per-site",
    "--renderer-process-limit=1",
    "--use-fake-device-for-media-stream",
]
FRESH = """
if (sessionStorage.getItem("is-here") === null) {
  localStorage.clear();
  localStorage.setItem("clew-who", WHO);
  sessionStorage.setItem("is-here", "yes");
}
"""
"""Run before each document of a page: the first finds nothing of the page before, and says who is here."""
SMALL = "/studio/mark.svg"
PATIENCE = 15_000
"""Milliseconds that a test waits for something to appear."""

FULL = {"status": 503, "code": "server_full", "detail": "There is no room.", "facts": {}}
"""What a server says that has as many streams as it may."""

expect.set_options(timeout=PATIENCE)
numbers = itertools.count()


def chromium() -> str:
    """Where Chromium is; it is installed if it is missing and that can be done."""
    path = shutil.which("chromium")
    if path is None:
        process = subprocess.run(
            [ROOT / "tools/install-browser"], capture_output=True, text=True, check=False
        )
        path = shutil.which("chromium")
        assert path is not None, process.stderr or "Chromium could not be installed."
    return path


class Windows:
    """The windows of one browser, one for each server: a window costs more than most tests do in it."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._open: dict[str, BrowserContext] = {}

    async def at(self, address: str) -> BrowserContext:
        """The window in which pages of a server are opened."""
        if address not in self._open:
            context = await self._browser.new_context(base_url=address, reduced_motion="reduce")
            context.set_default_timeout(PATIENCE)
            await context.grant_permissions(["microphone"])
            self._open[address] = context
            await (await context.new_page()).goto(SMALL)  # keeps the process that draws all pages of a server
        return self._open[address]


@asynccontextmanager
async def open_browser(*flags: str) -> AsyncIterator[Windows]:
    """A browser, until the block ends."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, *flags])
        yield Windows(browser)
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def windows() -> AsyncIterator[Windows]:
    """One browser for all tests of a process."""
    async with open_browser() as windows_open:
        yield windows_open


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def studio(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Studio]:
    """One server for all tests of a process; each test has a user of its own."""
    file: Path = tmp_path_factory.mktemp("studio") / "studio.db"
    async with running(file) as studio_at:
        yield studio_at


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def person(studio: Studio) -> str:
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
    """Opens pages of the Studio as one user, and keeps what the console says.

    A page begins without anything that the one before has left in the browser, so one visitor looks at one
    page at a time.
    """

    def __init__(self, windows: Windows, studio: Studio, user: str) -> None:
        self._windows = windows
        self.studio = studio
        self.user = user
        self._pages: list[Page] = []
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
        requests: list[str] | None = None,
        blocked_url: str | None = None,
        has_times: bool = False,
    ) -> Page:
        """A page as this user sees it, or as somebody who sees everybody's threads.

        Every request is noted in ``asked``; those for what is ``refused`` find no room in the server. The
        clock of a page that is ``timed`` can be put forward: nobody waits for what is done now and again.
        """
        page = await (await self._windows.at(self.studio.address)).new_page()
        self._pages.append(page)
        await page.set_viewport_size({"width": width, "height": height})
        await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        who = json.dumps({"user": self.user, "only": not everybody})
        await page.add_init_script(FRESH.replace("WHO", json.dumps(who)))
        if has_times:
            await page.clock.install()
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        if requests is not None:
            page.on("request", lambda request: requests.append(request.url))
        if blocked_url is not None:
            await page.route(blocked_url, lambda route: route.fulfill(status=503, json=FULL))
        await page.goto(path)
        await ready(page)
        return page

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in self.expected):
            self.errors.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    async def close(self) -> None:
        """Close whatever was opened."""
        for page in self._pages:
            await page.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(windows: Windows, studio: Studio, user: str) -> AsyncIterator[Visitor]:
    """Somebody who looks at the Studio; at the end the console must be silent."""
    visitor_of = Visitor(windows, studio, user)
    yield visitor_of
    studio.go_on.set()
    await visitor_of.close()
    assert visitor_of.errors == []
