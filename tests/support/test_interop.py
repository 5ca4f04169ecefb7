"""The means of the interop tests: packages as locked, a server that comes back, pages in a browser."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import BrowserContext

from tests.support.interop.fixtures import Site, server, site, window
from tests.support.interop.node import FOLDER, run_script
from tests.support.interop.server_process import ServerProcess

__all__ = ["server", "site", "window"]


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))

    assert not [name for name, package in lock["packages"].items() if "resolved" in package]


def test_every_package_in_the_lock_has_a_hash() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))

    assert [name for name, package in lock["packages"].items() if "integrity" not in package] == [""]


@pytest.mark.interop
async def test_node_has_the_packages_of_the_lock() -> None:
    wanted = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["dependencies"]

    versions = {name: version.rpartition("@")[2] for name, version in wanted.items()}

    assert await run_script("versions.mjs", list(wanted)) == versions


@pytest.mark.interop
async def test_a_server_that_was_killed_comes_back_with_its_threads(server: ServerProcess) -> None:
    async with server.client() as client:
        turn = await client.post("/threads/t/turns", json={"message": "hello"})
        turn.raise_for_status()
        await server.restart()
        reply = await client.get("/threads/t/messages")

    assert [message["text"] for message in reply.json()["messages"]] == ["hello", "You said: hello"]


@pytest.mark.interop
async def test_a_page_of_the_site_may_ask_the_server(
    server: ServerProcess, site: Site, window: BrowserContext
) -> None:
    (site.folder / "index.html").write_text("<title>A page</title>", encoding="utf-8")
    page = await window.new_page()
    await page.goto(site.address)
    status = await page.evaluate("url => fetch(url).then(reply => reply.status)", f"{server.api}/ready")

    assert status == 200
