"""Steps of a run as a timeline, and experiments side by side."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

import clew
from clew.workbench.experiments.datasets import ExampleSelection, make_dataset
from clew.workbench.experiments.examples import Example
from clew.workbench.experiments.experiments import ExperimentPlan
from clew.workbench.experiments.results import exact
from clew.workbench.experiments.runner import run_experiment
from tests.server.studio.conftest import Visitor
from tests.server.studio.test_accessibility import wrong

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-12")]


async def add_experiments(visitor: Visitor) -> tuple[str, str]:
    """Two experiments on a data set made from a thread: the second is better in one and fails in another."""
    db, user = visitor.studio.db, visitor.user
    thread = await db.create(f"talk-{user}", owner=user)
    for question, answer in (("Hi", "Hello."), ("Bye", "Ciao."), ("Thanks", "Welcome.")):
        await thread.append(items=[clew.user(question), clew.assistant(answer)])
    await make_dataset(db, f"set-{user}", ExampleSelection(threads=(f"talk-{user}",)), now=1_750_000_000_000)

    def knowing(example: Example) -> str:
        if example.question == "Bye":
            raise RuntimeError("<b>gone</b>")
        return str(example.expected)

    first, second = f"first-{user}", f"second-{user}"
    for name, subject in ((first, lambda example: "Hello."), (second, knowing)):
        plan = ExperimentPlan(dataset=f"set-{user}", subject=f"the agent of {name}", scorer="exact")
        await run_experiment(db, name, plan, subject, exact)
    return first, second


async def test_a_run_shows_what_it_did_and_what_that_cost(visitor: Visitor) -> None:
    async with visitor.studio.client(visitor.user) as client:
        await client.run_turn(f"talk-{visitor.user}", "What is the weather like?")
    page = await visitor.open(f"/studio/threads/talk-{visitor.user}")
    await page.get_by_role("tab", name="Runs").first.click()
    await page.get_by_text("Steps", exact=True).click()
    steps = page.locator(".steps > li")

    await expect(steps).to_have_count(4)
    await expect(steps.nth(0)).to_contain_text("guide")
    await expect(steps.nth(0)).to_contain_text("9 out · $0.00")
    await expect(steps.nth(1)).to_contain_text("weather")
    await expect(steps.nth(3)).to_contain_text("output")
    assert await wrong(page) == []


async def test_two_experiments_stand_side_by_side(visitor: Visitor) -> None:
    first, second = await add_experiments(visitor)
    page = await visitor.open("/studio/experiments")
    await page.get_by_label("First").select_option(first)
    await page.get_by_label("Second").select_option(second)
    await page.get_by_role("button", name="Compare").click()
    rows = page.get_by_role("list", name="Examples").locator("> li")

    await expect(page.get_by_text(f"{second} is better in 1, worse in 0, and the same in 1.")).to_be_visible()
    await expect(rows).to_have_count(2)
    await expect(rows.nth(0)).to_contain_text("RuntimeError: <b>gone</b>")
    await expect(rows.nth(1)).to_contain_text("+1.000")
    await expect(page.get_by_role("row", name="Score")).to_contain_text("0.333")
    await expect(page.get_by_role("row", name="Cost")).to_contain_text("no price known")
    await page.get_by_label("Also those with the same score").check()
    await expect(rows).to_have_count(3)


async def test_results_and_examples_lead_to_where_they_come_from(visitor: Visitor) -> None:
    _, second = await add_experiments(visitor)
    page = await visitor.open("/studio/experiments")
    experiment = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=second))
    await experiment.get_by_text("Results", exact=True).click()
    await expect(experiment.get_by_text("Expected: Ciao.")).to_be_visible()
    data = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=f"set-{visitor.user}"))
    await data.get_by_text("Examples", exact=True).click()
    await expect(data.get_by_text("Expected: Welcome.")).to_be_visible()
    await data.get_by_role("link", name="where it was said").first.click()

    await expect(page.get_by_text("You are looking at version 1")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 375])
async def test_the_page_is_accessible(visitor: Visitor, width: int) -> None:
    first, second = await add_experiments(visitor)
    page = await visitor.open(f"/studio/experiments?first={first}&second={second}", width=width)

    assert await wrong(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
