"""Runs whose process is gone or frozen: closed, resumed, or followed by the next turn at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import clew
from clew.core.errors import InvalidArgument
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.records.runs import KIND, ProcessIdentity, Run, is_gone, run_of, this_process
from clew.runtime.runtime import Runtime
from clew.testing.scripted_model import ScriptedModel


@asynccontextmanager
async def child(url: str, lease: float) -> AsyncIterator[Process]:
    """A process in the middle of a turn: its model was asked and has not answered."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.runtime.maintenance.turn_process",
        url,
        str(lease),
        stdin=PIPE,
        stdout=PIPE,
    )
    try:
        assert await line_of(process) == "asking"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line_of(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def answer(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    await process.stdin.drain()


async def runs(db: Database) -> list[Run]:
    return [run_of(record) for record in await db.records.find(RecordQuery(kind=KIND))]


async def texts(db: Database) -> list[str]:
    return [item.body["content"] for item in await db.thread("a").items()]


async def test_the_next_turn_starts_at_once_after_a_kill(shared_url: str) -> None:
    async with child(shared_url, lease=600) as process:
        process.kill()
        await process.wait()
        async with clew.open(shared_url) as db, Runtime(db, model=ScriptedModel("Here.")) as runtime:
            start = time.monotonic()
            await runtime.run_turn("a", "Are you there?")
            seconds = time.monotonic() - start

            assert await texts(db) == ["Hi from the child", "Are you there?", "Here."]
            assert [run.termination for run in await runs(db)] == ["interrupted", "natural"]
            assert seconds < 5


@pytest.mark.promise("T-17")
async def test_a_run_whose_process_died_is_found_and_closed(shared_url: str) -> None:
    async with child(shared_url, lease=600) as process:
        process.kill()
        await process.wait()
        async with clew.open(shared_url) as db, Runtime(db) as runtime:
            await runtime.sweep()

            assert [(run.status, run.termination) for run in await runs(db)] == [("done", "interrupted")]


@pytest.mark.promise("T-17")
async def test_a_run_that_is_alive_is_left_alone(shared_url: str) -> None:
    async with child(shared_url, lease=600) as process, clew.open(shared_url) as db:
        async with Runtime(db) as runtime:
            await runtime.sweep()
        await answer(process)

        assert await line_of(process) == "natural"
        assert [run.termination for run in await runs(db)] == ["natural"]


@pytest.mark.promise("T-17")
async def test_an_interrupted_run_goes_on_in_another_process(shared_url: str) -> None:
    async with child(shared_url, lease=600) as process:
        process.kill()
        await process.wait()
        async with clew.open(shared_url) as db, Runtime(db, model=ScriptedModel("Resumed.")) as runtime:
            result = await runtime.resume("a")

            assert (result.text, await texts(db)) == ("Resumed.", ["Hi from the child", "Resumed."])
            assert [(run.termination, run.epoch >= 2) for run in await runs(db)] == [("natural", True)]


@pytest.mark.promise("B-01", "T-17")
async def test_a_frozen_process_that_was_taken_over_commits_nothing_when_it_thaws(shared_url: str) -> None:
    async with child(shared_url, lease=0.5) as process:
        os.kill(process.pid, signal.SIGSTOP)
        async with clew.open(shared_url) as db, Runtime(db, model=ScriptedModel("Taken over.")) as runtime:
            await runtime.run_turn("a", "Anyone?")
            version = (await db.thread("a").head()).version
            await answer(process)
            os.kill(process.pid, signal.SIGCONT)
            code = await line_of(process)

            assert code == "lease_lost"
            assert (await db.thread("a").head()).version == version
            assert await texts(db) == ["Hi from the child", "Anyone?", "Taken over."]


async def test_what_is_finished_cannot_be_resumed(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("Hello.")) as runtime:
        await runtime.run_turn("a", "Hi")

        with pytest.raises(InvalidArgument):
            await runtime.resume("a")


def test_this_process_is_not_gone() -> None:
    assert not is_gone(this_process())


def test_a_process_whose_number_was_given_away_is_gone() -> None:
    here = this_process()

    assert is_gone(ProcessIdentity(machine=here.machine, pid=here.pid, started="0"))


def test_a_process_elsewhere_may_be_alive() -> None:
    assert not is_gone(ProcessIdentity(machine="another machine", pid=1, started="0"))
