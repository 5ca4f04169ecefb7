"""Two processes, one session, 200 races: one event is taken each time, and nothing is lost."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from google.adk.sessions import Session

import clew
from clew.adapters.adk import thread_id_of
from clew.database.verify import Verdict
from tests.adapters.adk.competitors import ours, race
from tests.adapters.adk.contract import ALICE, APP, begin_session, load_session, texts
from tests.support.child_process import ChildProcess, pipe
from tests.support.shared_postgres import PostgresDatabase

pytestmark = [pytest.mark.race, pytest.mark.slow]

ROUNDS = 200
WRITERS = ("ada", "ben")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/agent.db"
    database: PostgresDatabase = request.getfixturevalue("postgres_database")
    return database.url


def run_rounds(lines: list[Connection], rounds: int) -> list[bool]:
    """Let both go at once, round after round; whether they had read the same version each time."""
    same = []
    for _ in range(rounds):
        read = [line.recv() for line in lines]
        same.append(len(set(read)) == 1)
        for answer in ("go", "next"):
            for line in lines:
                line.send(answer)
            if answer == "go":
                assert [line.recv() for line in lines] == ["done", "done"]
    return same


async def begin(url: str) -> None:
    async with ours(url) as service:
        await begin_session(service)


async def outcome(url: str) -> tuple[Session, Verdict]:
    async with ours(url) as service, clew.open(url) as db:
        return await load_session(service), await db.thread(thread_id_of(APP, ALICE, "s1")).verify()


@pytest.mark.promise("B-10", "S-04")
def test_of_two_that_read_the_same_exactly_one_is_taken(url: str) -> None:
    asyncio.run(begin(url))
    lines, processes = [], []
    for writer in WRITERS:
        line, theirs = pipe()
        processes.append(ChildProcess(race, url, writer, ROUNDS, theirs))
        theirs.close()
        lines.append(line)
    same = run_rounds(lines, ROUNDS)
    winners = [process.result() for process in processes]
    for line in lines:
        line.close()
    session, verdict = asyncio.run(outcome(url))
    by_round = [
        sum(f"{writer} {number}" in each for writer, each in zip(WRITERS, winners, strict=True))
        for number in range(ROUNDS)
    ]

    assert (all(same), by_round) == (True, [1] * ROUNDS)
    assert sorted(filter(None, texts(session))) == sorted(winners[0] + winners[1])
    assert session.state == state_of(session)
    assert verdict.ok


def state_of(session: Session) -> dict[str, object]:
    """The state that a session's events lead to."""
    state: dict[str, object] = {}
    for event in session.events:
        state |= event.actions.state_delta
    return state
