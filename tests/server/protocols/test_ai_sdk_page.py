"""The example page in Chromium: a real ``useChat`` that neither loses nor doubles a message."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.async_api import BrowserContext, ConsoleMessage, Page, expect

from tests.support.interop.agent import WORDS
from tests.support.interop.fixtures import Site, server, site, window
from tests.support.interop.node import bundle
from tests.support.interop.server_process import ServerProcess
from tests.support.suites import ROOT

__all__ = ["server", "site", "window"]
pytestmark = [pytest.mark.interop, pytest.mark.promise("B-17"), pytest.mark.browser]

EXAMPLE = ROOT / "examples" / "ai_sdk"
HALF, WHOLE = "".join(WORDS[:6]).strip(), "".join(WORDS).strip()
PATIENCE = 30_000
OpenTab: TypeAlias = Callable[[], Awaitable[Page]]


@pytest.fixture(scope="module")
def page_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of the page, bundled once."""
    path = tmp_path_factory.mktemp("ai-sdk") / "chat.js"
    bundle(EXAMPLE / "chat.jsx", path)
    return path


@pytest.fixture
def open_tab(
    page_script: Path, server: ServerProcess, site: Site, window: BrowserContext
) -> Iterator[OpenTab]:
    """Opens the chat in another tab; no page may have an error of its own."""
    shutil.copy(EXAMPLE / "index.html", site.folder)
    shutil.copy(page_script, site.folder)
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and "ERR_" not in message.text:  # a server that is gone is no error of it
            errors.append(message.text)

    async def open_page() -> Page:
        page = await window.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", note)
        await page.goto(f"{site.address}/?api={server.api}&thread=t")
        await page.wait_for_selector("main")
        return page

    yield open_page
    assert errors == []


async def say(page: Page, text: str) -> None:
    """Send a message."""
    await page.get_by_label("Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def expect_texts(page: Page, *texts: str) -> None:
    """Wait until these are the messages, and no others."""
    await expect(page.locator("li")).to_have_text(list(texts), timeout=PATIENCE)


async def test_an_answer_survives_the_death_of_the_server(open_tab: OpenTab, server: ServerProcess) -> None:
    page = await open_tab()
    await say(page, "hold it")
    await expect_texts(page, "hold it", HALF)
    server.kill()
    await expect(page.get_by_role("status")).to_be_visible(timeout=PATIENCE)
    await server.start()
    server.release("it")

    await expect_texts(page, "hold it", WHOLE)
    await page.reload()
    await expect_texts(page, "hold it", WHOLE)


async def test_a_message_that_the_server_never_got_is_sent_again(
    open_tab: OpenTab, server: ServerProcess
) -> None:
    page = await open_tab()
    server.kill()
    await say(page, "hello")
    await expect(page.get_by_role("status")).to_be_visible(timeout=PATIENCE)
    await server.start()

    await expect_texts(page, "hello", "You said: hello")


async def test_a_reload_in_mid_answer_goes_on_with_it(open_tab: OpenTab, server: ServerProcess) -> None:
    page = await open_tab()
    await say(page, "hold it")
    await expect_texts(page, "hold it", HALF)
    await page.reload()
    await expect_texts(page, "hold it", HALF)
    server.release("it")

    await expect_texts(page, "hold it", WHOLE)


async def test_a_second_tab_has_the_same_messages(open_tab: OpenTab, server: ServerProcess) -> None:
    first = await open_tab()
    await say(first, "hold it")
    await expect_texts(first, "hold it", HALF)
    second = await open_tab()
    await expect_texts(second, "hold it", HALF)
    server.release("it")

    for page in (first, second):
        await expect_texts(page, "hold it", WHOLE)


async def test_two_tabs_survive_the_death_of_the_server(open_tab: OpenTab, server: ServerProcess) -> None:
    first = await open_tab()
    await say(first, "hold it")
    await expect_texts(first, "hold it", HALF)
    second = await open_tab()
    await expect_texts(second, "hold it", HALF)
    await server.restart()
    for page in (first, second):
        await expect_texts(page, "hold it", HALF)
    server.release("it")

    for page in (first, second):
        await expect_texts(page, "hold it", WHOLE)


async def test_an_answer_can_be_stopped_on_the_server(open_tab: OpenTab) -> None:
    page = await open_tab()
    await say(page, "hold it")
    await expect_texts(page, "hold it", HALF)
    await page.get_by_role("button", name="Stop").click()
    await expect_texts(page, "hold it", "The answer was stopped.")
    await page.reload()

    await expect_texts(page, "hold it", "The answer was stopped.")


async def test_a_failure_is_shown_also_after_a_reload(open_tab: OpenTab) -> None:
    page = await open_tab()
    await say(page, "fail")
    await expect(page.get_by_role("alert")).to_contain_text("it was told to", timeout=PATIENCE)
    await page.reload()

    await expect_texts(page, "fail", "The answer failed.")


@pytest.mark.parametrize(
    ("button", "texts"),
    [
        ("Approve", ['→ "Ann has been paid"', "The tool says: Ann has been paid"]),
        ("Decline", ["was declined", "The tool says: {'declined': 'A person declined this call.'}"]),
    ],
)
async def test_a_person_decides_on_the_page(open_tab: OpenTab, button: str, texts: list[str]) -> None:
    page = await open_tab()
    await say(page, "pay Ann")
    await page.get_by_role("button", name=button).click()

    for text in texts:
        await expect(page.locator("li.assistant")).to_contain_text(text, timeout=PATIENCE)
    await expect(page.locator("li")).to_have_count(2)
