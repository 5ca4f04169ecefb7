"""What each of several processes does to one database full of episodes that nobody touches any more."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import msgspec

import clew
from clew.core.clock import now_ms
from clew.core.values import Item, Record, RecordQuery, Write
from clew.database.database import Database
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.memory import Memory
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, ReplyPart, Usage
from clew.runtime.records.episodes import (
    ACTIVE_EPISODE,
    ENDING,
    EPISODE,
    Episode,
    EpisodeResult,
    Finalize,
    active_episode,
    episode_for_turn,
    episode_write,
)
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.writes import AppendTo, Put

T = TypeVar("T")
LATER_MS = 30 * 60_000
IDLE_MS = 20 * 60_000
ARCS = "arcs"
AT_A_TIME = 50
LONG_LEASE_SECONDS = 120.0
"""Longer than a test: without an expired lease ``finalize`` is called once, however slow the machine is."""
SHORT_LEASE_SECONDS = 1.0
"""The lease of a process that is killed: the others wait for its end."""


def later() -> int:
    """Half an hour from now: what was touched now has expired by then."""
    return now_ms() + LATER_MS


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What befalls a process: a finalize in so many fails, and the nth is the last thing it does."""

    fails_one_in: int = 0
    killed_at: int = 0

    @property
    def lease_seconds(self) -> float:
        """Return for how long the process holds the job of an end."""
        return SHORT_LEASE_SECONDS if self.killed_at else LONG_LEASE_SECONDS


async def begin(url: str, count: int, user: str | None = None) -> list[str]:
    """Threads with one thing said on each, and the episodes that it began."""
    threads = [f"thread {number}" for number in range(count)]
    now = now_ms()
    async with clew.open(url) as db:
        for start in range(0, count, AT_A_TIME):
            writes: list[Write] = []
            for thread in threads[start : start + AT_A_TIME]:
                change = clew.Changeset(items=(clew.user(f"Hello from {thread}"),))
                episode = episode_for_turn(None, thread, user, agent="default", now=now, first=0)
                expect = clew.Absent(owner=user)
                writes += [
                    AppendTo(thread=thread, change=change, expect=expect),
                    episode_write(episode, user),
                ]
            await db.commit(writes)
    return threads


def sweep(url: str, notes: Path, fate: Fate, start: Connection) -> int:
    """Sweep like any runtime, begun when all are ready, until nothing is left; how many ends it made."""
    return asyncio.run(_sweep(url, notes, fate, start))


async def _sweep(url: str, notes: Path, fate: Fate, start: Connection) -> int:
    finalize = _Finalize(notes, fate)
    await _sweep_with(url, finalize, start, fate.lease_seconds)
    return finalize.count


def sum_up(url: str, notes: Path, start: Connection) -> None:
    """Sweep like any runtime that sums episodes up with a model, until nothing is left."""
    asyncio.run(_sweep_with(url, Finalizer(_Summarizer(notes)), start, LONG_LEASE_SECONDS))


class _Summarizer:
    """A model that notes outside of the store what it was asked about."""

    name = "summarizer"

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        with self._notes.open("a", encoding="utf-8") as file:
            file.write(f"{kind.__name__}: {request.messages[0].text}\n")
        await asyncio.sleep(0.02)
        return msgspec.convert({"summary": "talked"}, kind), Usage(calls=1)

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        raise AssertionError("It is asked for typed answers alone.")


async def _sweep_with(url: str, finalize: Finalize, start: Connection, lease_seconds: float) -> None:
    async with clew.open(url) as db:
        start.send("ready")
        start.recv()
        async with Runtime(
            db,
            finalize=finalize,
            config=RuntimeConfig(
                leases=LeaseConfig(sweep_seconds=0.2, seconds=lease_seconds),
                sessions=SessionConfig(finalize_active_sessions_on_close=False),
                clock=later,
            ),
        ):
            while await has_work(db):  # noqa: ASYNC110 - the others tell us through the store alone
                await asyncio.sleep(0.1)


async def has_work(db: Database) -> bool:
    """Whether an episode has expired and is not ended, or its end is not finished."""
    query = RecordQuery(kind=ACTIVE_EPISODE, until=later() - IDLE_MS, limit=1)
    ending = RecordQuery(kind=EPISODE, tags=(ENDING,), limit=1)
    return bool(await db.records.find(query) or await db.records.find(ending))


class _Finalize:
    """Notes outside of the store which episode it is about to finish, and leaves something in each way."""

    def __init__(self, notes: Path, fate: Fate) -> None:
        self.count = 0
        self._chance = random.Random(notes.name)
        self._notes = notes
        self._fate = fate

    async def __call__(self, db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        await asyncio.sleep(0.005)
        if self._fate.fails_one_in and self._chance.randrange(self._fate.fails_one_in) == 0:
            raise RuntimeError("the model is down")
        with self._notes.open("a", encoding="utf-8") as file:
            file.write(f"{of.id}\n")
        self.count += 1
        if self.count == self._fate.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        arc = Item(body={"arc": [message.text for message in transcript]}, log=ARCS)
        change = clew.Changeset(items=(arc,))
        once = Put(record=Record(kind="finished", id=of.id, body=None), expect=0)
        return EpisodeResult(
            episode=msgspec.structs.replace(of, arc={"said": len(transcript)}),
            writes=[AppendTo(thread=of.thread, change=change), once],
        )


def visit(url: str, threads: Sequence[str], start: Connection) -> dict[str, str]:
    """Turns on some threads while others sweep; to which episode each of them belonged."""
    return asyncio.run(_visit(url, threads, start))


async def _visit(url: str, threads: Sequence[str], start: Connection) -> dict[str, str]:
    episodes: dict[str, str] = {}

    async def note(state: clew.State, ctx: clew.Context) -> clew.Delta:
        assert ctx.turn.episode is not None
        episodes[ctx.turn.thread] = ctx.turn.episode.id
        return {"reply": "Still here."}

    async with clew.open(url) as db:
        runtime = Runtime(db, stages=[note], config=RuntimeConfig(clock=later))
        start.send("ready")
        start.recv()
        for thread in threads:
            await runtime.run_turn(thread, "I am still here")
    return episodes


def arcs_of(url: str, user: str) -> int:
    """How many arcs are in the memory of a user."""

    async def count() -> int:
        async with clew.open(url) as db:
            return len((await Memory(db, user).page("arcs", limit=1000)).arcs)

    return asyncio.run(count())


class ThreadEpisodes(msgspec.Struct, frozen=True):
    """What is stored of a thread's episodes: how many were ended, with what, and which is active."""

    ends: list[str]
    finishes: list[str]
    arcs: int
    active: str | None


def episodes_of(url: str, threads: Sequence[str]) -> dict[str, ThreadEpisodes]:
    """What is stored of each thread's episodes."""
    return asyncio.run(_episodes_of(url, threads))


async def _episodes_of(url: str, threads: Sequence[str]) -> dict[str, ThreadEpisodes]:
    async with clew.open(url) as db:
        return {thread: await _thread_episodes(db, thread) for thread in threads}


async def _thread_episodes(db: Database, thread: str) -> ThreadEpisodes:
    rows = await db.records.find(RecordQuery(kind=EPISODE, tags=(f"thread:{thread}",)))
    arcs = await db.thread(thread).items(log=ARCS)
    active = await active_episode(db, thread)
    return ThreadEpisodes(
        ends=[row.id for row in rows if row.body["status"] == "ended" and row.body["arc"]],
        finishes=[row.id for row in rows if (await db.records.get("finished", row.id)).revision == 1],
        arcs=len(arcs),
        active=None if active is None else active.id,
    )
