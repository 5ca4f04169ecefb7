"""Every page, in both themes and on a phone, for those who cannot see it or use no mouse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page

from tests.server.studio.conftest import Visitor, Windows
from tests.server.studio.studio_server import Studio

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]

CHECKS = (Path(__file__).parent / "accessibility.js").read_text(encoding="utf-8")
PAGES = {
    "threads": "/studio/threads",
    "a thread": "/studio/threads/trip-{user}",
    "an approval": "/studio/threads/invoice-{user}",
    "the inbox": "/studio/approvals",
    "usage": "/studio/usage",
    "memory": "/studio/memory",
    "sessions": "/studio/sessions",
    "search": "/studio/search?q=castle",
    "system": "/studio/system",
    "experiments": "/studio/experiments",
    "the workbench": "/studio/workbench/trip-{user}",
    "a past version": "/studio/threads/trip-{user}?at=3",
}
OUTLINE = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const drawn = [null, "::after"].map((part) => getComputedStyle(element, part));
  const isSeen = drawn.some((style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
  return { name: element.getAttribute("aria-label") ?? element.textContent.trim().slice(0, 40), isSeen };
}"""


async def wrong(page: Page) -> list[str]:
    """What is wrong with a page, each with the theme."""
    problems: list[str] = []
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        problems += [f"{theme}: {problem}" for problem in await page.evaluate(CHECKS)]
    return problems


@pytest_asyncio.fixture(loop_scope="session", scope="module", params=PAGES.values(), ids=PAGES.keys())
async def open_page(
    request: pytest.FixtureRequest, windows: Windows, studio: Studio, person: str
) -> AsyncIterator[Page]:
    """One of the pages, with something on it."""
    looking = Visitor(windows, studio, person)
    yield await looking.open(request.param.format(user=person))
    await looking.close()
    assert looking.errors == []


async def test_a_page_is_accessible(open_page: Page) -> None:
    await open_page.set_viewport_size({"width": 1280, "height": 800})

    assert await wrong(open_page) == []


async def test_a_page_fits_on_a_phone(open_page: Page) -> None:
    await open_page.set_viewport_size({"width": 320, "height": 640})

    assert await open_page.evaluate("document.documentElement.scrollWidth") <= 320
    assert await wrong(open_page) == []


async def test_the_keyboard_reaches_everything_and_shows_where_it_is(open_page: Page) -> None:
    await open_page.set_viewport_size({"width": 1280, "height": 800})
    stops = []
    for _ in range(40):
        await open_page.keyboard.press("Tab")
        stop = await open_page.evaluate(OUTLINE)
        if stop is None:
            break
        stops.append(stop)

    assert [each["name"] for each in stops if not each["isSeen"]] == []
    assert {"Skip to the content", "Threads", "Memory", "Sessions", "Search", "System"} <= {
        each["name"] for each in stops
    }


async def test_a_dialog_is_accessible_and_closes_with_the_keyboard(visitor: Visitor) -> None:
    page = await visitor.open("/studio/threads")
    await page.get_by_role("button", name="New chat").click()
    problems = await wrong(page)
    await page.keyboard.press("Escape")

    assert problems == []
    assert await page.get_by_role("dialog").count() == 0


async def test_the_switch_goes_from_light_to_dark_and_is_kept(visitor: Visitor) -> None:
    page = await visitor.open("/studio/threads")
    before = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await page.get_by_role("button", name="Theme: system").click()
    await page.get_by_role("button", name="Theme: light").click()
    await page.reload()
    await page.get_by_role("button", name="Theme: dark").wait_for()

    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != before


async def test_the_checks_find_what_is_wrong(visitor: Visitor) -> None:
    page = await visitor.open("/studio/threads")
    await page.evaluate(
        """() => {
          const bad = document.createElement("p");
          bad.style.color = "#ccc";
          bad.textContent = "pale";
          const deep = document.createElement("h5");
          deep.textContent = "deep";
          document.querySelector("main").append(bad, document.createElement("button"), deep);
        }"""
    )
    problems = " ".join(await page.evaluate(CHECKS))

    assert all(each in problems for each in ("contrast", "has no name", "heading level"))
