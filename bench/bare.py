"""A client that does no more than HTTP needs, so that what is measured is the server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as it was meant."""
        return json.loads(self.body)


class Line:
    """One connection to a server on this machine, kept open from request to request."""

    def __init__(self, port: int, user: str) -> None:
        self._port = port
        self._user = user
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", *, key: str | None = None) -> Answer:
        """Send a request, perhaps with an idempotency key, and wait for its whole answer."""
        reader = await self.begin(method, path, body, key=key)
        status, headers = await head(reader)
        if status == 204:
            content = b""
        elif "content-length" in headers:
            content = await reader.readexactly(int(headers["content-length"]))
        else:
            content = await _chunks(reader)
        return Answer(status=status, headers=headers, body=content)

    async def begin(
        self, method: str, path: str, body: bytes = b"", *, key: str | None = None
    ) -> asyncio.StreamReader:
        """Send a request; where its answer comes."""
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        key_header = f"Idempotency-Key: {key}\r\n" if key is not None else ""
        self._writer.write(
            f"{method} /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Clew-User: {self._user}\r\n{key_header}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        return self._reader

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.transport.abort()
            self._reader = self._writer = None


async def head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return int(lines[0].split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    data = b""
    while size := int(await reader.readline(), 16):
        data += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return data
