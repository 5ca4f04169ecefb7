"""What runs took and cost: one run as a waterfall of its steps, and all of them over time."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

import clew
from clew.core.clock import now_ms
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import Run, record_of
from tests.server.studio.conftest import Visitor
from tests.server.studio.test_thread import thread_with_messages

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]
DAY = 86_400_000


async def record_runs(visitor: Visitor) -> None:
    """Three runs of two agents on two days."""
    db: clew.Database = visitor.studio.db.scope(tenant="default", user=visitor.user)
    today = now_ms()
    for number, (agent, started) in enumerate(
        (("cook", today), ("cook", today - DAY), ("guide", today - DAY))
    ):
        usage = Usage(calls=1, input_tokens=1000, output_tokens=200, cost=2_500_000)
        run = Run(
            id=f"run-{visitor.user}-{number}",
            thread="t",
            agent=agent,
            status="done",
            started=started,
            usage=usage,
        )
        await db.records.put(record_of(run, visitor.user))


async def test_a_run_is_a_waterfall_of_its_steps_with_tokens_and_cost(visitor: Visitor) -> None:
    page, _ = await thread_with_messages(visitor, "What is the weather like?")
    await page.get_by_role("tab", name="Runs").click()
    await page.get_by_text("Steps", exact=True).click()
    steps = page.locator(".steps > li")
    await expect(steps).to_have_count(4)
    bars = steps.locator("rect")
    places = [float(await bars.nth(index).get_attribute("x") or "-1") for index in range(4)]

    assert places == sorted(places)
    await expect(steps.nth(0)).to_contain_text("tokens in, 9 out · $")
    await expect(steps.nth(1)).to_contain_text("weather")
    await expect(page.locator(".waterfall .total")).to_contain_text("4 steps in")
    await expect(page.locator(".waterfall .total")).to_contain_text("· $0.0")


async def test_usage_is_drawn_for_each_day_and_stands_in_a_table(visitor: Visitor) -> None:
    await record_runs(visitor)
    page = await visitor.open("/studio/usage")
    rows = page.get_by_role("region", name="Usage of each day").get_by_role("row")

    await expect(page.get_by_role("img", name="Runs: 3 in 30 days, at most 2 on one")).to_be_visible()
    await expect(page.get_by_role("img", name="Tokens: 3,600 in 30 days")).to_be_visible()
    await expect(page.get_by_role("img", name="Cost: $7.50 in 30 days")).to_be_visible()
    await expect(rows).to_have_count(3)
    await expect(rows.nth(2)).to_contain_text("$5.00")


async def test_usage_of_one_agent_is_shown_and_the_address_says_which(visitor: Visitor) -> None:
    await record_runs(visitor)
    page = await visitor.open("/studio/usage")
    await page.get_by_label("Agent").select_option("guide")
    await page.get_by_label("Time").select_option("7 days")
    await expect(page.get_by_role("img", name="Runs: 1 in 7 days, at most 1 on one")).to_be_visible()
    await page.reload()

    await expect(page.get_by_role("img", name="Runs: 1 in 7 days, at most 1 on one")).to_be_visible()
    await expect(page.get_by_label("Agent")).to_have_value("guide")


async def test_a_time_in_which_nothing_was_used_says_so(visitor: Visitor) -> None:
    page = await visitor.open("/studio/usage")

    await expect(page.get_by_role("heading", name="Nothing was used")).to_be_visible()
