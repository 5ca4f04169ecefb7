"""MCP, attacked by another tenant, by another user, and with credentials that do not hold or reach."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from clew.core.encoding import JSON
from tests.server.attacked_server import SECRET, Victim, World, world
from tests.server.protocols.mcp import raw_requests

pytestmark = [
    pytest.mark.security,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.promise("F-10", "B-17"),
]
BAD = (
    "no token",
    "an expired token",
    "a token for somebody else",
    "an unsigned token",
    "a token signed with the public key",
    "a revoked key",
)
MESSAGES: JSON = [{"role": "user", "text": "forged"}]
CALLS: dict[str, tuple[str, dict[str, JSON], dict[str, str]]] = {
    "read her thread": ("read_thread", {"thread": "{v.thread}"}, {"bob": "thread_not_found"}),
    "append to it": ("append", {"thread": "{v.thread}", "messages": MESSAGES}, {"bob": "thread_not_found"}),
    "fork it": ("fork_thread", {"thread": "{v.thread}", "id": "x-{v.number}"}, {"bob": "thread_not_found"}),
    "take its id": ("create_thread", {"id": "{v.thread}"}, {"bob": "thread_exists", "eve": ""}),
    "talk in it": (
        "run_turn",
        {"thread": "{v.thread}", "message": "What did I say?", "mode": "local"},
        {"bob": "thread_not_found", "eve": ""},
    ),
    "talk for her": (
        "run_turn",
        {"thread": "{v.thread}", "message": "What did I say?", "user": "{v.user}"},
        {"bob": "forbidden"},
    ),
    "search": ("search", {"query": SECRET}, {"bob": ""}),
    "search her thread": ("search", {"query": SECRET, "thread": "{v.thread}"}, {"bob": ""}),
    "search for her": ("search", {"query": SECRET, "user": "{v.user}"}, {"bob": "forbidden"}),
    "list threads": ("list_threads", {"limit": 200}, {"bob": ""}),
    "recall": ("recall", {"text": SECRET}, {"bob": ""}),
    "recall for her": ("recall", {"text": SECRET, "user": "{v.user}"}, {"bob": "forbidden"}),
    "list memory": ("list_memory", {}, {"bob": ""}),
    "list hers": ("list_memory", {"user": "{v.user}"}, {"bob": "forbidden"}),
    "the memory of her thread": ("list_memory", {"thread": "{v.thread}"}, {"bob": "invalid_argument"}),
    "remember for her": ("remember", {"object": "lies", "user": "{v.user}"}, {"bob": "forbidden"}),
    "correct hers": ("correct_memory", {"id": "{v.fact}", "object": "lies"}, {"bob": "record_not_found"}),
    "forget hers": ("forget_memory", {"ids": ["{v.fact}"]}, {"bob": "record_not_found"}),
    "confirm it": (
        "forget_memory",
        {"ids": ["{v.fact}"], "confirmed": True, "user": "{v.user}"},
        {"bob": "forbidden"},
    ),
    "undo hers": ("undo_memory", {"user": "{v.user}"}, {"bob": "forbidden"}),
}
"""Calls about alice's by others, and the codes that they get; eve gets what bob gets, unless she is named."""
REQUESTS: dict[str, tuple[str, dict[str, JSON]]] = {
    "read her thread": ("resources/read", {"uri": "clew://threads/{v.thread}"}),
    "read its transcript": ("resources/read", {"uri": "clew://transcripts/{v.thread}"}),
    "look at her run": ("tasks/get", {"taskId": "{v.waiting_run}"}),
    "cancel it": ("tasks/cancel", {"taskId": "{v.waiting_run}"}),
    "approve it": (
        "tasks/update",
        {"taskId": "{v.waiting_run}", "inputResponses": {"c1.1": {"action": "accept"}}},
    ),
}
WRITING = (
    "create_thread",
    "append",
    "fork_thread",
    "remember",
    "correct_memory",
    "forget_memory",
    "run_turn",
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """A running server for all of these tests; each has a victim's things of its own."""
    file: Path = tmp_path_factory.mktemp("mcp-attacks") / "server.db"
    async with world(f"sqlite:///{file}") as new_world:
        yield new_world


@pytest_asyncio.fixture(loop_scope="module")
async def http(server: World) -> AsyncIterator[httpx.AsyncClient]:
    """A way to the server."""
    transport = httpx.ASGITransport(app=server.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://server", timeout=30) as client:
        yield client


def bearer(server: World, who: str) -> dict[str, str]:
    return {"authorization": f"Bearer {server.tokens[who]}"}


def fill(value: Any, victim: Victim) -> Any:
    """A value with what a victim has in it."""
    if isinstance(value, str):
        return value.format(v=victim)
    if isinstance(value, dict):
        return {name: fill(each, victim) for name, each in value.items()}
    return [fill(each, victim) for each in value] if isinstance(value, list) else value


def code_of(result: dict[str, Any]) -> str:
    """The code of an error, or nothing."""
    return str(result["structuredContent"]["code"]) if result.get("isError") else ""


@pytest.mark.parametrize("who", ["bob", "eve"])
@pytest.mark.parametrize("name", CALLS)
async def test_others_reach_nothing_of_hers_by_a_tool(
    server: World, http: httpx.AsyncClient, name: str, who: str
) -> None:
    victim = await server.victim_of("mcp calls")
    tool, arguments, codes = CALLS[name]
    before = await server.belongings(victim)
    response = await raw_requests.send(
        http, "tools/call", {"name": tool, "arguments": fill(arguments, victim)}, bearer(server, who)
    )
    result = response.json()["result"]

    assert SECRET not in response.text
    assert result.get("resultType") == "task" or code_of(result) == codes.get(who, codes["bob"])
    assert await server.belongings(victim) == before


@pytest.mark.parametrize("who", ["bob", "eve"])
@pytest.mark.parametrize("name", REQUESTS)
async def test_others_find_neither_her_threads_nor_her_runs(
    server: World, http: httpx.AsyncClient, name: str, who: str
) -> None:
    victim = await server.victim_of("mcp requests")
    method, params = REQUESTS[name]
    before = await server.belongings(victim)
    response = await raw_requests.send(http, method, fill(params, victim), bearer(server, who))

    assert SECRET not in response.text
    assert response.json()["error"]["data"]["code"] in ("thread_not_found", "record_not_found")
    assert await server.belongings(victim) == before


async def test_the_list_of_resources_is_about_whoever_asks(server: World, http: httpx.AsyncClient) -> None:
    victim = await server.victim_of("mcp requests")
    lists = {
        who: (await raw_requests.send(http, "resources/list", {}, bearer(server, who))).text
        for who in ("alice", "bob", "eve")
    }

    assert [f"threads/{victim.thread}" in lists[who] for who in lists] == [True, False, False]


async def test_a_cursor_of_hers_leads_nobody_else_anywhere(server: World, http: httpx.AsyncClient) -> None:
    victim = await server.victim_of("mcp requests")
    hers = await raw_requests.call(
        http, "read_thread", {"thread": victim.thread, "limit": 1}, bearer(server, "alice")
    )
    cursor = hers["structuredContent"]["next"]
    result = await raw_requests.call(
        http, "read_thread", {"thread": victim.thread, "limit": 1, "cursor": cursor}, bearer(server, "bob")
    )

    assert code_of(result) == "invalid_argument"


@pytest.mark.parametrize("name", BAD)
async def test_bad_credentials_get_nothing(server: World, http: httpx.AsyncClient, name: str) -> None:
    token = server.bad[name]
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    response = await raw_requests.send(http, "tools/list", {}, headers)

    assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")


async def test_a_key_without_the_scope_read_is_refused(server: World, http: httpx.AsyncClient) -> None:
    response = await raw_requests.send(http, "tools/list", {}, bearer(server, "the server's operator"))

    assert (response.status_code, response.json()["code"]) == (403, "forbidden")


async def test_a_key_that_reads_sees_no_tool_that_writes(server: World, http: httpx.AsyncClient) -> None:
    response = await raw_requests.send(http, "tools/list", {}, bearer(server, "alice reading"))
    names = {tool["name"] for tool in response.json()["result"]["tools"]}

    assert names == {"search", "recall", "list_threads", "read_thread", "list_memory"}


@pytest.mark.parametrize("tool", WRITING)
async def test_a_key_that_reads_cannot_write(server: World, http: httpx.AsyncClient, tool: str) -> None:
    victim = await server.victim_of("mcp requests")
    before = await server.belongings(victim)
    arguments = next(fill(args, victim) for name, args, _ in CALLS.values() if name == tool)
    result = await raw_requests.call(http, tool, arguments, bearer(server, "alice reading"))

    assert code_of(result) == "forbidden"
    assert await server.belongings(victim) == before


@pytest.mark.parametrize("method", ["tasks/cancel", "tasks/update"])
async def test_a_key_that_reads_cannot_end_or_approve_a_run(
    server: World, http: httpx.AsyncClient, method: str
) -> None:
    victim = await server.victim_of("mcp requests")
    before = await server.belongings(victim)
    params = {"taskId": victim.waiting_run, "inputResponses": {"c1.1": {"action": "accept"}}}
    response = await raw_requests.send(http, method, params, bearer(server, "alice reading"))

    assert response.json()["error"]["data"]["code"] == "forbidden"
    assert await server.belongings(victim) == before


@pytest.mark.promise("R-16")
async def test_nobodys_thread_has_a_memory_of_its_own(server: World, http: httpx.AsyncClient) -> None:
    victim = await server.victim("acme")
    key = bearer(server, "acme")
    page = await raw_requests.call(http, "read_thread", {"thread": victim.thread}, key)
    memory = await raw_requests.call(http, "list_memory", {"thread": victim.thread}, key)
    nobody = await raw_requests.call(http, "list_memory", {}, key)
    other = await raw_requests.call(http, "read_thread", {"thread": victim.thread}, bearer(server, "globex"))

    assert SECRET in str(page["structuredContent"])
    assert [fact["id"] for fact in memory["structuredContent"]["facts"]] == [victim.fact]
    assert (code_of(nobody), code_of(other)) == ("invalid_argument", "thread_not_found")


HOSTILE_IDS = [
    "",
    "\0",
    "a\nb",
    "x" * 10_000,
    "clew/audit",
    "clew/receipts",
    "$tenant",
    "../../etc",
    "\u202eevil",
]


@pytest.mark.parametrize("id", HOSTILE_IDS)
@pytest.mark.parametrize("tool", ["read_thread", "append", "fork_thread", "list_memory"])
async def test_hostile_ids_are_refused_by_their_codes(
    server: World, http: httpx.AsyncClient, tool: str, id: str
) -> None:
    more: dict[str, JSON] = {"append": {"messages": MESSAGES}, "fork_thread": {"id": "new"}}.get(tool, {})
    result = await raw_requests.call(http, tool, {"thread": id, **more}, bearer(server, "acme"))

    assert code_of(result) in ("invalid_id", "thread_not_found")
