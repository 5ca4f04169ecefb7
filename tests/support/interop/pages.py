"""Pages for a browser: a folder served on loopback, and Chromium to open them in."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, async_playwright

from tests.server.studio.conftest import FLAGS, PATIENCE, chromium


class _QuietRequests(http.server.SimpleHTTPRequestHandler):
    """Serves files, and writes no log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve the files of a folder; the address that they are at."""
    requests = functools.partial(_QuietRequests, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), requests) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def open_window() -> AsyncIterator[BrowserContext]:
    """A window of Chromium, whose pages are tabs of one person."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        window = await browser.new_context()
        window.set_default_timeout(PATIENCE)
        yield window
        await browser.close()
