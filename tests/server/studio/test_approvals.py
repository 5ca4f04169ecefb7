"""The inbox: what waits for a person is counted, filtered and decided there."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

import clew
from clew.runtime.model.protocol import Reply, ToolCall
from clew.testing import ScriptedModel
from tests.server.studio.conftest import Visitor
from tests.server.studio.studio_server import pay

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]


async def ask_for_payment(visitor: Visitor, thread: str) -> str:
    """Let a run of the visitor wait for an approval."""
    async with visitor.studio.client(visitor.user) as client:
        return (await client.run_turn(f"{thread}-{visitor.user}", "Please pay Ann.")).run


async def let_cook_wait(visitor: Visitor) -> None:
    """Let a run of an agent wait that is not served."""
    call = ToolCall(id="c1", name="pay", arguments={"to": "Bea", "amount": 7})
    cook = clew.Runtime(
        visitor.studio.db, agent="cook", model=ScriptedModel(Reply(calls=(call,))), tools=[pay]
    )
    await cook.run_turn(f"dinner-{visitor.user}", "Buy it.", user=visitor.user)


def badge(page: Page) -> Locator:
    return page.get_by_role("navigation").locator(".badge")


def cards(page: Page) -> Locator:
    return page.get_by_role("region", name="Decision about pay")


async def test_the_badge_counts_what_waits_on_every_page_and_grows_by_itself(visitor: Visitor) -> None:
    await ask_for_payment(visitor, "invoice")
    page = await visitor.open("/studio/search", has_times=True)
    await expect(badge(page)).to_have_text("1 waiting")
    await ask_for_payment(visitor, "rent")
    await page.clock.run_for(5500)

    await expect(badge(page)).to_have_text("2 waiting")


async def test_there_is_no_badge_if_nothing_waits(visitor: Visitor) -> None:
    page = await visitor.open("/studio/approvals")

    await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    await expect(badge(page)).to_be_hidden()


async def test_a_call_is_approved_in_the_inbox_and_goes_from_it(visitor: Visitor) -> None:
    run = await ask_for_payment(visitor, "invoice")
    page = await visitor.open("/studio/approvals")
    await expect(cards(page)).to_contain_text("Ann")
    await expect(cards(page).get_by_role("link", name="Please pay Ann.")).to_be_visible()
    await cards(page).get_by_role("button", name="Approve").click()
    await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    await expect(badge(page)).to_be_hidden()

    async with visitor.studio.client(visitor.user) as client:
        assert (await client.run(run)).termination == "natural"


async def test_a_call_that_begins_to_wait_appears_and_leaves_what_is_there(visitor: Visitor) -> None:
    await ask_for_payment(visitor, "invoice")
    page = await visitor.open("/studio/approvals")
    await cards(page).get_by_role("button", name="Decline").focus()
    await ask_for_payment(visitor, "rent")

    await expect(cards(page)).to_have_count(2)
    await expect(cards(page).nth(1).get_by_role("button", name="Decline")).to_be_focused()


async def test_the_inbox_is_filtered_and_the_address_says_how(visitor: Visitor) -> None:
    await ask_for_payment(visitor, "invoice")
    await let_cook_wait(visitor)
    page = await visitor.open("/studio/approvals")
    await expect(cards(page)).to_have_count(2)
    await page.get_by_label("Agent").select_option("cook")
    await expect(cards(page)).to_have_count(1)
    await page.get_by_label("Agent").select_option("All agents")
    await page.get_by_label("Search").fill(f"INVOICE-{visitor.user}")
    await expect(cards(page)).to_contain_text("Ann")
    await page.reload()
    await expect(cards(page)).to_have_count(1)
    await page.get_by_label("Search").fill("nothing of the kind")
    await page.get_by_role("button", name="Show all").click()

    await expect(cards(page)).to_have_count(2)


@pytest.mark.promise("B-16")
@pytest.mark.parametrize("path", ["/studio/approvals", "/studio/threads/dinner-{user}"])
async def test_a_call_of_an_agent_that_is_not_served_says_so_before(visitor: Visitor, path: str) -> None:
    await let_cook_wait(visitor)
    page = await visitor.open(path.format(user=visitor.user))
    approve = cards(page).get_by_role("button", name="Approve")
    reason = cards(page).get_by_text("The agent 'cook' is not served here")

    await expect(reason).to_be_visible()
    await expect(approve).to_be_disabled()
    assert await approve.get_attribute("aria-describedby") == await reason.get_attribute("id")
