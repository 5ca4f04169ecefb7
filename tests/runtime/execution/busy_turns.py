"""Turns that keep a thread busy: until they are let go, or, in another process, until it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.connection import Connection

import clew
from clew.runtime.runtime import Runtime

IN_LINE = 4
"""How many turns the other process has in line at any time."""

WORK_SECONDS = 0.02


async def reply(state: clew.Conversation, ctx: clew.Context) -> clew.Delta:
    """Answer at once."""
    return {"history": [clew.Message(role="assistant", content="Yes.")]}


async def reply_slowly(state: clew.Conversation, ctx: clew.Context) -> clew.Delta:
    """Answer after a while, so that the thread is held most of the time."""
    await asyncio.sleep(WORK_SECONDS)
    return await reply(state, ctx)


class Hold:
    """A stage that says when it is first reached, and goes on once it may."""

    def __init__(self) -> None:
        self.arrival = asyncio.Event()
        self.go = asyncio.Event()

    async def stage(self, state: clew.Conversation, ctx: clew.Context) -> clew.Delta:
        """Answer when it may."""
        self.arrival.set()
        await self.go.wait()
        return await reply(state, ctx)

    @staticmethod
    def by_message(
        holds: Mapping[str, Hold],
    ) -> Callable[[clew.Conversation, clew.Context], Awaitable[clew.Delta]]:
        """A stage that is held by what was said."""

        async def stage(state: clew.Conversation, ctx: clew.Context) -> clew.Delta:
            return await holds[state.message].stage(state, ctx)

        return stage


def run_until_signal(url: str, thread: str, pipe: Connection) -> None:
    """Keep a thread busy with a line of turns that never empties, until somebody says that it is enough."""
    asyncio.run(_run_until_signal(url, thread, pipe))


async def _run_until_signal(url: str, thread: str, pipe: Connection) -> None:
    async with clew.open(url) as db:
        runtime = Runtime(db, stages=[reply_slowly])
        is_told = False

        async def run_turns() -> None:
            while not is_told:
                await runtime.run_turn(thread, "mine")

        running = [asyncio.create_task(run_turns()) for _ in range(IN_LINE)]
        await runtime.run_turn(thread, "mine")
        pipe.send("busy")
        is_told = bool(await asyncio.to_thread(pipe.recv))
        await asyncio.gather(*running)
        await runtime.run_turn(thread, "mine")
