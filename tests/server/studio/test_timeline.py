"""Going through the versions of a thread: look back, compare, fork, rewind."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

import clew
from clew.core.values import Scope
from clew.database.database import Database
from clew.stores.sqlite.store import SqliteStore
from clew.testing import Clock
from tests.server.studio.conftest import Visitor, ready

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]
DAY = 86_400_000
NOON = 1_778_414_400_000
"""The tenth of May 2026 in UTC, at noon: the same day in most places."""


async def at_version(visitor: Visitor, version: int) -> tuple[Page, str]:
    """A thread of seven versions, looked at in one of them."""
    thread = f"past-{visitor.user}"
    async with visitor.studio.client(visitor.user) as client:
        await client.run_turn(thread, "The first thing")
        await client.append(thread, patches=[["set", ["mood"], "calm"]])
        await client.run_turn(thread, "The second thing")
    assert (await visitor.studio.db.thread(thread).head()).version == 7
    page = await visitor.open(f"/studio/threads/{thread}")
    await page.get_by_role("slider").focus()
    for _ in range(7 - version):
        await page.keyboard.press("ArrowLeft")
    await expect(page.get_by_text(f"You are looking at version {version} of 7.")).to_be_visible()
    return page, thread


async def test_the_keyboard_goes_back_and_the_transcript_with_it(visitor: Visitor) -> None:
    page, _ = await at_version(visitor, 4)
    await expect(page.get_by_text("The second thing", exact=True)).to_have_count(0)
    await expect(page.get_by_role("log").get_by_text("The first thing", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Back to now").click()

    await expect(page.get_by_text("The second thing", exact=True)).to_be_visible()
    await expect(page.get_by_text("You are looking at")).to_have_count(0)


async def test_a_version_says_what_it_changed_in_the_state(visitor: Visitor) -> None:
    page, _ = await at_version(visitor, 4)
    panel = page.get_by_role("tabpanel")

    await expect(panel.get_by_role("listitem")).to_contain_text(["mood"])
    await expect(panel.get_by_role("listitem")).to_contain_text(["set calm"])
    await expect(panel).to_contain_text("No message came or went.")


async def test_a_version_is_compared_with_now(visitor: Visitor) -> None:
    page, _ = await at_version(visitor, 4)
    await page.get_by_label("Compare with").select_option("now")
    panel = page.get_by_role("tabpanel")

    await expect(panel.locator("li.added")).to_have_count(2)
    await expect(panel.locator("li.added").first).to_contain_text("The second thing")


async def test_a_fork_goes_its_own_way(visitor: Visitor) -> None:
    page, thread = await at_version(visitor, 4)
    await page.get_by_role("button", name="Fork from here").click()
    await page.get_by_label("The new thread").fill(f"fork-{visitor.user}")
    await page.get_by_role("button", name="Fork", exact=True).click()
    await page.wait_for_url(f"**/threads/fork-{visitor.user}")
    await ready(page)
    await page.get_by_role("tab", name="About").click()

    await expect(page.get_by_role("tabpanel")).to_contain_text(f"{thread}, version 4")
    await expect(page.get_by_text("The second thing", exact=True)).to_have_count(0)


async def test_a_past_version_can_be_read_and_not_written(visitor: Visitor) -> None:
    page, _ = await at_version(visitor, 4)
    box = page.get_by_role("textbox", name="Message")
    await expect(page.get_by_text("It can be read, not written.")).to_be_visible()
    await expect(box).to_be_hidden()
    await page.get_by_role("button", name="Back to now").click()
    await expect(box).to_be_focused()
    await box.fill("The third thing")
    await page.keyboard.press("Enter")

    await expect(page.get_by_text("Version 10 of 10, which is now")).to_be_visible()
    await expect(page.get_by_text("The third thing", exact=True)).to_be_visible()


async def test_what_is_half_written_is_there_again_behind_a_look_back(visitor: Visitor) -> None:
    page, _ = await at_version(visitor, 6)
    await page.get_by_role("button", name="Back to now").click()
    await page.get_by_role("textbox", name="Message").fill("The third")
    await page.get_by_role("button", name="The version before").click()
    await page.get_by_role("button", name="Back to now").click()

    await expect(page.get_by_role("textbox", name="Message")).to_have_value("The third")


async def test_from_the_newest_version_there_is_no_way_on_and_nothing_to_rewind(visitor: Visitor) -> None:
    page, _ = await at_version(visitor, 6)
    later, rewind = (
        page.get_by_role("button", name=each) for each in ("The version after", "Rewind to here")
    )
    await expect(rewind).to_be_enabled()
    await later.press("Enter")
    await expect(page.get_by_text("Version 7 of 7, which is now")).to_be_visible()
    await expect(later).to_be_focused()
    await rewind.click(force=True)

    await expect(later).to_be_disabled()
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_a_rewind_asks_first(visitor: Visitor) -> None:
    page, thread = await at_version(visitor, 4)
    await page.get_by_role("button", name="Rewind to here").click()
    await page.get_by_role("button", name="Cancel").click()

    assert (await visitor.studio.db.thread(thread).head()).version == 7


async def test_a_rewind_takes_back_what_came_after(visitor: Visitor) -> None:
    page, thread = await at_version(visitor, 4)
    await page.get_by_role("button", name="Rewind to here").click()
    await page.get_by_role("button", name="Rewind", exact=True).click()
    await expect(page.get_by_text("Version 8 of 8, which is now")).to_be_visible()

    await expect(page.get_by_text("The second thing", exact=True)).to_have_count(0)
    assert len(await visitor.studio.db.thread(thread).items()) == 2


async def test_a_link_to_a_version_shows_it(visitor: Visitor) -> None:
    page, thread = await at_version(visitor, 6)
    await page.goto(f"/studio/threads/{thread}?at=2")

    await expect(page.get_by_text("You are looking at version 2 of 7.")).to_be_visible()


async def test_the_timeline_jumps_to_a_day(visitor: Visitor) -> None:
    thread, clock = f"days-{visitor.user}", Clock(NOON)
    store = SqliteStore(visitor.studio.url.removeprefix("sqlite:///"), clock=clock)
    await store.start()
    days = await Database(store, Scope(user=visitor.user)).create(thread, owner=visitor.user)
    for number in range(5):
        await days.append(items=[clew.user(f"Day {number}, early")])
        await days.append(items=[clew.user(f"Day {number}, late")])
        clock.advance(DAY)
    await store.close()
    page = await visitor.open(f"/studio/threads/{thread}")
    day = page.get_by_label("Day")
    await expect(day).to_have_value("2026-05-14")
    await day.fill("2026-05-11")
    await expect(page.get_by_text("You are looking at version 4 of 10.")).to_be_visible()
    await expect(page.get_by_role("log")).to_contain_text("Day 1, late")
    await day.fill("2026-01-01")
    await expect(page.get_by_text("You are looking at version 1 of 10.")).to_be_visible()
    await expect(day).to_have_value("2026-05-10")
    await day.fill("2027-01-01")

    await expect(page.get_by_text("Version 10 of 10, which is now")).to_be_visible()


async def test_diagnostics_are_shown_only_if_somebody_asks_for_them(visitor: Visitor) -> None:
    thread = f"past-{visitor.user}"
    async with visitor.studio.client(visitor.user) as client:
        await client.create_thread(thread)
        await client.append(
            thread, patches=[["set", ["diagnostics"], {"gate_ms": 3}], ["set", ["mood"], "calm"]]
        )
    page = await visitor.open(f"/studio/threads/{thread}")
    panel = page.get_by_role("tabpanel")
    await panel.get_by_text("The whole state at this version").click()
    await expect(panel).to_contain_text("1 change of diagnostics is not shown.")
    await expect(panel).to_contain_text("set calm")
    await expect(panel).not_to_contain_text("gate_ms")
    await page.get_by_role("switch", name="Diagnostics").click()
    await expect(panel.locator(".ops")).to_contain_text("gate_ms")
    await page.reload()

    await expect(panel.locator(".ops")).to_contain_text("gate_ms")
