"""Stands before several servers: each connection goes to one that answers, and is cut when that dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """One address for several servers: the first that answers gets a connection; ``in_turn``, each does."""

    def __init__(self, addresses: Sequence[str], *, in_turn: bool = False) -> None:
        self.url = ""
        self.choices: list[str] = []
        """Which server got each connection."""
        self._addresses = list(addresses)
        self._in_turn = in_turn
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
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
        there: asyncio.StreamWriter | None = None
        try:
            back, there = await self._connect()
            ways = [asyncio.create_task(_forward(reader, there)), asyncio.create_task(_forward(back, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except ConnectionError:
            pass  # nobody answers, and the client sees a cut connection
        finally:
            for each in (writer, there):
                if each is not None:
                    each.transport.abort()
            self._tasks.discard(task)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        order = list(self._addresses)
        if self._in_turn:
            self._addresses.append(self._addresses.pop(0))
        for address in order:
            target = urlsplit(address)
            with contextlib.suppress(ConnectionError):
                connection = await asyncio.open_connection(target.hostname, target.port)
                self.choices.append(address)
                return connection
        raise ConnectionError("no server answers")


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
