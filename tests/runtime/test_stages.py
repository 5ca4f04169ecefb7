"""Stages by their names: a run goes on at the stage it stopped at, also if the list has changed since."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest

import clew
from clew.core.errors import SchemaInvalid, StageGone
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.stateless import run_agent
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.respond.respond import Stage, respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import Replay
from clew.runtime.turn.result import TurnResult
from clew.testing.clock import Clock
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.sample_state import Companion, constant_stage, count, crash, crash_turn, rename_stage

LATER = 60_000


async def think(state: Companion, ctx: Context) -> dict[str, Any]:
    """A stage whose end is durable, since it asks a model."""
    reply = await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=[]))
    return {"session_memory": {"thought": reply.text}}


note = rename_stage("note", constant_stage(route="talk"))
reply = rename_stage("reply", constant_stage(response_text="Here I am."))
stop = rename_stage("reply", crash)


async def stop_turn(db: Database, clock: Clock, stages: Sequence[Stage]) -> str:
    """A thread whose run died at a stage; the run."""
    turn_start = await crash_turn(db, "Hi", stages, ScriptedModel("yes"), clock)
    clock.advance(LATER)
    return turn_start.journal.run.id


async def resume(db: Database, clock: Clock, stages: Sequence[Stage]) -> TurnResult[Any]:
    """What becomes of the run with these stages."""
    return await Runtime(db, schema=Companion, stages=stages, config=RuntimeConfig(clock=clock)).resume("a")


@pytest.mark.promise("T-17")
async def test_a_run_goes_on_at_the_stage_it_stopped_at_wherever_that_stands_now(db: Database) -> None:
    clock = Clock()
    await stop_turn(db, clock, [count, think, stop])
    result = await resume(db, clock, [note, rename_stage("another", count), count, think, reply])

    assert (result.trace, result.text) == (("reply",), "Here I am.")
    assert (await db.thread("a").state())["session_progress"] == {"turn_count": 1}


async def test_a_stage_put_behind_the_one_where_a_run_stopped_is_run(db: Database) -> None:
    clock = Clock()
    await stop_turn(db, clock, [think, stop])
    result = await resume(db, clock, [think, reply, note, count])

    assert result.trace == ("reply", "note", "count")


@pytest.mark.promise("T-17")
async def test_a_run_whose_stage_is_gone_is_refused_by_name_and_left_as_it_is(db: Database) -> None:
    clock = Clock()
    run = await stop_turn(db, clock, [count, think, stop])
    before = await db.thread("a").head()
    with pytest.raises(StageGone) as error:
        await resume(db, clock, [count, think, note])

    assert (error.value.thread, error.value.run, error.value.stage) == ("a", run, "reply")
    assert await db.thread("a").head() == before


@pytest.mark.promise("R-24")
async def test_after_a_refusal_the_next_message_starts_a_new_turn(db: Database) -> None:
    clock = Clock()
    await stop_turn(db, clock, [think, stop])
    with pytest.raises(StageGone):
        await resume(db, clock, [note])
    result = await Runtime(db, schema=Companion, stages=[note], config=RuntimeConfig(clock=clock)).run_turn(
        "a", "Never mind"
    )

    assert (result.termination, result.trace) == ("natural", ("note",))


async def test_a_run_that_died_in_its_first_stage_is_not_begun_with_another(db: Database) -> None:
    clock = Clock()
    await stop_turn(db, clock, [stop])
    with pytest.raises(StageGone) as error:
        await resume(db, clock, [note])

    assert error.value.stage == "reply"


@pytest.mark.promise("T-16")
async def test_a_run_that_waits_at_a_stage_that_is_gone_can_be_cancelled(db: Database) -> None:
    @clew.tool(approval=True)
    async def post(to: str) -> str:
        """Post a letter."""
        return to

    model = ScriptedModel(calls(("c1", "post", {"to": "Ann"})))
    await Runtime(db, model=model, stages=[respond(tools=[post], name="write")]).run_turn("a", "Write to Ann")
    later = Runtime(db, model=ScriptedModel("Hello."))
    with pytest.raises(StageGone) as error:
        await later.resume("a", {"c1": Replay()})
    await later.cancel("a")
    result = await later.run_turn("a", "Hi")

    assert (error.value.stage, result.text) == ("write", "Hello.")


@pytest.mark.promise("A-12")
@pytest.mark.parametrize(("number", "trace"), [(0, ("think", "reply")), (1, ("reply",)), (2, ())])
async def test_a_number_that_an_earlier_version_kept_is_still_read(
    db: Database, number: int, trace: tuple[str, ...]
) -> None:
    clock = Clock()
    await stop_turn(db, clock, [think, stop])
    await db.thread("a").append(patches=[clew.set(["$run", "stage"], number)])
    runtime = Runtime(
        db,
        schema=Companion,
        stages=[think, reply],
        config=RuntimeConfig(clock=clock),
        model=ScriptedModel("yes"),
    )
    result = await runtime.resume("a")

    assert result.trace == trace


async def test_a_number_beyond_the_stages_is_refused(db: Database) -> None:
    clock = Clock()
    await stop_turn(db, clock, [think, stop])
    await db.thread("a").append(patches=[clew.set(["$run", "stage"], 3)])
    with pytest.raises(StageGone) as error:
        await resume(db, clock, [think, reply])

    assert error.value.stage == "number 4"


async def test_two_stages_of_one_name_are_refused_by_where_they_come_from() -> None:
    twin = functools.wraps(count)(constant_stage(route="talk"))
    with pytest.raises(SchemaInvalid) as error:
        await run_agent("Hi", schema=Companion, stages=[count, twin])

    assert (error.value.schema, error.value.field) == ("stages", "count")
    assert error.value.problem.count("tests.runtime.sample_state.count") == 2


async def test_two_stages_that_answer_can_have_names_of_their_own() -> None:
    with pytest.raises(SchemaInvalid):
        await run_agent("Hi", stages=[respond(), respond()], model=ScriptedModel("One.", "Two."))
    result = await run_agent(
        "Hi", stages=[respond(name="plan"), respond()], model=ScriptedModel("One.", "Two.")
    )

    assert (result.trace, result.text) == (("plan", "respond"), "Two.")
