"""The floor: the bare drivers storing and reading the same rows, with nothing around them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from importlib.metadata import version
from pathlib import Path

import apsw
import msgspec
import psycopg
from psycopg_pool import AsyncConnectionPool

from bench.clock import Act, Contestant
from bench.turns import plain, turn

SQLITE_TABLE = """
    CREATE TABLE item (thread TEXT, seq INTEGER, body BLOB, PRIMARY KEY (thread, seq)) STRICT, WITHOUT ROWID
"""
POSTGRES_TABLE = "CREATE TABLE item (thread text, seq bigint, body bytea, PRIMARY KEY (thread, seq))"
INSERT = "INSERT INTO item (thread, seq, body) VALUES (?, ?, ?)"
INSERT_FOUR = """
    INSERT INTO item (thread, seq, body) VALUES (%s, %s, %s), (%s, %s, %s), (%s, %s, %s), (%s, %s, %s)
"""
LAST = "SELECT body FROM item WHERE thread = ? ORDER BY seq DESC LIMIT ?"

Row = tuple[str, int, bytes]


@contextmanager
def sqlite_append(folder: Path) -> Iterator[Contestant]:
    """Synchronous apsw: four rows, one FULL commit in WAL, no thread hop."""
    seq = itertools.count()
    with closing(_sqlite(folder / "raw.db")) as connection:

        def ready(number: int) -> Act:
            items = plain(turn(number))

            async def act() -> None:
                _commit(connection, [("alice", next(seq), msgspec.json.encode(item)) for item in items])

            return act

        yield Contestant(name="raw apsw", detail=_sqlite_detail(connection), ready=ready)


@contextmanager
def sqlite_commits(folder: Path, count: int) -> Iterator[Contestant]:
    """Synchronous apsw: so many FULL commits, of a question, an answer and a mark."""
    seq = itertools.count()
    with closing(_sqlite(folder / "commits.db")) as connection:

        def ready(number: int) -> Act:
            exchange = turn(number)
            bodies = [
                msgspec.json.encode(body) for body in (exchange.question, exchange.answer, {"status": "done"})
            ]

            async def act() -> None:
                for index in range(count):
                    _commit(connection, [("alice", next(seq), bodies[index % len(bodies)])])

            return act

        yield Contestant(name="raw apsw", detail=_sqlite_detail(connection), ready=ready)


@contextmanager
def sqlite_window(folder: Path, *, turns: int, last: int) -> Iterator[Contestant]:
    """The last items by SELECT and decode, behind one executor hop."""
    with closing(_sqlite(folder / "window.db")) as connection, ThreadPoolExecutor(1) as executor:
        _fill(connection, turns)
        loop = asyncio.get_running_loop()

        def read() -> list[object]:
            rows = connection.execute(LAST, ("alice", last)).fetchall()
            return [msgspec.json.decode(body) for (body,) in reversed(rows)]

        async def act() -> None:
            await loop.run_in_executor(executor, read)

        detail = f"SELECT and decode, thread hop included, apsw {apsw.apsw_version()}"
        yield Contestant(name="raw apsw read", detail=detail, ready=lambda _: act)


@contextmanager
def hop() -> Iterator[Contestant]:
    """From the event loop to a thread and back, with nothing done there."""
    with ThreadPoolExecutor(1) as executor:
        loop = asyncio.get_running_loop()

        async def act() -> None:
            await loop.run_in_executor(executor, int)

        yield Contestant(name="bare hop", detail="run_in_executor of nothing", ready=lambda _: act)


@asynccontextmanager
async def postgres_append(url: str) -> AsyncIterator[Contestant]:
    """Async psycopg: one INSERT of four rows, committed by the same round trip."""
    seq = itertools.count()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(POSTGRES_TABLE)

        def ready(number: int) -> Act:
            items = plain(turn(number))

            async def act() -> None:
                await connection.execute(INSERT_FOUR, _parameters("alice", seq, items))

            return act

        yield Contestant(name="raw psycopg", detail=await postgres_detail(url), ready=ready)


@asynccontextmanager
async def postgres_many(url: str, *, threads: int, pool_size: int) -> AsyncIterator[Contestant]:
    """The same insert by many tasks, each on a thread of its own, over one pool."""
    seq = itertools.count()
    options = {"autocommit": True}
    async with AsyncConnectionPool(url, min_size=pool_size, max_size=pool_size, kwargs=options) as pool:
        await pool.wait()
        async with pool.connection() as connection:
            await connection.execute(POSTGRES_TABLE)

        def ready(number: int) -> Act:
            items = plain(turn(number))

            async def act() -> None:
                async with pool.connection() as connection:
                    await connection.execute(INSERT_FOUR, _parameters(f"t{number % threads}", seq, items))

            return act

        detail = f"{await postgres_detail(url)}, pool of {pool_size}"
        yield Contestant(name="raw psycopg", detail=detail, ready=ready)


async def postgres_detail(url: str) -> str:
    """Driver, server and how durable its commits are."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        settings = []
        for name in ("server_version", "fsync", "synchronous_commit"):
            cursor = await connection.execute("SELECT current_setting(%s)", (name,))
            row = await cursor.fetchone()
            assert row is not None
            settings.append(str(row[0]))
    return "psycopg {}, server {}, fsync={}, synchronous_commit={}".format(version("psycopg"), *settings)


def _sqlite(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(SQLITE_TABLE)
    return connection


def _sqlite_detail(connection: apsw.Connection) -> str:
    journal = str(connection.pragma("journal_mode")).upper()
    level = {1: "NORMAL", 2: "FULL"}[int(str(connection.pragma("synchronous")))]
    return f"apsw {apsw.apsw_version()}, journal_mode={journal}, synchronous={level}"


def _commit(connection: apsw.Connection, rows: list[Row]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, rows)
    connection.execute("COMMIT")


def _fill(connection: apsw.Connection, turns: int) -> None:
    bodies = (msgspec.json.encode(item) for number in range(turns) for item in plain(turn(number)))
    _commit(connection, [("alice", seq, body) for seq, body in enumerate(bodies)])


def _parameters(thread: str, seq: Iterator[int], items: list[dict[str, object]]) -> list[str | int | bytes]:
    return [value for item in items for value in (thread, next(seq), msgspec.json.encode(item))]
