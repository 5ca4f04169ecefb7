"""What an agent of one's own adds to the Studio: a page, an entry that leads there, and how messages look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect

import clew
from clew.agents import Agent, AgentSettings, StudioPages
from clew.agents.plain import NO_MODEL, plain_agent
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from tests.server.local_server import listening
from tests.server.studio.conftest import Visitor, Windows
from tests.server.studio.studio_server import Studio
from tests.server.studio.test_companion import begin, say

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]
SCRIPT = """
import { make, put } from "../../dom.js";

export const pages = {
  trips: async ({ place, agent }) => put(place, make("h1", {}, `Trips of ${agent.name}`)),
  threads: async ({ place }) => put(place, make("h1", {}, "Not the Studio's own")),
};

export function decorate(message) {
  return message.role === "assistant" ? { careful: true, above: make("p.platform", {}, "Platform 4") } : {};
}
"""


def make_runtime(db: clew.Database, settings: AgentSettings) -> clew.Runtime:
    return clew.Runtime(db, agent="travel", model=ScriptedModel("At nine."))


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def companion_studio(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Studio]:
    """A server with an agent that brings a script."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "main.js").write_text(SCRIPT, encoding="utf-8")
    studio = StudioPages(folder=folder, navigation={"trips": "Trips"})
    agent = Agent(name="travel", make_runtime=make_runtime, notices=("Fares change.",), studio=studio)
    async with clew.open("memory://") as db:
        app = create_app(ServerSettings(sweep_seconds=3600), db=db, agent=agent)
        async with listening(app) as address:
            yield Studio(address, "memory://", db, asyncio.Event())


@pytest_asyncio.fixture(loop_scope="session")
async def guest(windows: Windows, companion_studio: Studio, user: str) -> AsyncIterator[Visitor]:
    """A person at that Studio; at the end the console must be silent."""
    visitor = Visitor(windows, companion_studio, user)
    yield visitor
    await visitor.close()
    assert visitor.errors == []


async def test_a_page_of_an_agent_has_an_entry_that_leads_there(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await page.get_by_role("navigation").get_by_role("link", name="Trips").click()

    await expect(page.get_by_role("heading", name="Trips of travel")).to_be_visible()
    await expect(page.locator("#nav a[aria-current=page]")).to_have_text("Trips")


async def test_a_page_of_an_agent_can_be_opened_by_its_address(guest: Visitor) -> None:
    page = await guest.open("/studio/trips")

    await expect(page.get_by_role("heading", name="Trips of travel")).to_be_visible()
    await expect(page).to_have_title("Trips · Clew Studio")


async def test_no_page_of_the_studio_is_replaced(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")

    await expect(page.get_by_role("heading", name="Threads", exact=True)).to_be_visible()


async def test_an_agent_says_how_its_messages_look(guest: Visitor) -> None:
    page = await guest.open("/studio/threads")
    await begin(page)
    answer = await say(page, "When does it leave?")

    await expect(answer.locator(".platform")).to_have_text("Platform 4")
    await expect(page.get_by_text("Fares change.")).to_be_visible()


@pytest.mark.promise("B-16")
async def test_a_thread_of_another_agent_can_be_read_and_not_written(
    guest: Visitor, companion_studio: Studio, user: str
) -> None:
    cook = clew.Runtime(companion_studio.db, agent="cook", model=ScriptedModel("Soup."))
    await cook.run_turn(f"dinner-{user}", "What is for dinner?", user=user)
    page = await guest.open(f"/studio/threads/dinner-{user}")

    await expect(page.get_by_text("Soup.")).to_be_visible()
    await expect(page.get_by_text("cook, read only")).to_be_visible()
    await expect(page.get_by_text("The agent cook writes this thread.")).to_be_visible()
    await expect(page.get_by_role("button", name="End session")).to_have_count(0)


async def test_the_plain_agent_says_how_to_connect_a_model_before_anything_is_asked(
    windows: Windows, user: str
) -> None:
    async with clew.open("memory://") as db:
        app = create_app(ServerSettings(sweep_seconds=3600), db=db, agent=plain_agent)
        async with listening(app) as address:
            visitor = Visitor(windows, Studio(address, "memory://", db, asyncio.Event()), user)
            page = await visitor.open("/studio/threads")
            await begin(page)

            await expect(page.get_by_text(NO_MODEL)).to_be_visible()
            await expect(page.get_by_text("no model", exact=True)).to_be_visible()
            await expect(page.locator("#connection")).to_be_empty()
            await visitor.close()


@pytest.mark.promise("B-16")
async def test_a_thread_of_any_agent_that_is_served_can_be_written(windows: Windows, user: str) -> None:
    cook = Agent(
        name="cook",
        make_runtime=lambda db, settings: clew.Runtime(
            db, agent="cook", model=ScriptedModel("Soup.", "Bread.")
        ),
        brings_model=True,
    )
    async with clew.open("memory://") as db:
        app = create_app(ServerSettings(sweep_seconds=3600), db=db, agent=plain_agent, agents=[cook])
        async with listening(app) as address:
            studio = Studio(address, "memory://", db, asyncio.Event())
            async with studio.client(user) as client:
                await client.run_turn("dinner", "What is for dinner?", agent="cook")
            visitor = Visitor(windows, studio, user)
            page = await visitor.open("/studio/threads/dinner")
            answer = await say(page, "And besides?")

            await expect(answer).to_contain_text("Bread.")
            await expect(page.get_by_text("no model", exact=True)).to_have_count(0)
            await visitor.close()
            assert visitor.errors == []
