"""What people and models write: tables, both directions of writing, and lines too long for a phone."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

import clew
from tests.server.studio.conftest import Visitor
from tests.server.studio.test_thread import thread_with_messages

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]
TABLE = """The trams:

| Line | Stops | Fare |
|:-----|:-----:|-----:|
| **28** | `Graça` \\| Estrela | 3 € |
| 12 | <img src=x onerror="document.title='stolen'"> |

Board early."""
WIDE = "| " + " | ".join(f"column{number}" for number in range(30)) + " |\n|" + "---|" * 30
ARABIC = "ما هو الترام الذي يصعد إلى القلعة؟"


async def told(visitor: Visitor, *items: clew.Item, width: int = 1280) -> Page:
    """A thread with these items, and its page."""
    thread = await visitor.studio.db.create(f"talk-{visitor.user}", owner=visitor.user)
    await thread.append(items=items)
    return await visitor.open(f"/studio/threads/talk-{visitor.user}", width=width)


async def direction(element: Locator) -> str:
    """The direction in which an element is written."""
    return str(await element.evaluate("element => getComputedStyle(element).direction"))


async def test_a_table_of_a_model_is_a_table_and_nothing_of_it_is_run(visitor: Visitor) -> None:
    page = await told(visitor, clew.assistant(TABLE))
    message = page.locator(".message.assistant .said")

    await expect(message.locator("th")).to_have_text(["Line", "Stops", "Fare"])
    await expect(message.locator("tbody tr").first.locator("td")).to_have_text(
        ["28", "Graça | Estrela", "3 €"]
    )
    await expect(message.locator("td strong")).to_have_text("28")
    await expect(message.locator("td.right").first).to_have_text("3 €")
    await expect(message.locator("tbody tr").nth(1).locator("td")).to_have_count(3)
    await expect(message.locator("img")).to_have_count(0)
    await expect(message).to_contain_text("Board early.")
    assert "stolen" not in await page.title()


async def test_a_bar_alone_makes_no_table(visitor: Visitor) -> None:
    page = await told(visitor, clew.assistant("a | b\n- c | d\n\nx | y\n---"))

    await expect(page.locator(".message.assistant .said")).to_contain_text("a | b")
    await expect(page.locator("table")).to_have_count(0)


async def test_a_table_wider_than_a_phone_scrolls_in_its_own_place(visitor: Visitor) -> None:
    page = await told(visitor, clew.assistant(WIDE), width=320)
    box = await page.get_by_role("region", name="Table").bounding_box()

    assert await page.evaluate("document.documentElement.scrollWidth") <= 320
    assert box is not None
    assert box["width"] < 320


async def test_what_people_write_from_right_to_left_is_shown_so(visitor: Visitor) -> None:
    page = await told(visitor, clew.user(ARABIC), clew.assistant(f"- {ARABIC}\n- tram 28"))
    await page.get_by_role("textbox", name="Message").fill(ARABIC)
    parts = [
        page.get_by_role("heading", level=1),
        page.locator(".message.user .said"),
        page.locator(".message.assistant li").first,
        page.get_by_role("textbox", name="Message"),
    ]

    assert [await direction(part) for part in parts] == ["rtl"] * 4
    assert await direction(page.locator(".message.assistant li").nth(1)) == "ltr"


async def test_a_title_from_right_to_left_is_shown_so_in_the_list(visitor: Visitor) -> None:
    page, thread = await thread_with_messages(visitor, ARABIC)
    await page.get_by_role("link", name="Threads", exact=True).click()

    assert await direction(page.locator(f".threads a[href$={thread}]")) == "rtl"
    assert await direction(page.get_by_role("heading", name="Threads")) == "ltr"
