"""The Studio behind a proxy that has it below a prefix: everything it names is found there."""

from __future__ import annotations

import httpx
import pytest
from playwright.async_api import expect

from tests.server.studio.conftest import Visitor, ready
from tests.support.http_relay import relay_to

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-11")]
PREFIX = "/agents/clew"


async def test_every_page_works_below_a_prefix(visitor: Visitor) -> None:
    thread = f"a b/{visitor.user}"
    async with (
        relay_to(visitor.studio.address, PREFIX) as relay,
        visitor.studio.client(visitor.user) as client,
    ):
        await client.run_turn(thread, "The tram, please")
        page = await visitor.open(f"{relay.address}/")
        at = [page.url]
        await page.locator(".threads a.title").click()
        await expect(page.get_by_text("Line 28 goes up to the castle")).to_be_visible()
        at.append(page.url)
        await page.reload()
        await expect(page.get_by_text("Line 28 goes up to the castle")).to_be_visible()
        await page.get_by_role("textbox", name="Message").fill("And back?")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("I heard: and back?")).to_be_visible()
        for name in ("Memory", "Sessions", "Search", "System"):
            await page.get_by_role("link", name=name, exact=True).first.click()
            await ready(page)
            await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
            at.append(page.url)
        await page.locator(".brand").click()
        await ready(page)
        at.append(page.url)
        await page.close()  # before the relay, since the list is still told of what changes

    pages = ["", f"/threads/a%20b%2F{visitor.user}", "/memory", "/sessions", "/search", "/system", "/threads"]
    assert at == [f"{relay.address}/studio{each}" for each in pages]


@pytest.mark.parametrize("path", ["/studio", "/studio/", "/studio/threads", "/studio/threads/a%2Fb"])
async def test_the_page_names_all_it_needs_by_the_way_up(visitor: Visitor, path: str) -> None:
    async with httpx.AsyncClient(base_url=visitor.studio.address) as http:
        answer = await http.get(path)
        links = [each.split('"')[1] for each in answer.text.split("href=")[1:] if "studio/" in each[:30]]
        paths = {str(http.build_request("GET", answer.url.join(each)).url.path) for each in links}
        same = await http.get(path, headers={"If-None-Match": answer.headers["etag"]})
        elsewhere = await http.get("/studio/a/b/c", headers={"If-None-Match": answer.headers["etag"]})

    assert "/studio/studio.css" in paths
    assert all(each.startswith("/studio/") for each in paths)
    assert '"/' not in answer.text
    assert (same.status_code, elsewhere.status_code) == (304, 200)
