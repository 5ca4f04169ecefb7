"""A companion that listens, guides through an exercise and remembers, with no key and no network."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import clew
from clew.runtime import StageStarted, TextDelta
from clew_companion.agent import companion
from clew_companion.values import STAGE_LABELS


async def say(runtime: clew.Runtime[Any, Any], thread: str, words: str) -> None:
    """One turn, printed as it comes."""
    print(f"\nyou        {words}")
    async for event in runtime.stream_turn(thread, words, user="sam"):
        if isinstance(event, StageStarted) and event.name.endswith(("reply", "exercise", "control")):
            print(f"companion  [{STAGE_LABELS[event.name]}] ", end="")
        elif isinstance(event, TextDelta):
            print(event.text.replace("\n", "\n           "), end="", flush=True)
    print()


async def main(folder: str) -> None:
    url = f"sqlite:///{Path(folder) / 'companion.db'}"
    async with clew.open(url) as db, companion(db) as runtime:
        await say(runtime, "sam-1", "I am so nervous about my exam on Friday.")
        await say(runtime, "sam-1", "Please call me Sam. My sister is called Ann.")
        await say(runtime, "sam-1", "Can we do box breathing?")
        await say(runtime, "sam-1", "How long should I hold my breath?")
        await say(runtime, "sam-1", "stop")

    print("\n-- the program ended, and the session with it; it starts again on a new thread --")

    async with clew.open(url) as db, companion(db) as runtime:
        await say(runtime, "sam-2", "Hello")
        await say(runtime, "sam-2", "What do you remember about me?")
        await say(runtime, "sam-2", "Forget about my sister")
        await say(runtime, "sam-2", "yes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
