"""A local stand-in for a realtime provider: it makes secrets as OpenAI's protocol does, and fails as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

REASONS = {200: "OK", 401: "Unauthorized", 429: "Too Many Requests", 500: "Internal Server Error"}


class RealtimeServer:
    """Answers each request by the next fault, or with a secret; keeps what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.faults: list[int | str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append((lines[0].split(" ")[1], headers, json.loads(body or b"null")))
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
        answer: Any = {"value": f"ek_{number}", "expires_at": 1_900_000_000, "session": {"type": "realtime"}}
        if status != 200:
            answer = {"error": {"message": "Incorrect API key provided: sk-secret", "code": "no"}}
        content = b"no json" if fault == "nonsense" else json.dumps(answer).encode()
        lines = [
            f"HTTP/1.1 {status} {REASONS[status]}",
            f"content-length: {len(content)}",
            "content-type: application/json",
            "connection: close",
            *(["retry-after: 7"] if status == 429 else []),
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
