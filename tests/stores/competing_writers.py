"""What each of several processes does to one thread at the same time as the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import clew
from clew.core.errors import ThreadExists
from clew.core.values import Committed

THREAD = "contended"


@dataclass(frozen=True, kw_only=True)
class Won:
    """A version that a process was told is its own."""

    writer: str
    text: str
    version: int
    hash: str
    repeated: bool = False


Work = Callable[[clew.Database, str, int], Coroutine[Any, Any, list[Won]]]


def compete(url: str, writer: str, amount: int, work: Work, start: Connection) -> list[Won]:
    """Some work on a database, begun when all are ready, unless opening is part of it."""
    return asyncio.run(_compete(url, writer, amount, work, start))


async def _compete(url: str, writer: str, amount: int, work: Work, start: Connection) -> list[Won]:
    async with clew.open(url) as db:
        _wait_for(start)
        return await work(db, writer, amount)


def open_first(url: str, writer: str, amount: int, work: Work, start: Connection) -> list[Won]:
    """The same, but all open the database at the same moment too."""
    _wait_for(start)
    return asyncio.run(_open_first(url, writer, amount, work))


async def _open_first(url: str, writer: str, amount: int, work: Work) -> list[Won]:
    async with clew.open(url) as db:
        return await work(db, writer, amount)


def _wait_for(start: Connection) -> None:
    start.send("ready")
    start.recv()


async def append_exactly(db: clew.Database, writer: str, amount: int) -> list[Won]:
    """Append at the head, whatever it is, until the thread has so many versions."""
    thread, won = db.thread(THREAD), list[Won]()
    while (head := await thread.head()).version < amount:
        text = f"{writer} at {head.version}"
        try:
            done = await thread.append(
                items=[clew.user(text)], author=writer, expect=clew.Exact(head.version)
            )
        except clew.VersionConflict:
            continue
        won.append(_won(writer, text, done))
    return won


async def append_anywhere(db: clew.Database, writer: str, amount: int) -> list[Won]:
    """Append so many, some at once, each under its key; then the same again, which changes nothing."""
    first = await _append_keyed(db, writer, range(amount))
    again = await _append_keyed(db, writer, range(amount))
    assert [done.version for done in first] == [done.version for done in again]
    return first


async def append_shared(db: clew.Database, writer: str, amount: int) -> list[Won]:
    """Append what all the others append too, under the same keys."""
    return await _append_keyed(db, "everybody", range(amount))


async def _append_keyed(db: clew.Database, writer: str, numbers: Sequence[int]) -> list[Won]:
    won: list[Won] = []
    for start in range(0, len(numbers), 4):
        some = numbers[start : start + 4]
        won += await asyncio.gather(*(_append_one(db, writer, number) for number in some))
    return won


async def _append_one(db: clew.Database, writer: str, number: int) -> Won:
    text = f"{writer} {number}"
    done = await db.thread(THREAD).append(items=[clew.user(text)], author=writer, key=text)
    return _won(writer, text, done)


async def create_and_append(db: clew.Database, writer: str, amount: int) -> list[Won]:
    """Create the thread if nobody has, then append some; the first of all is told by an empty text."""
    won: list[Won] = []
    try:
        await db.create(THREAD)
        won.append(Won(writer=writer, text="", version=0, hash=""))
    except ThreadExists:
        assert (await db.thread(THREAD).head()).version >= 0
    return won + await _append_keyed(db, writer, range(amount))


async def append_absent(db: clew.Database, writer: str, amount: int) -> list[Won]:
    """Create the thread by an append, if nobody has."""
    text = f"{writer} was first"
    try:
        done = await db.thread(THREAD).append(items=[clew.user(text)], author=writer, expect=clew.Absent())
    except ThreadExists:
        return []
    return [_won(writer, text, done)]


def _won(writer: str, text: str, done: Committed) -> Won:
    return Won(writer=writer, text=text, version=done.version, hash=done.hash.hex(), repeated=done.repeated)


def stored_at(url: str) -> list[Won]:
    """Every version that is stored, after the thread was found to be whole."""
    return asyncio.run(_stored_at(url))


async def _stored_at(url: str) -> list[Won]:
    async with clew.open(url) as db:
        thread = db.thread(THREAD)
        verdict = await thread.verify()
        changes = await thread.changesets(limit=100_000)
        assert verdict.problems == ()
        assert [change.version for change in changes] == list(range(1, verdict.version + 1))
        return [_stored(change) for change in changes]


def _stored(change: clew.Changeset) -> Won:
    [item] = change.items
    assert isinstance(item.body, dict)
    return Won(
        writer=str(change.author),
        text=str(item.body["content"]),
        version=change.version,
        hash=change.hash.hex(),
    )
