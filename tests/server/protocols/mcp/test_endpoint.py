"""MCP over HTTP, where the transport ends and the server begins: what is not MCP, too large, or not there."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from clew.server.settings import ServerSettings
from tests.server.conftest import Users, in_memory
from tests.server.protocols.mcp import raw_requests
from tests.support.echo import failing_runtime

pytestmark = pytest.mark.promise("B-17")
HEADERS = raw_requests.headers_of("tools/list", {})
LEGACY = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture
async def users() -> AsyncIterator[Users]:
    """A server whose requests may have a thousand bytes."""
    async with in_memory(settings=ServerSettings(body=1_000)) as users:
        yield users


@pytest.mark.security
@pytest.mark.parametrize("parts", [1, 50], ids=["declared", "in parts"])
async def test_a_body_over_the_limit_is_refused(users: Users, parts: int) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 2_000 + b'"}'
    size = len(body) // parts

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    response = await users.http.post("/mcp", content=body if parts == 1 else chunks(), headers=HEADERS)

    assert (response.status_code, response.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_there_is_no_session_to_open_or_to_end(users: Users, method: str) -> None:
    response = await users.http.request(method, "/mcp", headers=HEADERS)

    assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.mark.security
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b"\xff", b"[" * 900, b'{"jsonrpc": "2.0", "id": 1, "method": 7}'],
    ids=["empty", "cut", "a batch", "a number", "no UTF-8", "deep", "no method"],
)
async def test_what_is_no_request_is_refused(users: Users, body: bytes) -> None:
    for headers in (HEADERS, LEGACY):
        response = await users.http.post("/mcp", content=body, headers=headers)

        assert response.status_code == 400


@pytest.mark.security
async def test_half_of_a_surrogate_pair_is_refused(users: Users) -> None:
    body = raw_requests.body_of("tools/call", {"name": "read_thread", "arguments": {"thread": "?"}})
    text = httpx.Response(200, json=body).text.replace('"?"', '"\\ud800"')
    headers = raw_requests.headers_of("tools/call", {"name": "read_thread"})
    response = await users.http.post("/mcp", content=text, headers=headers)

    assert response.json()["result"]["structuredContent"]["code"] == "invalid_argument"


@pytest.mark.security
async def test_a_form_that_a_page_of_another_site_sends_is_refused(users: Users) -> None:
    headers = {**HEADERS, "content-type": "text/plain"}
    response = await users.http.post("/mcp", json={}, headers=headers)

    assert response.status_code == 400


@pytest.mark.security
async def test_a_page_of_another_site_is_refused_in_dev_mode(users: Users) -> None:
    for more in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
        response = await users.http.post("/mcp", json={}, headers={**HEADERS, **more})

        assert response.status_code == 401


@pytest.mark.security
@pytest.mark.parametrize("headers", [None, LEGACY], ids=["stateless", "former"])
async def test_an_unforeseen_error_says_nothing_of_what_happened(headers: dict[str, str] | None) -> None:
    async with in_memory(make_runtime=failing_runtime(RuntimeError("a secret of ours"))) as users:
        params = {"name": "run_turn", "arguments": {"thread": "t", "message": "Hello"}}
        body = raw_requests.body_of("tools/call", params)
        del body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
        sent = headers or raw_requests.headers_of("tools/call", params)
        response = await users.http.post("/mcp", json=body, headers=sent)

    assert response.status_code == 200
    assert '"isError":true' in response.text.replace(" ", "")
    assert "a secret of ours" not in response.text


async def test_without_the_package_the_route_says_what_to_install(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    response = await raw_requests.send(users.http, "tools/list", {}, {})

    assert response.json()["code"] == "missing_extra"
    assert "pip install '.[mcp]'" in response.json()["detail"]


async def test_a_mismatched_header_of_a_task_is_refused(users: Users) -> None:
    response = await raw_requests.send(users.http, "tasks/get", {"taskId": "one"}, {"mcp-name": "other"})

    assert (response.status_code, response.json()["error"]["code"]) == (400, -32020)


async def test_discovery_names_tools_resources_and_tasks(users: Users) -> None:
    response = await raw_requests.send(users.http, "server/discover", {}, {})
    capabilities: dict[str, Any] = response.json()["result"]["capabilities"]

    assert {"tools", "resources"} <= capabilities.keys()
    assert capabilities["extensions"] == {"io.modelcontextprotocol/tasks": {}}
