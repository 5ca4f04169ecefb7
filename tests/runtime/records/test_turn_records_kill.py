"""A process killed while it records something, in a call or incognito: what is there afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

import clew
from clew.core.errors import ThreadNotFound
from clew.runtime.context import MemoryMode
from clew.runtime.records.episodes import active_episode
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.sessions.voice import VoiceCall
from tests.runtime.gated_agent import (
    INCIDENT,
    SAFE,
    WORDS,
    Companion,
    gated_runtime,
    incident_log,
    look_for_danger,
    moody,
)
from tests.support.child_process import ChildProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store that other processes can open."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database").url)
    return f"sqlite:///{tmp_path / 'agent.db'}"


def die_while_the_reply_is_worded(url: str) -> None:
    async def answer(state: Companion, ctx: clew.Context) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def turn() -> None:
        async with clew.open(url) as db, gated_runtime(db, look_for_danger, answer) as runtime:
            await runtime.run_turn("a", "3 help", user="ada")

    asyncio.run(turn())


def die_while_the_row_is_held(url: str) -> None:
    async def turn() -> None:
        async with clew.open(url) as db:
            down, store = moody(db)
            runtime = gated_runtime(down)
            await runtime.run_turn("a", "Hi")
            store.is_down = True
            result = await runtime.run_turn("a", "3 help")
            assert result.output.diagnostics["pending_records"] == 1
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(turn())


def die_in_a_call(url: str) -> None:
    async def call() -> None:
        async with clew.open(url) as db, gated_runtime(db) as runtime:
            call = VoiceCall(name="look", output="found")
            record = TurnRecord(kind=INCIDENT, level=2, keep_days=90)
            await runtime.record_voice_turn(
                "a", text="Hi", reply="Hello.", tool_calls=[call], records=[record]
            )
            await runtime.keep_voice_alive("a", seconds=0.001)
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(call())


def die_incognito(url: str) -> None:
    async def turn() -> None:
        async with clew.open(url) as db, gated_runtime(db) as runtime:
            await runtime.run_turn("kept", "Hi")
            await runtime.run_turn("a", f"3 {WORDS}", mode=MemoryMode.INCOGNITO)
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(turn())


async def run_and_kill(work: object, url: str) -> None:
    """Let a process work until it is killed."""
    assert callable(work)
    child: ChildProcess[None] = ChildProcess(work, url)
    await asyncio.to_thread(child.process.join, 60)
    child.end()
    assert child.process.exitcode == -signal.SIGKILL


@pytest.mark.promise("R-22")
async def test_a_crisis_is_on_record_though_the_reply_was_never_worded(url: str) -> None:
    await run_and_kill(die_while_the_reply_is_worded, url)

    async with clew.open(url) as db, gated_runtime(db) as runtime:
        before = [(row.level, row.thread) for row in await incident_log(db)]
        result = await runtime.resume("a", user="ada")
        rows = await incident_log(db)

    assert (before, [row.level for row in rows]) == ([(3, "a")], [3])
    assert (result.text, result.output.crisis) == (SAFE, 3)


@pytest.mark.promise("R-22")
async def test_a_row_that_was_only_held_is_lost_with_its_process(url: str) -> None:
    """What the how-to says of kill -9 in between: the reply is out, and the log line is what is left."""
    await run_and_kill(die_while_the_row_is_held, url)

    async with clew.open(url) as db:
        assert await incident_log(db) == []
        assert (await db.thread("a").verify()).ok


@pytest.mark.promise("R-21", "R-09")
async def test_a_call_whose_process_was_killed_is_whole_and_ends_as_lost(url: str) -> None:
    await run_and_kill(die_in_a_call, url)

    async with clew.open(url) as db, gated_runtime(db) as runtime:
        items = await runtime.history("a")
        rows = await incident_log(db)
        await runtime.sweep()
        episode = await active_episode(db, "a")

    assert [item.kind for item in items] == ["message", "call", "result", "message"]
    assert ([row.level for row in rows], episode) == ([2], None)


@pytest.mark.promise("R-14")
async def test_nothing_incognito_survives_its_process(url: str, tmp_path: Path) -> None:
    await run_and_kill(die_incognito, url)

    async with clew.open(url) as db:
        assert (await db.thread("kept").head()).version > 0
        assert await incident_log(db) == []
        with pytest.raises(ThreadNotFound):
            await db.thread("a").head()
    assert leaks(tmp_path) == []


def leaks(folder: Path) -> list[str]:
    """The files that hold what was said."""
    return [path.name for path in folder.rglob("*") if path.is_file() and b"Zanzibar" in path.read_bytes()]
