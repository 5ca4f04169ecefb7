"""The list of threads, and how a chat begins."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.server.studio.conftest import Visitor, ready

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]


async def test_without_threads_the_page_says_what_to_do(visitor: Visitor) -> None:
    page = await visitor.open("/studio/threads")

    await expect(page.get_by_role("heading", name="No threads yet")).to_be_visible()
    await expect(page.get_by_role("button", name="Begin a chat")).to_be_visible()


async def test_a_thread_shows_its_last_message_and_labels_and_owner(visitor: Visitor) -> None:
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(f"t-{visitor.user}", title="A talk", labels=["work"])
        await client.run_turn(f"t-{visitor.user}", "The tram, please")
    page = await visitor.open("/studio/threads")
    row = page.get_by_role("listitem").filter(has_text="A talk")

    await expect(row).to_contain_text("Line 28 goes up to the castle")
    await expect(row).to_contain_text(visitor.user)
    await expect(row).to_contain_text("version 4")
    await expect(row.get_by_role("button", name="work")).to_be_visible()


def lists_of(requests: list[str]) -> list[str]:
    """The requests for a list of threads among all."""
    return [each for each in requests if "/api/v1/threads?" in each]


async def test_what_another_client_does_is_told_and_nobody_asks_again(visitor: Visitor) -> None:
    requests: list[str] = []
    page = await visitor.open("/studio/search", requests=requests)
    rows = page.locator(".threads > li")
    async with page.expect_response("**/api/v1/events"):
        await page.get_by_role("link", name="Threads", exact=True).click()
    name = f"late-{visitor.user}"
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(name)
        await expect(rows.filter(has_text=name)).to_contain_text("version 0")
        await page.get_by_role("link", name=name).focus()
        await client.append(name, patches=[["set", ["mood"], "calm"]])
        await expect(rows.filter(has_text=name)).to_contain_text("version 1")
        await expect(page.get_by_role("link", name=name)).to_be_focused()
        await client.delete_thread(name)
    await expect(page.get_by_role("heading", name="No threads yet")).to_be_visible()

    assert len(lists_of(requests)) == 1
    assert len([each for each in requests if each.endswith("/api/v1/events")]) == 1


async def test_new_threads_stand_before_older_ones_and_only_those_that_bear_the_words(
    visitor: Visitor,
) -> None:
    page = await visitor.open(f"/studio/threads?q=g-{visitor.user}")
    async with visitor.studio.client(visitor.user) as client:
        for name in ("g", "other", "g-g"):
            await client.create_thread(f"{name}-{visitor.user}")

    await expect(page.locator(".threads a")).to_have_text([f"g-g-{visitor.user}", f"g-{visitor.user}"])


async def test_a_list_that_is_refused_a_stream_asks_again(visitor: Visitor) -> None:
    visitor.expected = ["503"]
    requests: list[str] = []
    page = await visitor.open(
        "/studio/threads", requests=requests, blocked_url="**/api/v1/events", has_times=True
    )
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(f"late-{visitor.user}")
    await page.clock.run_for(3000)
    await expect(page.get_by_role("link", name=f"late-{visitor.user}")).to_be_visible()
    await page.unroute("**/api/v1/events")
    async with page.expect_response("**/api/v1/events") as response_info:
        await page.clock.run_for(6000)
        await visitor.studio.db.scope(tenant="default", user=visitor.user).create(f"later-{visitor.user}")

    assert (await response_info.value).status == 200
    await expect(page.get_by_role("link", name=f"later-{visitor.user}")).to_be_visible()
    assert len(lists_of(requests)) >= 2


async def test_how_long_ago_something_was_is_kept_up(visitor: Visitor) -> None:
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(f"t-{visitor.user}")
    page = await visitor.open("/studio/threads", has_times=True)
    await expect(page.locator(".threads time")).to_have_text(re.compile("just now|seconds ago"))
    await page.clock.fast_forward("05:00")

    await expect(page.locator(".threads time")).to_have_text(re.compile("[56] minutes ago"))


async def test_words_and_labels_find_threads(visitor: Visitor) -> None:
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(f"one-{visitor.user}", labels=["garden"])
        await client.create_thread(f"two-{visitor.user}")
    page = await visitor.open("/studio/threads")
    await page.get_by_role("button", name="garden").click()
    await expect(page.get_by_role("searchbox")).to_have_value("garden")
    await expect(page.get_by_role("link", name=f"two-{visitor.user}")).to_have_count(0)
    await page.reload()

    await expect(page.get_by_role("link", name=f"one-{visitor.user}")).to_be_visible()
    await expect(page.get_by_role("link", name=f"two-{visitor.user}")).to_have_count(0)


async def test_more_threads_come_page_by_page(visitor: Visitor) -> None:
    async with visitor.studio.client(visitor.user) as client:
        for number in range(32):
            await client.create_thread(f"{visitor.user}-{number}")
    page = await visitor.open("/studio/threads")
    rows = page.locator(".threads > li")
    await expect(rows).to_have_count(30)
    await page.get_by_role("button", name="Show more").click()

    await expect(rows).to_have_count(32)
    await expect(page.get_by_role("button", name="Show more")).to_have_count(0)


@pytest.mark.promise("R-17")
async def test_a_chat_without_a_name_is_a_web_thread_of_the_web_user(visitor: Visitor) -> None:
    visitor.user = ""
    page = await visitor.open("/studio/threads", everybody=True)
    await page.get_by_role("button", name="New chat").click()
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_role("textbox", name="Message").fill("Hello")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Chain holds")).to_be_visible()
    thread = page.url.rsplit("/", 1)[1]

    assert re.fullmatch(r"web-[0-9a-z]{8}", thread)
    assert (await visitor.studio.db.thread(thread).head()).owner == "web-user"


@pytest.mark.promise("R-17")
async def test_an_incognito_chat_clears_the_user_and_leaves_nothing(visitor: Visitor) -> None:
    page = await visitor.open("/studio/threads", everybody=True)
    await page.get_by_role("button", name="New chat").click()
    await page.get_by_label("Incognito").check()
    await expect(page.get_by_label("User", exact=True)).to_have_value("")
    await expect(page.get_by_label("User", exact=True)).to_be_disabled()
    await page.get_by_role("button", name="Begin").click()
    await page.get_by_role("textbox", name="Message").fill("Between us")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("I heard: between us")).to_be_visible()
    await expect(page.locator(".chip.veil")).to_have_text("Incognito")
    thread = page.url.rsplit("/", 1)[1]
    async with page.expect_response(f"**/sessions/{thread}/end") as response_info:
        await page.get_by_role("link", name="Threads", exact=True).click()
    await ready(page)

    assert (await response_info.value).status == 200
    assert thread not in [each.id for each in (await visitor.studio.db.threads(limit=1000)).threads]
    await page.go_back()
    await expect(page.get_by_text("This chat is gone")).to_be_visible()


async def test_a_thread_without_a_title_is_called_by_its_first_message(visitor: Visitor) -> None:
    async with visitor.studio.client(visitor.user) as client:
        await client.run_turn(f"talk-{visitor.user}", "**Which tram** goes up?\n\nI would rather not walk.")
        await client.run_turn(f"talk-{visitor.user}", "And back?")
    page = await visitor.open("/studio/threads")
    await page.get_by_role("link", name="Which tram goes up? I would rather not walk.").click()

    await expect(page.get_by_role("heading", level=1)).to_have_text(
        "Which tram goes up? I would rather not walk."
    )
    await expect(page).to_have_title("Which tram goes up? I would rather not walk. · Clew Studio")
