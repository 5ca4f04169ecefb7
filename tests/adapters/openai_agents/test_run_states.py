"""Runs that wait for an approval: kept, and gone on with, here or in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from agents import RunContextWrapper

import clew
from clew.adapters.openai_agents import Session
from tests.adapters.openai_agents.approval_agent import sender
from tests.adapters.openai_agents.samples import run, texts

ROOT = Path(__file__).parents[3]
WHOLE = ["Send it.", "function_call", "sent", "It is sent."]


async def test_nothing_waits_in_a_new_session(session: Session) -> None:
    assert await session.paused_run.load(sender()) is None


@pytest.mark.promise("S-10", "S-11")
@pytest.mark.parametrize("way", ["whole", "streamed"])
async def test_a_run_goes_on_where_it_was_interrupted(session: Session, db: clew.Database, way: str) -> None:
    result = await run(sender(), "Send it.", session, way=way)
    await session.paused_run.save(result.to_state())

    later, who = Session("alice", db), sender()
    state = await later.paused_run.load(who)
    assert state is not None
    state.approve(state.get_interruptions()[0])
    await run(who, state, later, way=way)
    assert texts(await later.get_items()) == WHOLE


async def test_a_run_that_went_on_is_counted_once(session: Session, db: clew.Database) -> None:
    result = await run(sender(), "Send it.", session)
    await session.paused_run.save(result.to_state())
    later, who = Session("alice", db), sender()
    state = await later.paused_run.load(who)
    assert state is not None
    state.approve(state.get_interruptions()[0])
    await run(who, state, later)

    assert (await session.usage()).requests == 2


async def test_a_refusal_is_part_of_the_history(session: Session) -> None:
    who = sender()
    state = (await run(who, "Send it.", session)).to_state()
    state.reject(state.get_interruptions()[0])
    await run(who, state, session)

    assert texts(await session.get_items())[1] == "function_call"
    assert "sent" not in texts(await session.get_items())


async def test_a_newer_state_takes_the_place_of_the_older(session: Session) -> None:
    for prompt in ("Send it.", "Send it again."):
        await session.paused_run.save((await run(sender(), prompt, session)).to_state())
    state = await session.paused_run.load(sender())

    assert state is not None
    assert "Send it again." in state.to_string()


async def test_a_dropped_run_is_forgotten(session: Session) -> None:
    await session.paused_run.save((await run(sender(), "Send it.", session)).to_state())
    await session.paused_run.drop()

    assert await session.paused_run.load(sender()) is None


async def test_a_run_can_go_on_with_another_context(session: Session) -> None:
    await session.paused_run.save((await run(sender(), "Send it.", session)).to_state())
    state = await session.paused_run.load(sender(), context=RunContextWrapper(context="mine"))

    assert state is not None
    assert state._context is not None
    assert state._context.context == "mine"


@pytest.mark.promise("S-11", "B-10")
async def test_another_process_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with Session("alice", clew.open(url)) as session:
        await session.paused_run.save((await run(sender(), "Send it.", session)).to_state())

    process = subprocess.run(  # noqa: ASYNC221 - nothing else goes on meanwhile
        [sys.executable, "-m", "tests.adapters.openai_agents.approval_process", url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    async with Session("alice", clew.open(url)) as session:
        history, state = texts(await session.get_items()), await session.paused_run.load(sender())
    assert (process.returncode, process.stdout, process.stderr) == (0, "It is sent.\n", "")
    assert (history, state) == (WHOLE, None)
