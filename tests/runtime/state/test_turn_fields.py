"""What is fresh in each turn: stored while a run may have to be resumed, and gone from the state after it."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.core.ops import Set
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.state.call_state import Replay
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.sample_state import Companion, constant_stage

MEMORY = {"working_memory": ["boss", "sleep"]}


async def load(state: Companion, ctx: Context) -> dict[str, Any]:
    """A stage that loads something and asks a model, so that it is made durable."""
    await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=[]))
    return {**MEMORY, "route": "talk"}


async def run_of(db: Database) -> dict[str, Any]:
    return dict((await db.thread("a").state())["$run"])


@pytest.mark.promise("R-06", "A-01")
async def test_what_was_loaded_is_gone_from_the_state_when_the_run_is_over(db: Database) -> None:
    stages = [load, constant_stage(response_text="Here.")]
    result = await Runtime(db, schema=Companion, stages=stages, model=ScriptedModel("ok")).run_turn("a", "Hi")

    assert (result.termination, result.text) == ("natural", "Here.")
    assert "turn" not in await run_of(db)


@pytest.mark.promise("R-06")
async def test_what_was_loaded_is_gone_from_the_state_when_the_run_failed(db: Database) -> None:
    async def fail(state: Companion, ctx: Context) -> None:
        raise RuntimeError("no")

    runtime = Runtime(db, schema=Companion, stages=[load, fail], model=ScriptedModel("ok"))
    with pytest.raises(RuntimeError):
        await runtime.run_turn("a", "Hi")

    assert "turn" not in await run_of(db)


@pytest.mark.promise("T-16", "R-06")
async def test_what_was_loaded_is_there_while_a_run_waits_and_gone_when_it_is_over(db: Database) -> None:
    memories: list[list[str]] = []

    @clew.tool(approval=True)
    async def post(to: str) -> str:
        """Post a letter."""
        return to

    async def look(state: Companion, ctx: Context) -> None:
        memories.append(list(state.working_memory))

    stages = [load, respond(tools=[post], field="response_text"), look]
    model = ScriptedModel("ok", calls(("c1", "post", {"to": "Ann"})), "Done.")
    runtime = Runtime(db, schema=Companion, stages=stages, model=model)
    await runtime.run_turn("a", "Hi")
    waiting = await run_of(db)
    await runtime.resume("a", {"c1": Replay()})

    assert waiting["turn"]["working_memory"] == MEMORY["working_memory"]
    assert (memories, "turn" in await run_of(db)) == ([MEMORY["working_memory"]], False)


async def test_the_log_still_has_what_a_checkpoint_kept(db: Database) -> None:
    stages = [load, constant_stage(response_text="Here.")]
    await Runtime(db, schema=Companion, stages=stages, model=ScriptedModel("ok")).run_turn("a", "Hi")
    values = [
        op.value
        for change in await db.thread("a").changesets()
        for op in change.patches
        if op.path == ("$run", "turn", "working_memory") and isinstance(op, Set)
    ]

    assert values == [MEMORY["working_memory"]]


async def test_a_turn_that_is_over_at_once_stores_nothing_that_is_fresh(db: Database) -> None:
    stages = [constant_stage(**MEMORY), say_reply]
    await Runtime(db, schema=Companion, stages=stages).run_turn("a", "Hi")
    paths = [op.path[:2] for change in await db.thread("a").changesets() for op in change.patches]

    assert ("$run", "turn") not in paths


async def say_reply(state: Companion, ctx: Context) -> dict[str, Any]:
    return {"response_text": "Here."}


async def test_the_state_of_a_turn_is_given_before_what_was_loaded_is_gone(db: Database) -> None:
    states: list[tuple[str, Any]] = []
    config = clew.RuntimeConfig(on_turn_end=lambda thread, state: states.append((thread, state)))
    stages = [constant_stage(working_memory=["Ann"], route="therapeutic")]
    async with Runtime(db, schema=Companion, stages=stages, config=config) as runtime:
        await runtime.run_turn("a", "Hi")

    [(thread, state)] = states
    assert (thread, state.message, state.working_memory, state.route) == ("a", "Hi", ["Ann"], "therapeutic")


async def test_what_raises_at_the_end_of_a_turn_ends_its_run_as_an_error(db: Database) -> None:
    def fail(thread: str, state: Any) -> None:
        raise ZeroDivisionError

    config = clew.RuntimeConfig(on_turn_end=fail)
    async with Runtime(db, schema=Companion, stages=[], config=config) as runtime:
        with pytest.raises(ZeroDivisionError):
            await runtime.run_turn("a", "Hi")

    last = (await db.thread("a").changesets())[-1]
    assert (last.reason, (last.run_meta or {})["termination"]) == ("RunFinished", "error")
