"""Clew, through its public API alone."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import apsw

import clew
from bench.clock import Act, Contestant
from bench.turns import Turn, turn

NAME = "Clew"


@asynccontextmanager
async def append(url: str, *, name: str = NAME, start: int = 0) -> AsyncIterator[Contestant]:
    """One turn appended to a thread that holds ``start`` turns already."""
    async with clew.open(url) as db:
        thread = db.thread("alice") if start else await db.create("alice", owner="bench")

        def ready(number: int) -> Act:
            exchange = turn(start + number)
            return lambda: _append(thread, exchange)

        yield Contestant(name=name, detail=_detail(url), ready=ready)


@asynccontextmanager
async def many(url: str, *, threads: int) -> AsyncIterator[Contestant]:
    """One turn appended to the thread of its task."""
    async with clew.open(url) as db:
        own = [await db.create(f"t{number}", owner="bench") for number in range(threads)]

        def ready(number: int) -> Act:
            exchange = turn(number)
            return lambda: _append(own[number % threads], exchange)

        yield Contestant(name=NAME, detail=_detail(url), ready=ready)


@asynccontextmanager
async def window(url: str, *, last: int) -> AsyncIterator[Contestant]:
    """The last items of a filled thread."""
    async with clew.open(url) as db:
        thread = db.thread("alice")
        yield Contestant(name=NAME, detail=_detail(url), ready=lambda _: lambda: thread.items(last=last))


@asynccontextmanager
async def past_and_head(url: str, *, versions: int) -> AsyncIterator[tuple[Contestant, Contestant]]:
    """The state at versions drawn from all of them, and the head."""
    chance = random.Random("versions")
    async with clew.open(url) as db:
        thread = db.thread("alice")

        def ready(_: int) -> Act:
            at = chance.randint(0, versions)
            return lambda: thread.state(at=at)

        yield (
            Contestant(name="state_at", detail=f"any of {versions:,} versions", ready=ready),
            Contestant(name="head", detail=_detail(url), ready=lambda _: thread.head),
        )


@asynccontextmanager
async def fork_and_append(
    url: str, *, state_bytes: int, versions: int
) -> AsyncIterator[tuple[Contestant, Contestant]]:
    """A fork at any version of a thread with a large state, and an append to that thread."""
    chance = random.Random("forks")
    async with clew.open(url) as db:
        thread = await db.create("alice", owner="bench")
        await thread.append(patches=[clew.set(["notes"], _notes(state_bytes))])
        for number in range(versions):
            await _append(thread, turn(number))

        def fork(number: int) -> Act:
            at = chance.randint(1, versions)
            return lambda: thread.fork(f"fork-{number}", at=at)

        def append(number: int) -> Act:
            exchange = turn(versions + number)
            return lambda: _append(thread, exchange)

        detail = f"{state_bytes:,} bytes of state, {versions} versions"
        yield (
            Contestant(name="fork", detail=detail, ready=fork),
            Contestant(name="append", detail=detail, ready=append),
        )


async def fill_file(folder: Path, turns: int) -> Path:
    """A closed SQLite file with one thread of so many turns; made once, then copied."""
    master = folder.parent / f"filled-{turns}.db"
    if not master.exists():
        async with clew.open(f"sqlite:///{master}") as db:
            thread = await db.create("alice", owner="bench")
            for number in range(turns):
                await _append(thread, turn(number))
        with closing(apsw.Connection(str(master))) as connection:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return Path(shutil.copy(master, folder / "filled.db"))


async def _append(thread: clew.Thread, exchange: Turn) -> None:
    await thread.append(items=_items(exchange), patches=[clew.set(["mood"], exchange.mood)])


def _items(exchange: Turn) -> list[clew.Item]:
    return [
        clew.user(exchange.question),
        clew.call(exchange.call_id, "search_notes", {"query": exchange.query, "limit": 5}),
        clew.result(exchange.call_id, exchange.result),
        clew.assistant(exchange.answer),
    ]


def _notes(size: int) -> dict[str, str]:
    notes: dict[str, str] = {}
    total = 0
    while total < size:
        notes[f"note-{len(notes)}"] = turn(len(notes)).answer
        total += len(notes[f"note-{len(notes) - 1}"]) + 16
    return notes


def _detail(url: str) -> str:
    return f"public API on {url.partition(':')[0]}, thread hop included"
