"""An agent for front ends under test: its model does what the message asks, and can be held in mid-answer.

``python -m clew.cli serve --agent tests.support.interop.agent:make_runtime``. A message is a line of words,
the first of which says what is answered:

- ``weather CITY``: a tool is called, whose result the answer repeats;
- ``break``: a tool is called that fails;
- ``pay NAME``: a tool is called that waits for a person;
- ``note TEXT``: a tool is called that changes the state;
- ``fail``: the model itself fails;
- ``hold NAME``: half of the answer, and the rest once the file NAME is in the folder that HOLD_FOLDER names;
- anything else is repeated.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, TypeVar

import clew
from clew.core.encoding import JSON
from clew.core.errors import ModelFailed
from clew.runtime import Effect
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, ToolCall, Usage
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from clew.runtime.tools.tool import ToolOutcome

T = TypeVar("T")
HOLD_FOLDER = "CLEW_TEST_HOLD_FOLDER"
WORDS = tuple(f"word{number} " for number in range(12))
"""The words of an answer that is held after the sixth."""
POLL_SECONDS = 0.02
TOOLS = {"weather": "city", "break": None, "pay": "name", "note": "text"}
"""The tools by the word that calls them, and the argument that the rest of the message is."""


class InteropState(clew.State):
    """The state of a thread: what was said, and what was noted."""

    message: Annotated[str, clew.input]
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    notes: Annotated[dict[str, bool], clew.merge]
    reply: str = ""


@clew.tool(effect=Effect.NONE)
async def weather(city: str) -> dict[str, str]:
    """Say what the weather is like."""
    return {"city": city, "sky": "clear"}


@clew.tool(name="break", effect=Effect.NONE)
async def fail_always() -> str:
    """Fail, whatever is asked."""
    raise ValueError("It broke.")


@clew.tool(approval=True)
async def pay(name: str) -> str:
    """Send money, once a person has agreed."""
    return f"{name} has been paid"


@clew.tool(effect=Effect.NONE)
async def note(text: str) -> ToolOutcome:
    """Note something for later turns."""
    return ToolOutcome(output="noted", delta={"notes": {text: True}})


class ObedientModel:
    """A model that does what the last message asks."""

    name = "obedient"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The answer, in pieces."""
        last = request.messages[-1]
        if last.kind == "result":
            text = f"The tool says: {last.content}"
        else:
            word, _, rest = last.text.partition(" ")
            if word == "fail":
                raise ModelFailed(model=self.name, problem="it was told to")
            if word == "hold":
                async for chunk in _held_words(rest):
                    yield chunk
                yield Reply(text="".join(WORDS))
                return
            if word in TOOLS:
                yield TextChunk("Let me see.")
                yield Reply(text="Let me see.", calls=(_tool_call(request, word, rest),))
                return
            text = f"You said: {last.text}"
        for piece in text.splitlines(keepends=True):
            yield TextChunk(piece)
        yield Reply(text=text)

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing: it can fill no form."""
        raise ModelFailed(model=self.name, problem="it gives no typed answers")


def _tool_call(request: ModelRequest, tool: str, rest: str) -> ToolCall:
    """A call of a tool with the rest of a message, under an id that no other call of the thread has."""
    argument = TOOLS[tool]
    arguments: dict[str, JSON] = {} if argument is None else {argument: rest}
    return ToolCall(id=f"call-{len(request.messages)}", name=tool, arguments=arguments)


async def _held_words(name: str) -> AsyncIterator[TextChunk]:
    """Half of the words, and the others once a file of that name is there."""
    for word in WORDS[:6]:
        yield TextChunk(word)
    path = Path(os.environ[HOLD_FOLDER]) / name
    while not path.exists():  # noqa: ASYNC110  # the test is another process
        await asyncio.sleep(POLL_SECONDS)
    for word in WORDS[6:]:
        yield TextChunk(word)


def make_runtime(db: clew.Database) -> clew.Runtime[InteropState]:
    """A runtime of the agent, which sweeps often, so that a turn goes on soon after a crash."""
    return clew.Runtime(
        db,
        schema=InteropState,
        model=ObedientModel(),
        tools=[weather, fail_always, pay, note],
        config=RuntimeConfig(leases=LeaseConfig(seconds=60, sweep_seconds=0.5)),
    )
