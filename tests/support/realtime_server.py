"""A local stand-in for a realtime provider: it makes secrets as OpenAI's protocol does, and fails as told.

Browsers connect to it as they do to a provider: with a secret, over another origin, by descriptions of their
connections. What answers a description is the test's, so the other end of a call can be in a browser too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

REASONS = {
    200: "OK",
    201: "Created",
    204: "No Content",
    401: "Unauthorized",
    429: "Too Many Requests",
    500: "Internal Server Error",
}
CALLS_PATH = "/v1/realtime/calls"
CORS_HEADERS = [
    "access-control-allow-origin: *",
    "access-control-allow-headers: authorization, content-type",
    "access-control-allow-methods: POST",
]


class RealtimeServer:
    """Answers each request by the next fault, or with a secret; keeps what it was asked.

    ``answer_call`` makes the description of a connection for that of a browser.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.faults: list[int | str] = []
        self.answer_call: Callable[[str], Awaitable[str]] | None = None
        self.call_status = 201
        self._secrets: set[str] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, path = lines[0].split(" ")[:2]
            if path == CALLS_PATH:
                await self._connect(writer, method, headers, body.decode())
                return
            self.requests.append((path, headers, json.loads(body or b"null")))
            await self._respond(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _respond(self, writer: asyncio.StreamWriter) -> None:
        fault = self.faults.pop(0) if self.faults else 200
        if fault == "slow":
            await asyncio.sleep(30)
        if fault == "cut":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
            await writer.drain()
            writer.transport.abort()
            return
        status = fault if isinstance(fault, int) else 200
        number = len(self.requests)
        self._secrets.add(f"ek_{number}")
        answer: Any = {"value": f"ek_{number}", "expires_at": 1_900_000_000, "session": {"type": "realtime"}}
        if status != 200:
            answer = {"error": {"message": "Incorrect API key provided: sk-secret", "code": "no"}}
        content = b"no json" if fault == "nonsense" else json.dumps(answer).encode()
        more = ["content-type: application/json", *(["retry-after: 7"] if status == 429 else [])]
        await _write(writer, status, content, more)

    async def _connect(
        self, writer: asyncio.StreamWriter, method: str, headers: dict[str, str], description: str
    ) -> None:
        """Connect a call: its description is answered, if its secret is one of ours and was not used yet."""
        if method == "OPTIONS":
            await _write(writer, 204, b"", CORS_HEADERS)
            return
        secret = headers.get("authorization", "").removeprefix("bearer ")
        is_known = secret in self._secrets and headers.get("content-type") == "application/sdp"
        self._secrets.discard(secret)
        status = self.call_status if is_known else 401
        answer = await self.answer_call(description) if status == 201 and self.answer_call else ""
        await _write(writer, status, answer.encode(), [*CORS_HEADERS, "content-type: application/sdp"])


async def _write(writer: asyncio.StreamWriter, status: int, content: bytes, headers: list[str]) -> None:
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        f"content-length: {len(content)}",
        "connection: close",
        *headers,
    ]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
    await writer.drain()


@asynccontextmanager
async def realtime_server() -> AsyncIterator[RealtimeServer]:
    """A stand-in on this machine, until the block ends."""
    provider = RealtimeServer()
    server = await asyncio.start_server(provider.answer, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield provider
    finally:
        server.close()
