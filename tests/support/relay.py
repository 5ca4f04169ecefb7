"""Stands between a client and PostgreSQL, and counts the rows and bytes that the server sends."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

HEADER = 5
DATA_ROW = ord("D")


class Relay:
    """Another door to a server, at ``relay.url``, that understands what comes out of it."""

    def __init__(self, url: str) -> None:
        self.rows = 0
        self.size = 0
        self.url = ""
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        account = self._target.netloc.rpartition("@")[0]
        # Encrypted, nothing could be counted; and the answer to that question has no length.
        plain = self._target._replace(
            netloc=f"{account}@127.0.0.1:{port}", query="sslmode=disable&gssencmode=disable"
        )
        self.url = urlunsplit(plain)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        try:
            await asyncio.gather(_forward(reader, back), self._count(there, writer))
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass  # one side has gone, or the relay is closed
        finally:
            writer.close()
            back.close()
            self._tasks.discard(task)

    async def _count(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            header = await reader.readexactly(HEADER)
            body = await reader.readexactly(int.from_bytes(header[1:], "big") - 4)
            if header[0] == DATA_ROW:
                self.rows += 1
                self.size += len(body)
            writer.write(header + body)
            await writer.drain()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    raise asyncio.IncompleteReadError(b"", None)
