"""AG-UI as its own client library has it: against a server process, in Node and in a browser."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import httpx
import pytest
from playwright.async_api import BrowserContext, Page, expect

from tests.support.ag_ui_client import AgUiClient
from tests.support.interop.agent import WORDS
from tests.support.interop.fixtures import Site, server, site, window
from tests.support.interop.node import bundle, run_script
from tests.support.interop.server_process import ServerProcess
from tests.support.suites import ROOT

__all__ = ["server", "site", "window"]

pytestmark = [pytest.mark.interop, pytest.mark.promise("B-17")]
EXAMPLE = ROOT / "examples" / "ag_ui"
ANSWER = "".join(WORDS)
HALF = "".join(WORDS[:6]).strip()


async def talk(server: ServerProcess, *actions: dict[str, Any]) -> dict[str, Any]:
    """Let the client library do something, and then another client that has just come."""
    headers = {"X-Clew-User": "alice"}
    url = f"{server.api}/ag-ui"
    data = {"url": url, "headers": headers, "thread": "t", "actions": actions}
    result: dict[str, Any] = await run_script("ag_ui/talk.mjs", data)
    return result


async def stored_texts(server: ServerProcess, thread: str = "t") -> list[str]:
    """The texts of a thread's history, as the API has them."""
    async with server.client() as client:
        reply = await client.get(f"/threads/{thread}/messages")
    reply.raise_for_status()
    return [message["text"] for message in reply.json()["messages"] if message["text"]]


async def stored_notes(server: ServerProcess) -> Any:
    """The notes in the state of the thread, as the API has them."""
    async with server.client() as client:
        reply = await client.get("/threads/t/state")
    return reply.json()["state"].get("notes", {})


@pytest.mark.parametrize(
    ("actions", "last_type"),
    [
        ([{"say": "hello"}, {"say": "again"}], "RUN_FINISHED"),
        ([{"say": "weather Oslo"}], "RUN_FINISHED"),
        ([{"say": "break"}], "RUN_FINISHED"),
        ([{"say": "note tea"}, {"say": "note coffee"}], "RUN_FINISHED"),
        ([{"say": "fail"}], "RUN_ERROR"),
        ([{"say": "pay Ann"}, {"answer": {"approved": True}}], "RUN_FINISHED"),
        ([{"say": "pay Ann"}, {"answer": {"approved": False}}, {"say": "weather Rome"}], "RUN_FINISHED"),
        ([{"say": "fail"}, {"say": "weather Oslo"}, {}, {"say": "note tea"}], "RUN_FINISHED"),
    ],
    ids=["text", "tool", "failing tool", "state", "error", "approval", "refusal", "mixture"],
)
async def test_the_client_library_accepts_every_event_and_has_what_the_thread_has(
    server: ServerProcess, actions: list[dict[str, Any]], last_type: str
) -> None:
    result = await talk(server, *actions)
    newcomer = result["newcomer"]
    async with httpx.AsyncClient(base_url=server.url) as http:
        ours = AgUiClient(http=http, headers={"X-Clew-User": "alice"})
        await ours.run()

    assert result["complaints"] == []
    assert result["runs"][-1][-1]["type"] == last_type
    assert result["messages"] == newcomer["messages"] == ours.messages
    assert result["state"] == newcomer["state"] == ours.state
    assert result["state"].get("notes", {}) == await stored_notes(server)
    assert [each["content"] for each in result["messages"] if each["role"] != "tool"] == await stored_texts(
        server
    )


async def test_an_approval_is_an_interrupt_for_the_client_library(server: ServerProcess) -> None:
    result = await talk(server, {"say": "pay Ann"})

    assert [each["reason"] for each in result["interrupts"]] == ["approval"]
    assert result["newcomer"]["interrupts"] == result["interrupts"]


