"""MCP requests as they go over the wire, for what no client would send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from clew.core.encoding import JSON
from clew.server.protocols.mcp.tasks import TASKS_EXTENSION

VERSION = "2026-07-28"
NAMES = {"tools/call": "name", "resources/read": "uri"}


def headers_of(method: str, params: Mapping[str, JSON]) -> dict[str, str]:
    """The headers that a request must have beside its body."""
    name = params.get(NAMES.get(method, "taskId"))
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
    }
    return headers if name is None else {**headers, "mcp-name": str(name)}


def body_of(method: str, params: Mapping[str, JSON]) -> dict[str, JSON]:
    """The body of a request, by a client that knows tasks."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS_EXTENSION: {}}},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


async def send(
    http: httpx.AsyncClient, method: str, params: Mapping[str, JSON], headers: Mapping[str, str]
) -> httpx.Response:
    """Send one request."""
    return await http.post(
        "/mcp", json=body_of(method, params), headers={**headers_of(method, params), **headers}
    )


async def call(
    http: httpx.AsyncClient, tool: str, arguments: Mapping[str, JSON], headers: Mapping[str, str]
) -> dict[str, Any]:
    """The result of a tool."""
    response = await send(http, "tools/call", {"name": tool, "arguments": dict(arguments)}, headers)
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()["result"]
    return result
