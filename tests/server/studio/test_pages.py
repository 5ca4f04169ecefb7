"""Memory, sessions and jobs, search, the system; and how the pages are served."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.async_api import expect

from clew.runtime.memory.memory import Memory
from clew.server.routes.studio import studio_files
from tests.server.studio.conftest import Visitor
from tests.server.studio.studio_server import Studio, furnish, move_house, remember

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]


async def memory_of_visitor(visitor: Visitor) -> Memory:
    """Three facts and a rule about the visitor."""
    async with visitor.studio.client(visitor.user) as client:
        await client.run_turn(f"trip-{visitor.user}", "Which tram?")
        await client.run_turn(f"trip-{visitor.user}", "And back?")
    await remember(visitor.studio, visitor.user)
    return Memory(visitor.studio.db.scope(tenant="default", user=visitor.user), visitor.user)


# Memory.


@pytest.mark.promise("B-11")
async def test_a_fact_leads_to_the_turn_it_comes_from(visitor: Visitor) -> None:
    await memory_of_visitor(visitor)
    page = await visitor.open("/studio/memory")
    row = page.get_by_role("listitem").filter(has_text="User likes tiled houses")
    await expect(row).to_contain_text("“I like tiled houses.”")
    await row.get_by_role("link", name="where it was said").click()

    await expect(page.get_by_text("You are looking at version 3")).to_be_visible()


@pytest.mark.promise("B-11")
async def test_a_fact_is_put_right_and_the_change_taken_back(visitor: Visitor) -> None:
    await memory_of_visitor(visitor)
    page = await visitor.open("/studio/memory")
    await page.get_by_role("button", name="Correct: User likes custard tarts").click()
    await page.get_by_role("textbox", name="User likes").fill("almond tarts")
    await page.get_by_role("button", name="Put right").click()
    await expect(page.get_by_role("heading", name="User likes almond tarts")).to_be_visible()
    await page.get_by_role("button", name="Undo the last change").click()

    await expect(page.get_by_role("heading", name="User likes custard tarts")).to_be_visible()


@pytest.mark.promise("B-11")
async def test_forgetting_takes_two_steps(visitor: Visitor) -> None:
    memory = await memory_of_visitor(visitor)
    page = await visitor.open("/studio/memory")
    await page.get_by_role("button", name="Forget: User likes tiled houses").click()
    await expect(page.get_by_role("dialog")).to_contain_text("tiled houses")
    between = len((await memory.page()).facts)
    await page.get_by_role("button", name="Forget it").click()

    await expect(page.get_by_role("heading", name="User likes tiled houses")).to_have_count(0)
    assert (between, len((await memory.page()).facts)) == (3, 2)


@pytest.mark.promise("B-11")
async def test_a_fact_says_what_it_replaced_and_what_held_once_what_replaced_it(visitor: Visitor) -> None:
    await memory_of_visitor(visitor)
    await move_house(visitor.studio, visitor.user)
    page = await visitor.open("/studio/memory")
    rome = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="User lives in Rome"))
    oslo = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="User lives in Oslo"))
    await expect(rome).to_contain_text("In place of: User lives in Oslo (3 Mar 2026 – 3 Jun 2026)")
    await expect(oslo).to_have_count(0)
    await page.get_by_role("switch", name="Also what held once").click()

    await expect(oslo).to_contain_text("Replaced by: User lives in Rome")
    await expect(oslo).to_contain_text("“I live in Oslo.”")
    await expect(oslo.get_by_role("link", name="where it was said")).to_be_visible()
    await expect(oslo.get_by_role("button", name="Correct")).to_have_count(0)


@pytest.mark.promise("B-11")
async def test_what_was_so_on_a_day_or_in_its_month_is_shown(visitor: Visitor) -> None:
    await memory_of_visitor(visitor)
    await move_house(visitor.studio, visitor.user)
    page = await visitor.open("/studio/memory")
    headings = page.get_by_role("heading", level=2)
    await page.get_by_label("As of").fill("2026-06-02")
    await expect(headings).to_have_text(["User lives in Oslo"])
    await page.get_by_label("How much of it").select_option("That month")
    await expect(headings).to_have_text(["User lives in Rome", "User lives in Oslo"])
    await page.get_by_role("button", name="Now").click()

    await expect(headings).to_have_count(4)
    await expect(page.get_by_role("heading", name="User lives in Oslo")).to_have_count(0)


@pytest.mark.promise("B-11")
async def test_every_fact_is_checked_and_problems_are_named(visitor: Visitor) -> None:
    await memory_of_visitor(visitor)
    page = await visitor.open("/studio/memory")
    await page.get_by_role("button", name="Check every fact").click()

    await expect(page.get_by_role("dialog")).to_contain_text("3 problems found.")
    await expect(page.get_by_role("dialog")).to_contain_text("User likes tiled houses")


@pytest.mark.promise("B-11")
async def test_an_undo_names_what_it_took_back(visitor: Visitor) -> None:
    await memory_of_visitor(visitor)
    await move_house(visitor.studio, visitor.user)
    page = await visitor.open("/studio/memory")
    await page.get_by_role("button", name="Undo the last change").click()

    await expect(
        page.get_by_text("Not known any more: User lives in Rome. Known again: User lives in Oslo.")
    ).to_be_visible()


@pytest.mark.promise("B-11")
async def test_a_correction_since_a_day_leaves_what_was_before(visitor: Visitor) -> None:
    memory = await memory_of_visitor(visitor)
    await move_house(visitor.studio, visitor.user)
    page = await visitor.open("/studio/memory")
    await page.get_by_role("button", name="Correct: User lives in Rome").click()
    await page.get_by_role("textbox", name="User lives in").fill("Bergen")
    await page.get_by_label("The old text was right until").fill("2026-08-01")
    await page.get_by_role("button", name="Put right").click()
    await expect(page.get_by_role("heading", name="User lives in Bergen")).to_be_visible()

    assert [fact.object for fact in (await memory.page(at="2026-07")).facts] == ["Rome"]


async def test_recall_is_switched_off_and_rules_are_shown(visitor: Visitor) -> None:
    memory = await memory_of_visitor(visitor)
    page = await visitor.open("/studio/memory")
    await page.get_by_role("tab", name="Facts").press("ArrowRight")
    await expect(page.get_by_role("heading", name="Answer in short sentences")).to_be_visible()
    await page.get_by_role("switch").press("Space")

    await expect(page.get_by_role("switch")).to_have_attribute("aria-checked", "false")
    assert not (await memory.profile()).recall


# Sessions and jobs.


async def test_a_session_is_ended_and_a_dead_job_tried_again(visitor: Visitor) -> None:
    await furnish(visitor.studio, visitor.user)
    page = await visitor.open("/studio/sessions")
    await page.get_by_role("button", name=f"End the session trip-{visitor.user}").click()
    over = page.get_by_role("region", name="Ended sessions")
    await expect(over).to_contain_text(f"trip-{visitor.user}")
    jobs = page.get_by_role("region", name="Jobs")
    await expect(jobs).to_contain_text("the mail server did not answer")
    await jobs.get_by_role("button", name="Try again").click()

    await expect(jobs.get_by_text("waiting", exact=True)).to_be_visible()


# Search.


async def test_words_are_found_in_threads_messages_and_memory(visitor: Visitor) -> None:
    await memory_of_visitor(visitor)
    page = await visitor.open("/studio/search")
    await page.get_by_role("searchbox").fill("castle")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Messages").locator("mark").first).to_have_text("castle")
    await page.get_by_role("searchbox").fill("walk")
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("region", name="Memory").locator("mark").first).to_have_text("walks")
    await page.get_by_role("searchbox").fill("zebra")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Nothing was found")).to_be_visible()


# The system.


async def test_the_system_page_says_what_it_stands_on_and_draws_turns(visitor: Visitor) -> None:
    page = await visitor.open("/studio/system", has_times=True)
    async with visitor.studio.client(visitor.user) as client:
        await client.run_turn(f"t-{visitor.user}", "Hello")
    await expect(page.get_by_role("region", name="Health")).to_contain_text("sqlite is ready")
    await page.clock.run_for(2500)

    await expect(page.get_by_role("img", name=re.compile(r"Turns a minute: now [1-9]"))).to_be_visible()
    await expect(page.get_by_role("img", name=re.compile("Latency of turns.*: now [0-9]"))).to_be_visible()


async def test_a_server_that_has_gone_is_said_to_be_gone(visitor: Visitor) -> None:
    visitor.expected.append("net::ERR")
    page = await visitor.open("/studio/system", has_times=True)
    health = page.get_by_role("region", name="Health")
    await expect(health).to_contain_text("sqlite is ready")
    await page.route("**/api/v1/**", lambda route: route.abort())
    await page.clock.run_for(2500)

    await expect(health).to_contain_text("does not answer")
    await expect(health).to_contain_text("not ready")
    await page.unroute("**/api/v1/**")
    await page.clock.run_for(2500)
    await expect(health).to_contain_text("sqlite is ready")
    await expect(page.get_by_role("alert")).to_have_count(0)


# When the server does not answer, or something is not as it should be.


async def test_what_is_looked_at_again_and_again_says_once_that_nobody_answers(visitor: Visitor) -> None:
    visitor.expected.append("net::ERR")
    page = await visitor.open("/studio/sessions", has_times=True)
    await page.route("**/api/v1/**", lambda route: route.abort())
    for _ in range(2):
        async with page.expect_event("requestfailed"):
            await page.clock.run_for(3500)
    await expect(page.get_by_text("The server does not answer.")).to_have_count(1)
    await page.unroute("**/api/v1/**")
    await page.clock.run_for(3500)

    await expect(page.get_by_text("The server does not answer.")).to_have_count(0)


async def test_a_page_that_could_not_be_shown_can_be_asked_for_again(visitor: Visitor) -> None:
    visitor.expected.append("net::ERR")
    page = await visitor.open("/studio/search")
    await page.route("**/api/v1/**", lambda route: route.abort())
    await page.get_by_role("link", name="Memory").click()
    await expect(page.get_by_role("alert").locator("code")).to_have_text("unreachable")
    await page.unroute("**/api/v1/**")
    await page.get_by_role("button", name="Try again").click()

    await expect(page.get_by_role("heading", name="Nothing is remembered yet")).to_be_visible()


async def test_a_page_is_shown_whatever_stands_in_the_address_and_in_the_browser(visitor: Visitor) -> None:
    page = await visitor.open("/studio/search")
    await page.evaluate("localStorage.setItem('clew-who', '{no JSON')")
    await page.goto("/studio/%E0%A4%A")

    await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()


# Serving.


async def test_the_front_leads_to_the_studio(studio: Studio) -> None:
    async with httpx.AsyncClient(base_url=studio.address, follow_redirects=True) as client:
        answer = await client.get("/")

    assert (answer.status_code, answer.url.path) == (200, "/studio")


async def test_only_files_of_the_studio_itself_may_run(studio: Studio) -> None:
    async with httpx.AsyncClient(base_url=studio.address) as client:
        answer = await client.get("/studio/threads/any")
    policy = answer.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", answer.text) is None
    assert "http://" not in answer.text.replace("http://www.w3.org", "")


async def test_a_file_that_has_not_changed_is_not_sent_again(studio: Studio) -> None:
    async with httpx.AsyncClient(base_url=studio.address) as client:
        first = await client.get("/studio/studio.css")
        second = await client.get("/studio/studio.css", headers={"If-None-Match": first.headers["etag"]})

    assert (second.status_code, second.content) == (304, b"")


async def test_every_module_is_fetched_ahead() -> None:
    page = studio_files()["index.html"].content.decode()
    modules = {path for path in studio_files() if path.endswith(".js")}

    assert {path for path in modules if f'"/studio/{path}"' in page} == modules


async def test_a_key_that_does_not_hold_is_told_with_a_way_to_give_another(visitor: Visitor) -> None:
    visitor.expected.append("401 (Unauthorized)")
    page = await visitor.open("/studio/threads")
    await page.evaluate("sessionStorage.setItem('clew-key', 'wrong')")
    await page.reload()
    await expect(page.get_by_role("alert").locator("code")).to_have_text("unauthenticated")
    await page.get_by_role("button", name="Give a key").click()
    await page.get_by_label("API key or token").fill("")
    await page.get_by_role("button", name="Use this").click()

    await expect(page.get_by_role("heading", name="No threads yet")).to_be_visible()
