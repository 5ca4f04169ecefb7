"""Another door to a server that can be slammed: every connection through it is cut at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Door:
    """Passes bytes to a server and back; ``slam`` cuts whatever passes, and what comes later passes again."""

    def __init__(self, address: str) -> None:
        self._target = urlsplit(address)
        self._passing: set[asyncio.Task[None]] = set()
        self.address = ""

    async def slam(self) -> int:
        """Cut every connection; how many."""
        cut = list(self._passing)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        return len(cut)

    async def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection through."""
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        try:
            await asyncio.gather(_passed(reader, back), _passed(there, writer))
        except (asyncio.CancelledError, ConnectionError):
            pass  # one side has gone, or the door was slammed
        finally:
            writer.transport.abort()
            back.transport.abort()
            self._passing.discard(task)


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError


@asynccontextmanager
async def door_to(address: str) -> AsyncIterator[Door]:
    """A door to the server at an address."""
    door = Door(address)
    server = await asyncio.start_server(door.enter, "127.0.0.1", 0)
    door.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield door
    finally:
        server.close()
        await door.slam()
