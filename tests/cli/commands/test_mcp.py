"""``clew mcp``: a real MCP client starts it, and talks to it over a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import StdioServerParameters
from mcp.client import Client

import clew
from tests.support.suites import ROOT

pytestmark = pytest.mark.promise("B-17")
AGENT = "tests.support.interop.agent:make_runtime"


@asynccontextmanager
async def started(file: Path, *options: str) -> AsyncIterator[Client]:
    """A client that has started the command on a database."""
    command = ["-m", "clew.cli", "mcp", "--db", f"sqlite:///{file}", "--agent", AGENT, *options]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ), cwd=ROOT)
    async with Client(parameters) as client:
        yield client


async def test_a_turn_over_the_pipe_is_in_the_database(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    async with started(file, "--user", "alice") as client:
        turn = await client.call_tool("run_turn", {"thread": "talk", "message": "Hello"})
    async with clew.open(f"sqlite:///{file}") as db:
        head = await db.thread("talk").head()

    assert turn.structured_content["text"] == "You said: Hello"
    assert head.owner == "alice"


async def test_a_client_that_may_only_read_gets_no_tool_that_writes(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    async with clew.open(f"sqlite:///{file}") as db:
        thread = await db.create("talk")
        await thread.append(items=[clew.user("Hello")])
    async with started(file, "--read-only") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        page = await client.call_tool("read_thread", {"thread": "talk"})
        refusal = await client.call_tool(
            "append", {"thread": "talk", "messages": [{"role": "user", "text": "x"}]}
        )

    assert names == {"search", "recall", "list_threads", "read_thread", "list_memory"}
    assert [message["text"] for message in page.structured_content["messages"]] == ["Hello"]
    assert (refusal.is_error, refusal.structured_content["code"]) == (True, "forbidden")


async def test_another_users_thread_is_not_found_over_the_pipe(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    async with clew.open(f"sqlite:///{file}") as db:
        await db.create("diary", owner="alice")
    async with started(file, "--user", "bob") as client:
        result = await client.call_tool("read_thread", {"thread": "diary"})

    assert result.structured_content["code"] == "thread_not_found"
