"""A page that another program of this machine shows: it reaches nothing of a server in dev mode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.server.studio.conftest import Windows
from tests.server.studio.studio_server import Studio

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("F-09")]

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>Hello.</p>"
ATTACK = """
async ([server, id]) => {
  const url = `${server}/api/v1/threads`;
  const body = JSON.stringify({ id });
  const tried = [];
  for (const type of ["text/plain", "application/x-www-form-urlencoded", ""]) {
    const answer = await fetch(url, { method: "POST", mode: "no-cors", body: new Blob([body], { type }) });
    tried.push(answer.type);
  }
  tried.push(await fetch(url, { method: "POST", body, headers: { "Content-Type": "application/json" } })
    .then(() => "read", () => "refused"));
  tried.push(await new Promise((resolve) => {
    const socket = new WebSocket(`${server.replace("http", "ws")}/api/v1/ws`);
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  }));
  return tried;
}
"""
"""Tries to make a thread in every way that needs no leave, then in the one that does, then opens a socket."""


@asynccontextmanager
async def page_server() -> AsyncIterator[str]:
    """A program that shows a page, on a port of its own; its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_page_of_another_port_makes_nothing_and_opens_nothing(
    windows: Windows, studio: Studio, user: str
) -> None:
    id = f"planted-by-{user}"
    async with page_server() as address:
        page = await (await windows.at(address)).new_page()
        await page.goto("/")
        results = await page.evaluate(ATTACK, [studio.address, id])
        await page.close()
    async with studio.client("*") as client:
        threads = {thread.id for thread in (await client.threads()).threads}

    assert results == ["opaque", "opaque", "opaque", "refused", "refused"]
    assert id not in threads
