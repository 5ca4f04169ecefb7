"""The only way out for git behind its walls: to listed hosts, by addresses that were checked, so many bytes.

A name is looked up here and connected to by the address that was checked, so that it cannot lead elsewhere a
moment later. A redirect is one more connection, and is checked like the first. TLS is between git and the
host; nothing of it is read here.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from clew.core.errors import InvalidArgument, RepositoryFailed
from clew.workbench.repository.settings import RepositorySettings
from clew.workbench.repository.source import IPAddress, RemoteHost, address_of, parse_host

CONNECT: Final = re.compile(rb"CONNECT ([!-~]{1,300}) HTTP/1\.[01]\r\n")
ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
REFUSED: Final = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
LARGEST_HEAD: Final = 8192
CHUNK_BYTES: Final = 65536

Lookup = Callable[[RemoteHost], Awaitable[Sequence[IPAddress]]]


async def look_up(host: RemoteHost) -> Sequence[IPAddress]:
    """The addresses of a host, as this machine finds them."""
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
    addresses = (address_of(str(row[4][0]).partition("%")[0]) for row in rows)
    return [address for address in dict.fromkeys(addresses) if address is not None]


class RepositoryProxy:
    """Connects to what the settings list, for as many bytes as they allow; ``problem`` is the first error."""

    def __init__(self, url: str, settings: RepositorySettings, lookup: Lookup = look_up) -> None:
        self._url = url
        self._settings = settings
        self._lookup = lookup
        self._bytes_left = settings.bytes
        self.problem: RepositoryFailed | None = None
        self.failure = asyncio.Event()
        """Set with the first refusal, after which there is nothing left to wait for."""

    @asynccontextmanager
    async def serve(self, listener: socket.socket) -> AsyncIterator[None]:
        """Accept connections of a listener until the end of the block; then none of them is left."""
        tasks: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                await self._handle_connection(reader, writer)
            finally:
                tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(accept, sock=listener, limit=LARGEST_HEAD)
        try:
            yield
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            try:
                remote = await self._connect(head)
            except RepositoryFailed as error:
                self._refuse(error)
                writer.write(REFUSED)
                await writer.drain()
                return
            writer.write(ESTABLISHED)
            await self._pass_bytes((reader, writer), remote)

    def _refuse(self, error: RepositoryFailed) -> None:
        self.problem = self.problem or error
        self.failure.set()

    async def _connect(self, head: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        match = CONNECT.match(head)
        if match is None:
            raise RepositoryFailed(self._url, "host_not_listed", "it led to an address that is not https")
        try:
            host = parse_host(match[1].decode())
        except InvalidArgument as error:
            raise RepositoryFailed(self._url, "host_not_listed", str(error)) from error
        addresses = await self._addresses(host)
        problem = "it has no address"
        for address in addresses:
            try:
                return await asyncio.open_connection(str(address), host.port)
            except OSError as error:
                problem = error.strerror or str(error)
        raise RepositoryFailed(self._url, "unreachable", f"{host.name} cannot be reached: {problem}")

    async def _addresses(self, host: RemoteHost) -> Sequence[IPAddress]:
        """The addresses of a host, after a check of each: one that is private spoils all."""
        check_host(self._url, host, self._settings)
        try:
            addresses = [host.address] if host.address is not None else await self._lookup(host)
        except OSError as error:
            problem = f"{host.name} cannot be found: {error.strerror or error}"
            raise RepositoryFailed(self._url, "unreachable", problem) from error
        for address in addresses:
            if not self._settings.reaches(address):
                problem = f"{host.name} leads to {address}, which is not public and not listed itself"
                raise RepositoryFailed(self._url, "private_address", problem)
        return addresses

    async def _pass_bytes(
        self,
        local: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        remote: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(local[0], remote[1]))
                group.create_task(self._copy(remote[0], local[1]))
        except* OSError:
            pass
        finally:
            remote[1].close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            self._bytes_left -= len(chunk)
            if self._bytes_left < 0:
                problem = f"it takes more than {self._settings.bytes} bytes to fetch"
                self._refuse(RepositoryFailed(self._url, "too_large", problem))
                return
            writer.write(chunk)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()


def check_host(url: str, host: RemoteHost, settings: RepositorySettings) -> None:
    """Refuse a host that is not listed.

    Raises:
        RepositoryFailed: It is not, or none is.
    """
    if not settings.hosts:
        problem = "no host is listed from which repositories may be fetched"
        raise RepositoryFailed(url, "repositories_off", problem)
    if not settings.lists(host):
        problem = f"{host.name}, port {host.port}, is not among the hosts that are listed"
        raise RepositoryFailed(url, "host_not_listed", problem)
