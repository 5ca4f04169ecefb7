"""OpenAI Agents: our session beside the SDK's own on SQLite, through the SDK's protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from agents.items import TResponseInputItem
from agents.memory import Session as Protocol
from agents.memory import SQLiteSession

from bench.clock import Act, Contestant, Timing, all_at_once, one_by_one
from bench.ground import Ground
from bench.turns import responses, turn
from bench.verdict import Bound, Section, of_latency, of_throughput

LAST = 20
TASKS = 64
WRITE = Bound(what="OpenAI Agents: write a turn, against SQLiteSession", sign="≤", target=0.9)
READ = Bound(what="OpenAI Agents: last 20 items of 5,000 turns, against SQLiteSession", sign="≤", target=0.5)
MANY = Bound(what="OpenAI Agents: 64 sessions at once, turns/s, against SQLiteSession", sign="≥", target=5.0)


async def measure(ground: Ground) -> Section:
    """2,000 turns and 2,000 reads each; then 64 sessions of one file, each in a task of its own."""
    turns = ground.count(5_000, 500)
    writes = await _timings(ground, "write a turn", 1)
    read = await _timings(ground, f"last {LAST} of {turns:,} turns", 1, turns=turns)
    many = await _timings(ground, "64 sessions", TASKS)
    return Section(
        title="OpenAI Agents sessions",
        timings=[*writes, *read, *many],
        verdicts=[
            *of_latency(WRITE, writes, *_names("write a turn")),
            *of_latency(READ, read, *_names(f"last {LAST} of {turns:,} turns")),
            *of_throughput(MANY, many, *_names("64 sessions")),
        ],
    )


def _names(what: str) -> tuple[str, str]:
    return f"Clew Session: {what}", f"SQLiteSession: {what}"


async def _timings(ground: Ground, what: str, sessions: int, *, turns: int = 0) -> list[Timing]:
    folder = ground.folder()
    async with AsyncExitStack() as stack:
        contestants = []
        if ground.with_us:
            handles = await stack.enter_async_context(_ours(folder, sessions))
            contestants.append(await _contestant(handles, _names(what)[0], "public API on sqlite", turns))
        handles = await stack.enter_async_context(_theirs(folder, sessions))
        detail = f"openai-agents {version('openai-agents')}"
        contestants.append(await _contestant(handles, _names(what)[1], detail, turns))
        if sessions > 1:
            pace = ground.pace(rounds=10, block=5 * sessions, warmup=sessions)
            return await all_at_once([(contestant, sessions) for contestant in contestants], pace)
        return await one_by_one(contestants, ground.pace(rounds=40, block=50))


async def _contestant(sessions: list[Protocol], name: str, detail: str, turns: int) -> Contestant:
    """Who writes turns, or reads the last items of a session that was filled before."""
    for number in range(turns):
        await sessions[0].add_items(_items(number))

    def ready(number: int) -> Act:
        if turns:
            return lambda: sessions[0].get_items(LAST)
        session, items = sessions[number % len(sessions)], _items(number)
        return lambda: session.add_items(items)

    return Contestant(name=name, detail=detail, ready=ready)


def _items(number: int) -> list[TResponseInputItem]:
    return cast(list[TResponseInputItem], responses(turn(number)))


@asynccontextmanager
async def _ours(folder: Path, sessions: int) -> AsyncIterator[list[Protocol]]:
    import clew
    from clew.adapters.openai_agents import Session

    async with clew.open(f"sqlite:///{folder / 'ours.db'}") as db:
        yield [cast(Any, Session(f"session-{number}", db)) for number in range(sessions)]


@asynccontextmanager
async def _theirs(folder: Path, sessions: int) -> AsyncIterator[list[Protocol]]:
    handles = [SQLiteSession(f"session-{number}", folder / "theirs.db") for number in range(sessions)]
    try:
        yield list(handles)
    finally:
        for session in handles:
            session.close()
