"""A process of its own that runs one turn: it says when its model is asked, and answers when told to."""

from __future__ import annotations

import asyncio
import sys

import clew
from clew.core.errors import ClewError
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from clew.testing.scripted_model import ScriptedModel


def say(word: str) -> None:
    """Tell the parent."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main(url: str, lease: float) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )

    async def answer(state: clew.State, ctx: clew.Context) -> clew.Delta:
        say("asking")
        await reader.readline()
        await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=[]))
        return {"history": [clew.Message(role="assistant", content="From the child.")]}

    answer.__name__ = "respond"  # the process that takes over has the stage that a runtime has by itself
    async with (
        clew.open(url) as db,
        Runtime(
            db,
            stages=[answer],
            model=ScriptedModel("ok"),
            config=RuntimeConfig(leases=LeaseConfig(seconds=lease)),
        ) as r,
    ):
        try:
            result = await r.run_turn("a", "Hi from the child")
        except ClewError as error:
            say(error.code)
        else:
            say(result.termination)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
