"""A relay before an HTTP server: it can cut every connection, and may put the server below a prefix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class HttpRelay:
    """Passes bytes to a server and back; ``cut`` breaks off every connection, and later ones pass again.

    With a prefix it lets in only what asks for something below it, and the server never hears of the prefix.
    """

    def __init__(self, address: str, prefix: str = "") -> None:
        self._target = urlsplit(address)
        self._prefix = prefix.encode()
        self._passing: set[asyncio.Task[None]] = set()
        self.address = ""

    async def cut(self) -> int:
        """Break off every connection and return how many there were."""
        connections = list(self._passing)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        return len(connections)

    async def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection through."""
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        try:
            if self._prefix:
                back.write(_head_without(self._prefix, await reader.readuntil(b"\r\n\r\n")))
            await asyncio.gather(_pass_bytes(reader, back), _pass_bytes(there, writer))
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass  # one side has gone, or the connection was cut
        finally:
            writer.transport.abort()
            back.transport.abort()
            self._passing.discard(task)


async def _pass_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError


def _head_without(prefix: bytes, head: bytes) -> bytes:
    """The head of a request that asks for what is below a prefix, and for no more on this connection."""
    line, _, rest = head.partition(b"\r\n")
    method, path, version = line.split(b" ")
    if not path.startswith(prefix + b"/"):
        raise ConnectionRefusedError
    headers = [each for each in rest.split(b"\r\n") if each and not each.lower().startswith(b"connection:")]
    request = b" ".join([method, path.removeprefix(prefix), version])
    return b"\r\n".join([request, *headers, b"Connection: close", b"", b""])


@asynccontextmanager
async def relay_to(address: str, prefix: str = "") -> AsyncIterator[HttpRelay]:
    """A relay to the server at an address; with a prefix, the server is found below it."""
    relay = HttpRelay(address, prefix)
    server = await asyncio.start_server(relay.enter, "127.0.0.1", 0)
    relay.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{prefix}"
    try:
        yield relay
    finally:
        server.close()
        await relay.cut()
