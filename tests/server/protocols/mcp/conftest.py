"""A server on each store, for MCP clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.server.protocols.mcp.clients import McpPeer, McpServer, serve
from tests.support.interop.agent import HOLD_FOLDER


@pytest.fixture
async def server(
    db: clew.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[McpServer]:
    """A server with the agent that does what it is told."""
    monkeypatch.setenv(HOLD_FOLDER, str(tmp_path))
    async with serve(db) as server:
        yield server


@pytest.fixture
async def alice(server: McpServer) -> AsyncIterator[McpPeer]:
    """A client of one user, which lives in a task of its own: a fixture begins and ends in two."""
    connected: asyncio.Future[McpPeer] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def live() -> None:
        async with server.peer("alice") as peer:
            connected.set_result(peer)
            await over.wait()

    task = asyncio.create_task(live())
    either: list[asyncio.Future[Any]] = [task, connected]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    yield connected.result()
    over.set()
    await task
