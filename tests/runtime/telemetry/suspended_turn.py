"""A turn in a process of its own that waits for an approval; it prints the trace and the span of the turn."""

from __future__ import annotations

import asyncio
import sys

import clew
from clew.database.database import Database
from clew.runtime.model.protocol import Reply
from clew.runtime.runtime import Runtime
from clew.runtime.state.schema import Conversation
from clew.runtime.tools.tool import tool
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.telemetry.recorded_spans import record_spans

THREAD = "waiting"


@tool(approval=True)
async def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def gated_runtime(db: Database, *script: str | Reply) -> Runtime[Conversation, None]:
    """A runtime whose only tool needs an approval."""
    return Runtime(db, model=ScriptedModel(*script), tools=[send])


async def main(url: str) -> None:
    """Run the turn until it waits."""
    with record_spans() as spans:
        letter = calls(("c1", "send", {"to": "Ann"}))
        async with clew.open(url) as db, gated_runtime(db, letter) as runtime:
            await runtime.run_turn(THREAD, "Write to Ann.")
        context = spans.span("invoke_agent default").context
    sys.stdout.write(f"{context.trace_id:032x} {context.span_id:016x}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
