"""A program of a user of the SDK, with nothing that its lowest version lacks: prints what became of it."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
from agents.memory import Session as Protocol
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

import clew
from clew.adapters.openai_agents import Session
from clew.adapters.openai_agents.transfer import transfer_threads
from clew.adapters.source import open_source
from clew.database.transfer import TransferOptions


class ScriptedModel(Model):
    """Gives its answers one after another, and keeps what it was shown."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        """The next answer."""
        self.inputs.append(input)
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=[self.answers.pop(0)], usage=usage, response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> AsyncIterator[Any]:
        """The next answer, all at once."""
        self.inputs.append(input)
        response = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=[self.answers.pop(0)],
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
            usage=ResponseUsage(
                input_tokens=10,
                output_tokens=5,
                total_tokens=15,
                input_tokens_details=InputTokensDetails.model_construct(cached_tokens=0),
                output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
            ),
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


def says(text: str, id: str) -> ResponseOutputMessage:
    """An answer in words."""
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id=id, type="message", role="assistant", content=[part], status="completed")


def calls(name: str, call_id: str) -> ResponseFunctionToolCall:
    """An answer that calls a tool."""
    return ResponseFunctionToolCall(
        id=f"fc_{call_id}", call_id=call_id, type="function_call", name=name, arguments="{}"
    )


@function_tool
def look() -> str:
    """Look for the parcel."""
    return "found it"


@function_tool(needs_approval=True)
def send() -> str:
    """Send the parcel."""
    return "sent"


def agent(*answers: Any) -> Agent[Any]:
    """An agent whose model follows a script."""
    return Agent(name="helper", model=ScriptedModel(*answers), tools=[look, send])


def shorten(history: list[Any], new: list[Any]) -> list[Any]:
    """A callback that shows less of what tools said."""
    short = [{**item, "output": "…"} if "output" in item else item for item in copy.deepcopy(history)]
    return [*short, *new]


def kinds(items: list[Any]) -> list[str]:
    """What each item is."""
    return [item.get("type") or item.get("role") for item in items]


async def play(db: clew.Database) -> dict[str, Any]:
    """All of it, one after another."""
    quiet = RunConfig(tracing_disabled=True)
    session = Session("parcel-7", db)
    first = agent(calls("look", "c1"), says("In Bremen.", "m1"))
    await Runner.run(first, "Where is it?", session=session, run_config=quiet)
    after_run = kinds(await session.get_items())

    streamed = Runner.run_streamed(agent(says("Yes.", "m2")), "Sure?", session=session, run_config=quiet)
    async for _ in streamed.stream_events():
        pass
    with_callback = RunConfig(tracing_disabled=True, session_input_callback=shorten)
    await Runner.run(agent(says("Yes!", "m3")), "Sure?", session=session, run_config=with_callback)
    after_callback = kinds(await session.get_items())
    turns = [(turn.text, turn.usage.requests) for turn in await session.turns()]

    asks = agent(calls("send", "c2"))
    result = await Runner.run(asks, "Send it.", session=session, run_config=quiet)
    await session.paused_run.save(result.to_state())
    answers = agent(says("It is sent.", "m4"))
    state = await session.paused_run.load(answers)
    assert state is not None
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(answers, state, session=session, run_config=quiet)

    theirs = SQLiteSession("old", "theirs.db")
    await theirs.add_items([{"role": "user", "content": "Hello."}])
    theirs.close()
    async with open_source("theirs.db") as source:
        outcomes = [each.outcome async for each in transfer_threads(source, db, TransferOptions())]
    return {
        "version": version("openai-agents"),
        "is_session": isinstance(session, Protocol),
        "after_run": after_run,
        "after_callback": after_callback,
        "turns": turns,
        "after_approval": kinds(await session.get_items(4)),
        "final": result.final_output,
        "popped": kinds([await session.pop_item()]),
        "imported": outcomes,
    }


async def main() -> None:
    """Play it on a file, and print what became of it."""
    async with clew.open("sqlite:///agent.db") as db:
        sys.stdout.write(json.dumps(await play(db)))


if __name__ == "__main__":
    asyncio.run(main())
