"""A task whose server is killed in mid-answer: the same task goes on, in another process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.protocols.mcp.clients import connect
from tests.support.interop.agent import WORDS
from tests.support.interop.server_process import ServerProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.promise("B-17")]
ALICE = {"X-Clew-User": "alice"}


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    """A server of its own."""
    server = ServerProcess(tmp_path)
    await server.start()
    yield server
    server.kill()


async def test_a_task_survives_kill_9_by_its_key(process: ServerProcess) -> None:
    async with connect(process.url, ALICE, tasks=True) as peer:
        created = await peer.start(thread="talk", message="hold x", key="k1")
    process.kill()
    await process.start()
    async with connect(process.url, ALICE, tasks=True) as peer:
        failed = await peer.settle(created["taskId"], "failed")
        again = await peer.start(thread="talk", message="hold x", key="k1")
        process.release("x")
        task = await peer.settle(again["taskId"], "completed")
        page = await peer.call("read_thread", thread="talk")

    assert "with the same arguments and key" in failed["error"]["message"]
    assert again["taskId"] == created["taskId"]
    assert task["result"]["structuredContent"]["text"] == "".join(WORDS)
    assert [message["text"] for message in page["messages"]] == ["hold x", "".join(WORDS)]
