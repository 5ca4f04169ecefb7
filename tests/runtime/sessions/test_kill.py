"""A session whose process was killed: what it held is back, and it can be ended or continued at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.runtime.records.episodes import Episode, active_episode, job_id
from tests.runtime.sessions.killed_sessions import THREAD, end, runtime_of, talk, until_its_lease_is_over
from tests.support.child_process import ChildProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow]

AT_ONCE = 10.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store that other processes can open."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database").url)
    return f"sqlite:///{tmp_path / 'agent.db'}"


async def run_and_kill(work: Callable[..., None], *args: str) -> None:
    """Some work in a process that is killed in it."""
    process = ChildProcess(work, *args)
    await asyncio.to_thread(process.process.join, 60)
    process.end()
    assert process.process.exitcode == -signal.SIGKILL, f"it ended with {process.process.exitcode}"


async def active_of(db: clew.Database) -> Episode:
    """The session that the thread is in."""
    active = await active_episode(db, THREAD)
    assert active is not None
    return active


CANDIDATES = ({"said": "2 sad"}, {"said": "1 better"})


@pytest.mark.promise("R-20")
async def test_what_a_killed_process_held_is_back(url: str) -> None:
    await run_and_kill(talk, url, "2 sad", "1 better")
    async with clew.open(url) as db:
        active = await active_of(db)
        first = (await db.thread(THREAD).items(first=1))[0]

        assert (active.candidates, active.level, active.first, active.turns) == (
            CANDIDATES,
            2,
            first.place,
            2,
        )


@pytest.mark.promise("R-20")
async def test_what_a_turn_noticed_before_it_was_killed_is_back_too(url: str) -> None:
    await run_and_kill(talk, url, "2 sad", "3 die")
    async with clew.open(url) as db:
        active = await active_of(db)

        assert (active.candidates, active.level) == (({"said": "2 sad"}, {"said": "3 die"}), 3)


@pytest.mark.promise("R-20", "T-17")
async def test_a_session_killed_in_a_turn_is_continued_at_once_and_holds_nothing_twice(url: str) -> None:
    await run_and_kill(talk, url, "2 sad", "3 die")
    async with clew.open(url) as db, asyncio.timeout(AT_ONCE):
        before = await active_of(db)
        runtime = runtime_of(db)
        result = await runtime.resume(THREAD)
        await runtime.run_turn(THREAD, "1 better")
        active = await active_of(db)

        assert (result.trace, active.id, active.turns) == (("answer",), before.id, 3)
        assert [one["said"] for one in active.candidates] == ["2 sad", "3 die", "1 better"]


@pytest.mark.promise("R-20")
@pytest.mark.parametrize("last", ["1 better", "3 die"])
async def test_a_session_whose_process_was_killed_is_ended_at_once(url: str, last: str) -> None:
    await run_and_kill(talk, url, "2 sad", last)
    async with clew.open(url) as db, asyncio.timeout(AT_ONCE):
        episode = await runtime_of(db).end_session(THREAD)

        assert episode is not None
        assert (episode.status, episode.arc["held"]) == ("ended", [{"said": "2 sad"}, {"said": last}])


@pytest.mark.promise("R-12", "R-20", "R-08")
async def test_an_end_whose_process_was_killed_is_made_by_another_with_all_that_was_held(url: str) -> None:
    await run_and_kill(talk, url, "2 sad", "1 better")
    async with clew.open(url) as db:
        of = await active_of(db)
        await run_and_kill(end, url)
        status = await runtime_of(db).session_status(THREAD)
        await until_its_lease_is_over(db, job_id(of.id))
        await runtime_of(db).sweep()
        over = await runtime_of(db).session_status(THREAD)

        assert (status.status, [end.job for end in status.unfinished]) == ("ending", ["running"])
        assert over.episode is not None
        assert (over.status, over.episode.id, over.episode.feedback) == ("ended", of.id, "positive")
        assert over.episode.arc == {
            "held": list(CANDIDATES),
            "said": ["2 sad", "Noted.", "1 better", "Noted."],
        }
