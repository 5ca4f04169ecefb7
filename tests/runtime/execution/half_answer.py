"""Answers that stop in the middle: a line of a script, and a process that says how its turn ended."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import clew
from clew.runtime.records.events import RunFinished, TextDelta
from clew.runtime.runtime import Runtime
from clew.testing.scripted_model import ScriptedModel


class HalfAnswer:
    """A line of a script that says half an answer, and the rest once it may."""

    def __init__(self, text: str = "Half of ") -> None:
        arrival = _Arrival()
        self.line: list[str | BaseException | asyncio.Event] = [text, arrival, asyncio.Event(), "an answer."]
        self.is_said = arrival.reached


class _Arrival(asyncio.Event):
    """An event that says that it is waited for, and lets pass."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self) -> bool:  # type: ignore[override]  # asyncio says Literal[True]
        self.reached.set()
        return True


def say(word: str) -> None:
    """Tell the parent."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main(url: str, *messages: str) -> None:
    model = ScriptedModel(["Half of ", asyncio.Event(), "an answer."], *["To one in line."] * len(messages))
    async with clew.open(url) as db, Runtime(db, model=model) as runtime, asyncio.TaskGroup() as line:
        async for event in runtime.stream_turn("a", "1"):
            if isinstance(event, TextDelta):
                for message in messages:
                    line.create_task(runtime.run_turn("a", message))
                await asyncio.sleep(0)  # they take their places in line
                say("half")
            elif isinstance(event, RunFinished):
                say(event.termination)


@asynccontextmanager
async def half_an_answer(url: str, *messages: str) -> AsyncIterator[Process]:
    """A process whose model has said half of its answer on thread a, and says no more.

    Turns with some messages wait in line there.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.runtime.execution.half_answer", url, *messages, stdout=PIPE
    )
    try:
        assert await next_line(process) == "half"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def next_line(process: Process) -> str:
    """Return the next line that a process writes."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