class TestPage:
    """The page of the example, in a browser."""

    @pytest.fixture
    def address(self, server: ServerProcess, site: Site) -> str:
        """The address of the page."""
        shutil.copy(EXAMPLE / "index.html", site.folder)
        bundle(EXAMPLE / "page.js", site.folder / "dist" / "page.js")
        return f"{site.address}/?server={server.url}&thread=t&user=alice"

    async def open(self, window: BrowserContext, address: str) -> Page:
        """Open the page in a tab."""
        page = await window.new_page()
        await page.goto(address)
        await expect(page.locator("#status")).to_have_text("")
        return page

    async def say(self, page: Page, text: str) -> None:
        """Send a message."""
        await page.get_by_label("Message", exact=True).fill(text)
        await page.get_by_role("button", name="Send").click()

    async def shows(self, page: Page, *lines: str) -> None:
        """Expect the page to come to show exactly these messages, and to rest."""
        messages = page.locator("#messages li:not(.call):not(.tool)")
        await expect(messages).to_have_text(list(lines), timeout=30_000)
        await expect(page.locator("#status")).to_have_text("")

    async def test_a_killed_server_loses_and_doubles_nothing(
        self, server: ServerProcess, window: BrowserContext, address: str
    ) -> None:
        page = await self.open(window, address)
        await self.say(page, "hold x")
        await expect(page.locator("#messages li.assistant")).to_have_text(HALF)
        server.kill()
        await expect(page.locator("#status")).to_have_text("Reconnecting …")
        server.release("x")
        await server.start()

        await self.shows(page, "hold x", ANSWER.strip())
        assert await stored_texts(server) == ["hold x", ANSWER]

    async def test_a_reload_in_mid_answer_loses_and_doubles_nothing(
        self, server: ServerProcess, window: BrowserContext, address: str
    ) -> None:
        page = await self.open(window, address)
        await self.say(page, "hold x")
        await expect(page.locator("#messages li.assistant")).to_have_text(HALF)
        await page.reload()
        await expect(page.locator("#messages li.assistant")).to_have_text(HALF)
        server.release("x")

        await self.shows(page, "hold x", ANSWER.strip())
        assert await stored_texts(server) == ["hold x", ANSWER]

    async def test_a_reload_while_the_server_is_dead_loses_and_doubles_nothing(
        self, server: ServerProcess, window: BrowserContext, address: str
    ) -> None:
        page = await self.open(window, address)
        await self.say(page, "hold x")
        await expect(page.locator("#messages li.assistant")).to_have_text(HALF)
        server.kill()
        await page.reload()
        server.release("x")
        await server.start()

        await self.shows(page, "hold x", ANSWER.strip())
        assert await stored_texts(server) == ["hold x", ANSWER]

    async def test_a_message_to_a_dead_server_is_answered_once_it_is_back(
        self, server: ServerProcess, window: BrowserContext, address: str
    ) -> None:
        page = await self.open(window, address)
        server.kill()
        await self.say(page, "hello")
        await expect(page.locator("#status")).to_have_text("Reconnecting …")
        await page.reload()
        await server.start()

        await self.shows(page, "hello", "You said: hello")
        assert await stored_texts(server) == ["hello", "You said: hello"]

    async def test_a_second_tab_shows_the_same(
        self, server: ServerProcess, window: BrowserContext, address: str
    ) -> None:
        first = await self.open(window, address)
        await self.say(first, "hold x")
        await expect(first.locator("#messages li.assistant")).to_have_text(HALF)
        second = await window.new_page()
        await second.goto(address)
        await expect(second.locator("#messages li.assistant")).to_have_text(HALF)
        server.release("x")

        await self.shows(first, "hold x", ANSWER.strip())
        await self.shows(second, "hold x", ANSWER.strip())
        assert await stored_texts(server) == ["hold x", ANSWER]

    async def test_two_tabs_survive_the_death_of_the_server(
        self, server: ServerProcess, window: BrowserContext, address: str
    ) -> None:
        first = await self.open(window, address)
        await self.say(first, "hold x")
        await expect(first.locator("#messages li.assistant")).to_have_text(HALF)
        second = await window.new_page()
        await second.goto(address)
        await expect(second.locator("#messages li.assistant")).to_have_text(HALF)
        server.kill()
        server.release("x")
        await asyncio.sleep(0.2)
        await server.start()

        await self.shows(first, "hold x", ANSWER.strip())
        await self.shows(second, "hold x", ANSWER.strip())
        assert await stored_texts(server) == ["hold x", ANSWER]

    async def test_an_approval_waits_over_a_reload(
        self, server: ServerProcess, window: BrowserContext, address: str
    ) -> None:
        page = await self.open(window, address)
        await self.say(page, "pay Ann")
        await expect(page.get_by_role("button", name="Approve")).to_be_visible()
        await page.reload()
        await page.get_by_role("button", name="Approve").click()

        await self.shows(page, "pay Ann", "Let me see.", "The tool says: Ann has been paid")
