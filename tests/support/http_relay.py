"""Another door to a server: it can be slammed, which cuts all that passes, and may be below a prefix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Door:
    """Passes bytes to a server and back; ``slam`` cuts whatever passes, and what comes later passes again.

    With a prefix it lets in only what asks for something below it, and the server never hears of the prefix.
    """

    def __init__(self, address: str, prefix: str = "") -> None:
        self._target = urlsplit(address)
        self._prefix = prefix.encode()
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
            if self._prefix:
                back.write(_without(self._prefix, await reader.readuntil(b"\r\n\r\n")))
            await asyncio.gather(_passed(reader, back), _passed(there, writer))
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
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


def _without(prefix: bytes, head: bytes) -> bytes:
    """The head of a request that asks for what is below a prefix, and for no more on this connection."""
    line, _, rest = head.partition(b"\r\n")
    method, path, version = line.split(b" ")
    if not path.startswith(prefix + b"/"):
        raise ConnectionRefusedError
    kept = [each for each in rest.split(b"\r\n") if each and not each.lower().startswith(b"connection:")]
    asked = b" ".join([method, path.removeprefix(prefix), version])
    return b"\r\n".join([asked, *kept, b"Connection: close", b"", b""])


@asynccontextmanager
async def door_to(address: str, prefix: str = "") -> AsyncIterator[Door]:
    """A door to the server at an address; with a prefix, all of it is found below that."""
    door = Door(address, prefix)
    server = await asyncio.start_server(door.enter, "127.0.0.1", 0)
    door.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{prefix}"
    try:
        yield door
    finally:
        server.close()
        await door.slam()
