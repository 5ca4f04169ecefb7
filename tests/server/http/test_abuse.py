"""Clients that flood, stall, cut and crowd: the server stays polite, and does not grow."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import ThreadNotFound
from clew.runtime.model.protocol import Model
from clew.server.app import Application, create_app
from clew.server.connections import RESERVED_FILES, Connection, connection_limit, raise_file_limit
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from tests.server.conftest import in_memory
from tests.server.local_server import listening
from tests.support.echo import chatting

HEADERS = {"X-Clew-User": "alice"}
FEW_REQUESTS = {"requests": 10**9}
"""The pace of one user is not what is tested here."""


class Impatient(Connection):
    """Waits for nobody."""

    head_seconds = 0.3
    body_seconds = 0.3
    write_seconds = 0.3


@asynccontextmanager
async def live(
    model: Model | None = None, *, http: type[Connection] = Connection, **settings: Any
) -> AsyncIterator[tuple[Application, str]]:
    """A server at a real address."""
    config = ServerSettings(**{**FEW_REQUESTS, **settings})
    async with clew.open("memory://") as db:
        app = create_app(config, db=db, agent=chatting(model, config))
        async with listening(app, http) as address:
            yield app, address


@asynccontextmanager
async def wire(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    target = urlsplit(address)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """All that is heard until the other side has had enough."""
    response = b""
    async with asyncio.timeout(20):
        try:
            while data := await reader.read(65_536):
                response += data
        except ConnectionError:
            pass  # it was cut before all of it was taken
    return response


async def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110  # what is waited for tells nobody
            await asyncio.sleep(0.01)


async def is_well(address: str) -> bool:
    """Whether the server still does what it is there for."""
    async with AsyncClient(address, headers=HEADERS) as client:
        return (await client.run_turn("well", "hi")).termination == "natural"


# Floods.


@pytest.mark.parametrize(
    "flood",
    [b"X-Flood: " + b"x" * 1_000 + b"\r\n", b"x" * 1_000],
    ids=["many headers", "one that never ends"],
)
async def test_a_flood_of_headers_is_refused_before_it_is_kept(flood: bytes) -> None:
    async with live() as (_, address), wire(address) as (reader, writer):
        writer.write(b"GET /api/v1/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nX-First: ")
        hearing = asyncio.create_task(answer(reader))
        size = 0
        while not hearing.done() and size < 50_000_000:
            try:
                writer.write(flood * 64)
                await writer.drain()
            except ConnectionError:
                break
            size += len(flood) * 64
            await asyncio.sleep(0)
        response = await hearing
        well = await is_well(address)

    assert size < 10_000_000
    assert not response or response.startswith(b"HTTP/1.1 431 ")
    assert well


async def test_too_many_headers_at_once_are_refused_with_a_sentence() -> None:
    async with live() as (_, address), wire(address) as (reader, writer):
        lines = b"".join(b"X-%d: %s\r\n" % (number, b"v" * 60) for number in range(1_200))
        writer.write(b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + lines + b"\r\n")
        response = await answer(reader)

    assert response.startswith(b"HTTP/1.1 431 ")
    assert b"application/problem+json" in response
    assert b"fewer or shorter" in response


async def test_what_is_no_request_is_refused_with_a_sentence() -> None:
    async with live() as (_, address), wire(address) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        response = await answer(reader)

    assert response.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"invalid_input"' in response


@pytest.mark.parametrize("length", ["told", "not told"])
async def test_a_giant_body_is_refused_and_not_kept(length: str) -> None:
    chunk = b"x" * 65_536
    size = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal size
        for _ in range(3_200):
            size += len(chunk)
            yield chunk

    length_header = {"Content-Length": str(3_200 * len(chunk))} if length == "told" else {}
    async with live(body=100_000) as (_, address), httpx.AsyncClient() as http:
        headers = {**HEADERS, **length_header, "Content-Type": "application/json"}
        tracemalloc.start()
        try:
            response = await http.post(f"{address}/api/v1/threads/t/turns", content=body(), headers=headers)
            code: str | None = response.json()["code"]
        except httpx.TransportError:
            code = None  # it was cut while we were still sending
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        well = await is_well(address)

    assert code in ("too_large", None)
    assert peak < 20_000_000
    assert well


@pytest.mark.parametrize("path", ["/threads/t/turns", "/threads/t/changesets", "/sessions/t/import"])
async def test_a_body_that_is_nested_too_deeply_is_refused_with_a_sentence(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_memory() as users:
        headers = {**users.headers(), "Content-Type": "application/json"}
        response = await users.http.post(f"/api/v1{path}", content=b'{"a":' + b"[" * 10_000, headers=headers)

    assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    assert response.json()["detail"] == "The request body cannot be read: it is nested too deeply."
    assert not caplog.records


# Stalls.


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"GET /api/v1/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"POST /api/v1/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900\r\n\r\n{",
    ],
    ids=["nothing", "half a head", "half a body"],
)
async def test_a_request_that_does_not_come_is_not_waited_for(beginning: bytes) -> None:
    async with live(http=Impatient) as (_, address), wire(address) as (reader, writer):
        writer.write(beginning)
        response = await answer(reader)

    assert not response or response.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 4"))


async def test_a_head_that_drips_has_no_longer_than_one_that_comes_at_once() -> None:
    async with live(http=Impatient) as (_, address), wire(address) as (reader, writer):
        writer.write(b"GET /api/v1/health HTTP/1.1\r\n")
        hearing = asyncio.create_task(answer(reader))
        drops = 0
        while not hearing.done() and drops < 100:
            writer.write(b"X-A: b\r\n")
            drops += 1
            await asyncio.sleep(0.05)
        response = await hearing

    assert drops < 40
    assert response.startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_comes_slowly_but_steadily_is_taken() -> None:
    body = b'{"message": "slow"}'
    head = b"POST /api/v1/threads/t/turns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += b"X-Clew-User: alice\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with live(http=Impatient) as (_, address), wire(address) as (reader, writer):
        writer.write(head)
        for byte in body:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
        response = await answer(reader)

    assert response.startswith(b"HTTP/1.1 200 ")


async def test_a_reader_who_takes_nothing_is_cut_and_the_turn_ends_well() -> None:
    model = ScriptedModel(["x" * 100_000] * 100)
    async with live(model, http=Impatient) as (app, address):
        serving = app.state.resources
        async with wire(address) as (_, writer):
            body = b'{"message": "talk"}'
            writer.write(
                b"POST /api/v1/threads/t/turns HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Clew-User: alice\r\n"
                b"Content-Type: application/json\r\nAccept: text/event-stream\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            await until(lambda: serving.streams.in_use == 1)
            await until(lambda: serving.streams.in_use == 0)
        async with AsyncClient(address, headers=HEADERS) as client:
            items = (await client.items("t")).items

    assert [item.role for item in items] == ["user", "assistant"]


# Cuts.


@pytest.mark.parametrize("path", ["threads/well/events", "events"])
@pytest.mark.parametrize("after", [0.0, 0.1, 0.4])
async def test_clients_that_leave_a_stream_leave_nothing_behind(after: float, path: str) -> None:
    async with live() as (app, address):
        await is_well(address)
        serving = app.state.resources
        before, most = len(asyncio.all_tasks()), 0
        for _ in range(3):
            leaving = asyncio.gather(*(_leave(address, after, path) for _ in range(30)))
            while not leaving.done():
                most = max(most, serving.streams.in_use)
                await asyncio.sleep(0.01)
        await until(lambda: serving.streams.in_use == 0 and len(asyncio.all_tasks()) <= before + 2)
        well = await is_well(address)

    assert most > 0
    assert well


async def _leave(address: str, after: float, path: str) -> None:
    """Ask for a stream, and go."""
    async with wire(address) as (_, writer):
        writer.write(f"GET /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Clew-User: alice\r\n\r\n".encode())
        await writer.drain()
        await asyncio.sleep(after)


async def test_clients_that_leave_in_a_body_leave_nothing_behind() -> None:
    async with live() as (_, address):
        await is_well(address)
        before = len(asyncio.all_tasks())
        for _ in range(30):
            async with wire(address) as (_, writer):
                writer.write(
                    b"POST /api/v1/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Clew-User: alice\r\n"
                    b"Content-Type: application/json\r\nContent-Length: 900\r\n\r\n{"
                )
                await writer.drain()
        await until(lambda: len(asyncio.all_tasks()) <= before + 2)

        assert await is_well(address)


# Crowds.


async def test_streams_are_opened_up_to_the_limit_and_then_refused_politely() -> None:
    limit, attempts = 150, 250
    pool = httpx.Limits(max_connections=None)
    async with (
        live(streams=limit, user_streams=attempts) as (app, address),
        httpx.AsyncClient(limits=pool, timeout=60) as http,
    ):
        await is_well(address)
        url = f"{address}/api/v1/threads/well/events"
        requests = [http.build_request("GET", url, headers=HEADERS) for _ in range(attempts)]
        answers = await asyncio.gather(*(http.send(request, stream=True) for request in requests))
        refusals = [each for each in answers if each.status_code == 503]
        sentences = [(await each.aread()).decode() for each in refusals[:3]]
        inside = app.state.resources.streams.in_use
        well = await is_well(address)
        await asyncio.gather(*(each.aclose() for each in answers))
        await until(lambda: app.state.resources.streams.in_use == 0)

    assert {each.status_code for each in answers} == {200, 503}
    assert (inside, len(refusals)) == (limit, attempts - limit)
    assert all("open streams" in sentence for sentence in sentences)
    assert all(int(each.headers["retry-after"]) >= 1 for each in refusals)
    assert well


async def test_one_user_cannot_take_every_stream() -> None:
    async with live(streams=5, user_streams=2) as (app, address), httpx.AsyncClient() as http:
        await is_well(address)
        url = f"{address}/api/v1/threads/well/events"
        mine = [await http.send(http.build_request("GET", url, headers=HEADERS), stream=True) for _ in "123"]
        whole = {"X-Clew-User": "*"}
        tenants = [await http.send(http.build_request("GET", url, headers=whole), stream=True) for _ in "123"]
        text = await mine[-1].aread()
        await asyncio.gather(*(each.aclose() for each in (*mine, *tenants)))
        limits = app.state.resources
        await until(lambda: limits.streams.in_use == limits.user_streams.in_use == 0)

    assert [each.status_code for each in mine] == [200, 200, 429]
    assert [each.status_code for each in tenants] == [200, 200, 200]
    assert b"open streams of one user" in text


class Few(Connection):
    """Has room for few."""

    max_connections = 3


async def test_connections_beyond_what_the_process_can_hold_are_refused_politely() -> None:
    head = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    async with live(http=Few) as (_, address), AsyncExitStack() as stack:
        for _ in range(Few.max_connections):
            await stack.enter_async_context(wire(address))
        async with wire(address) as (reader, writer):
            writer.write(head)
            response = await answer(reader)
        await stack.aclose()
        well = await is_well(address)

    assert response.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 5" in response
    assert b'"code":"server_full"' in response
    assert well


def test_a_server_may_open_as_many_files_as_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1_000, hard), hard))
        before = connection_limit()
        raise_file_limit(2_000)
        after = connection_limit()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert (before, after) == (1_000 - RESERVED_FILES, min(2_000, hard) - RESERVED_FILES)


# Growth.

ROUNDS, BLOCK, AT_ONCE = 5, 120, 10
FEW = 40
"""How many paths are asked for: the framework remembers the last thousand."""
PER_ROUND = 100
"""Blocks of memory that may be more in use after a round of 480 requests than after the one before it."""


@pytest.mark.slow
async def test_memory_stays_flat_over_many_requests() -> None:
    async with live() as (_, address), AsyncClient(address, headers=HEADERS) as client:
        await client.run_turn("t", "hi")

        async def one(number: int) -> None:
            await client.thread("t")
            await client.items("t", limit=5)
            await client.create_thread("t2", key="always the same")
            with pytest.raises(ThreadNotFound):
                await client.thread(f"none-{number % FEW}")

        sizes = await _sizes(one)

    growth = [after - before for before, after in pairwise(sizes[2:])]

    assert min(growth) < PER_ROUND, sizes


async def _sizes(one: Callable[[int], Awaitable[None]]) -> list[int]:
    """How much is in use after each of some rounds of requests."""
    sizes = []
    for round in range(ROUNDS):
        for start in range(round * BLOCK, (round + 1) * BLOCK, AT_ONCE):
            await asyncio.gather(*(one(start + number) for number in range(AT_ONCE)))
        gc.collect()
        sizes.append(sys.getallocatedblocks())
    return sizes
