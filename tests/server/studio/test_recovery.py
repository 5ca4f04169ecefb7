"""A server that goes and comes back: every page says so and goes on by itself, and no word is lost."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.server.studio.conftest import Visitor
from tests.server.studio.studio_server import remember
from tests.server.studio.test_companion import begin
from tests.server.studio.test_thread import say, thread_with_messages

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]
API = "**/api/v1/**"
PAGES = ["approvals", "memory", "sessions", "search?q=harbour", "experiments", "usage", "system", "threads"]


def offline(page: Page) -> Locator:
    """The sign that there is no connection."""
    return page.locator("#connection")


def box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


@asynccontextmanager
async def without_server(visitor: Visitor, page: Page) -> AsyncIterator[None]:
    """A page whose requests find no server, until the block ends."""
    visitor.expected.append("net::ERR")
    await page.route(API, lambda route: route.abort())
    yield
    await page.unroute(API)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_that_could_not_be_shown_is_shown_when_the_server_is_back(
    visitor: Visitor, path: str
) -> None:
    page = await visitor.open("/studio/none", has_times=True)
    name = re.split(r"\W", path)[0]
    async with without_server(visitor, page):
        await page.evaluate("path => { history.pushState(null, '', path); }", f"/studio/{path}")
        await page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
        await expect(offline(page)).to_contain_text("Offline")
        await expect(
            page.get_by_text("The server does not answer. Is it").or_(page.get_by_text("not ready")).first
        ).to_be_visible()
    await page.clock.run_for(6000)

    await expect(offline(page)).to_be_empty()
    await expect(page.get_by_text("The server does not answer.")).to_have_count(0)
    await expect(page.get_by_role("heading", level=1)).to_contain_text(name.capitalize())


async def test_a_page_that_nobody_touches_reads_anew_when_the_server_is_back(visitor: Visitor) -> None:
    async with visitor.studio.client(visitor.user) as client:
        await client.run_turn(f"trip-{visitor.user}", "Which tram?")
        await client.run_turn(f"trip-{visitor.user}", "And back?")
    page = await visitor.open("/studio/memory", has_times=True)
    await expect(page.get_by_role("heading", name="Nothing is remembered yet")).to_be_visible()
    async with without_server(visitor, page):
        await page.clock.run_for(5500)
        await expect(offline(page)).to_contain_text("Offline")
        await remember(visitor.studio, visitor.user)
    await page.clock.run_for(5000)

    await expect(page.get_by_role("heading", name="User likes custard tarts")).to_be_visible()


async def test_what_is_half_written_on_a_page_stays_when_the_server_is_back(visitor: Visitor) -> None:
    async with visitor.studio.client(visitor.user) as client:
        await client.run_turn(f"trip-{visitor.user}", "Which tram?")
    page = await visitor.open(f"/studio/workbench/trip-{visitor.user}?part=memory", has_times=True)
    await page.get_by_role("textbox", name="human").fill("Likes trams")
    async with without_server(visitor, page):
        await page.clock.run_for(5500)
        await expect(offline(page)).to_contain_text("Offline")
    await page.clock.run_for(5000)

    await expect(offline(page)).to_be_empty()
    await expect(page.get_by_role("textbox", name="human")).to_have_value("Likes trams")


async def test_a_message_that_finds_no_server_is_sent_by_itself_when_it_is_back(visitor: Visitor) -> None:
    page, _ = await thread_with_messages(visitor, "Hello")
    async with without_server(visitor, page):
        await say(page, "Are you there?")
        await expect(offline(page)).to_contain_text("Offline")

    await expect(page.get_by_text("I heard: are you there?.")).to_be_visible()
    await expect(offline(page)).to_be_empty()
    await expect(page.get_by_text("Are you there?", exact=True)).to_have_count(1)


async def test_a_message_in_the_box_is_still_there_after_leaving_the_page(visitor: Visitor) -> None:
    page, thread = await thread_with_messages(visitor, "Hello")
    await box(page).fill("Tell me of")
    await page.get_by_role("link", name="Threads", exact=True).click()
    await page.get_by_role("region", name="Not sent yet").get_by_role("link", name=thread).click()
    await expect(box(page)).to_have_value("Tell me of")
    await say(page, "Tell me of the sea")
    await expect(page.get_by_text("I heard: tell me of the sea.")).to_be_visible()
    await page.reload()

    await expect(box(page)).to_have_value("")
    assert await page.evaluate("localStorage.getItem('clew-drafts')") == "{}"


async def test_a_message_whose_arrival_nobody_saw_arrives_once(visitor: Visitor) -> None:
    page, thread = await thread_with_messages(visitor, "Hello")
    turns = f"**/threads/{thread}/turns"

    async def lose_the_answer(route: Route) -> None:
        await route.fetch()
        await route.abort()

    visitor.expected.append("net::ERR")
    await page.route(turns, lose_the_answer)
    await say(page, "Are you there?")
    await expect(page.get_by_text("The connection is lost.")).to_be_visible()
    await page.reload()
    await page.unroute(turns)
    await expect(page.get_by_text("This message may not have been sent.")).to_be_visible()
    await box(page).press("Enter")
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()

    await expect(page.get_by_text("Are you there?", exact=True)).to_have_count(1)
    async with visitor.studio.client(visitor.user) as client:
        messages = (await client.messages(thread)).messages
    assert [each.text for each in messages].count("Are you there?") == 1


async def test_nothing_of_an_incognito_chat_is_kept_in_the_browser(visitor: Visitor) -> None:
    page = await visitor.open("/studio/threads")
    await begin(page, incognito=True)
    await box(page).fill("Between us")
    kept = await page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")

    assert "Between us" not in kept
