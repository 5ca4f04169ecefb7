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
class Claim:
    """A version that a process was told is its own."""

    writer: str
    text: str
    version: int
    hash: str
    repeated: bool = False


Work = Callable[[clew.Database, str, int], Coroutine[Any, Any, list[Claim]]]


def compete(url: str, writer: str, amount: int, work: Work, start: Connection) -> list[Claim]:
    """Some work on a database, begun when all are ready, unless opening is part of it."""
    return asyncio.run(_compete(url, writer, amount, work, start))


async def _compete(url: str, writer: str, amount: int, work: Work, start: Connection) -> list[Claim]:
    async with clew.open(url) as db:
        _wait_for(start)
        return await work(db, writer, amount)


def open_first(url: str, writer: str, amount: int, work: Work, start: Connection) -> list[Claim]:
    """The same, but all open the database at the same moment too."""
    _wait_for(start)
    return asyncio.run(_open_first(url, writer, amount, work))


async def _open_first(url: str, writer: str, amount: int, work: Work) -> list[Claim]:
    async with clew.open(url) as db:
        return await work(db, writer, amount)


def _wait_for(start: Connection) -> None:
    start.send("ready")
    start.recv()


async def append_exactly(db: clew.Database, writer: str, amount: int) -> list[Claim]:
    """Append at the head, whatever it is, until the thread has so many versions."""
    thread, claims = db.thread(THREAD), list[Claim]()
    while (head := await thread.head()).version < amount:
        text = f"{writer} at {head.version}"
        try:
            commit = await thread.append(
                items=[clew.user(text)], author=writer, expect=clew.Exact(head.version)
            )
        except clew.VersionConflict:
            continue
        claims.append(_claim(writer, text, commit))
    return claims


async def append_anywhere(db: clew.Database, writer: str, amount: int) -> list[Claim]:
    """Append so many, some at once, each under its key; then the same again, which changes nothing."""
    first = await _append_keyed(db, writer, range(amount))
    again = await _append_keyed(db, writer, range(amount))
    assert [commit.version for commit in first] == [commit.version for commit in again]
    return first


async def append_shared(db: clew.Database, writer: str, amount: int) -> list[Claim]:
    """Append what all the others append too, under the same keys."""
    return await _append_keyed(db, "everybody", range(amount))


async def _append_keyed(db: clew.Database, writer: str, numbers: Sequence[int]) -> list[Claim]:
    claims: list[Claim] = []
    for start in range(0, len(numbers), 4):
        some = numbers[start : start + 4]
        claims += await asyncio.gather(*(_append_one(db, writer, number) for number in some))
    return claims


async def _append_one(db: clew.Database, writer: str, number: int) -> Claim:
    text = f"{writer} {number}"
    commit = await db.thread(THREAD).append(items=[clew.user(text)], author=writer, key=text)
    return _claim(writer, text, commit)


async def create_and_append(db: clew.Database, writer: str, amount: int) -> list[Claim]:
    """Create the thread if nobody has, then append some; the first of all is told by an empty text."""
    claims: list[Claim] = []
    try:
        await db.create(THREAD)
        claims.append(Claim(writer=writer, text="", version=0, hash=""))
    except ThreadExists:
        assert (await db.thread(THREAD).head()).version >= 0
    return claims + await _append_keyed(db, writer, range(amount))


async def append_absent(db: clew.Database, writer: str, amount: int) -> list[Claim]:
    """Create the thread by an append, if nobody has."""
    text = f"{writer} was first"
    try:
        commit = await db.thread(THREAD).append(items=[clew.user(text)], author=writer, expect=clew.Absent())
    except ThreadExists:
        return []
    return [_claim(writer, text, commit)]


def _claim(writer: str, text: str, commit: Committed) -> Claim:
    return Claim(
        writer=writer, text=text, version=commit.version, hash=commit.hash.hex(), repeated=commit.repeated
    )


def claims_at(url: str) -> list[Claim]:
    """Every version that is stored, after the thread was found to be whole."""
    return asyncio.run(_claims_at(url))


async def _claims_at(url: str) -> list[Claim]:
    async with clew.open(url) as db:
        thread = db.thread(THREAD)
        verdict = await thread.verify()
        changes = await thread.changesets(limit=100_000)
        assert verdict.problems == ()
        assert [change.version for change in changes] == list(range(1, verdict.version + 1))
        return [_claim_of(change) for change in changes]


def _claim_of(change: clew.Changeset) -> Claim:
    [item] = change.items
    assert isinstance(item.body, dict)
    return Claim(
        writer=str(change.author),
        text=str(item.body["content"]),
        version=change.version,
        hash=change.hash.hex(),
    )
