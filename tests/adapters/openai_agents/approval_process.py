"""Another process: it approves the run that waits in a file, and goes on with it."""

from __future__ import annotations

import asyncio
import sys

from agents import Runner

import clew
from clew.adapters.openai_agents import Session
from tests.adapters.openai_agents.approval_agent import sender
from tests.adapters.openai_agents.samples import QUIET


async def resume(url: str) -> None:
    """Approve, run to the end, forget the run."""
    async with Session("alice", clew.open(url)) as session:
        who = sender()
        state = await session.paused_run.load(who)
        assert state is not None
        for interruption in state.get_interruptions():
            state.approve(interruption)
        result = await Runner.run(who, state, session=session, run_config=QUIET)
        await session.paused_run.drop()
        sys.stdout.write(f"{result.final_output}\n")


if __name__ == "__main__":
    asyncio.run(resume(sys.argv[1]))
