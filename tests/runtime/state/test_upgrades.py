"""A state that an older program wrote is upgraded by registered steps; a newer one is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pytest

import clew
from clew.core.errors import NewerSchema, SchemaInvalid, StateInvalid
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig, StateConfig
from clew.runtime.state.call_state import Replay
from clew.runtime.state.schema import State, input, persistent
from clew.runtime.state.upgrades import Upgrade
from clew.runtime.tools.tool import tool
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.sample_state import reopen


class First(State):
    message: Annotated[str, input]
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    name: Annotated[str, persistent] = ""
    mood: Annotated[dict[str, str], clew.merge]
    reply: str = ""


class Third(State):
    message: Annotated[str, input]
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    names: Annotated[list[str], persistent]
    mood: Annotated[dict[str, str], clew.merge]
    greeted: Annotated[bool, persistent] = False
    reply: str = ""


def to_second(state: dict[str, Any]) -> dict[str, Any]:
    """One name becomes several. It changes what it is given, deep down, which a step may."""
    state["mood"]["was"] = "v1"
    name = state.pop("name", "")
    return {**state, "names": [name] if name else []}


def to_third(state: dict[str, Any]) -> dict[str, Any]:
    """Notes whether anybody is known."""
    state["mood"]["since"] = "v3"
    state["greeted"] = bool(state["names"])
    return state


STEPS: Mapping[int, Upgrade] = {1: to_second, 2: to_third}


async def introduce(state: First, ctx: Context) -> dict[str, Any]:
    """Learn a name."""
    return {"name": state.message, "mood": {"now": "calm"}}


async def greet(state: Third, ctx: Context) -> dict[str, Any]:
    """Use what was learned before the upgrade."""
    return {"reply": f"{state.names} {state.greeted}"}


async def write_first_version(db: Database) -> None:
    async with Runtime(db, schema=First, stages=[introduce]) as runtime:
        await runtime.run_turn("a", "Ann")


def third(db: Database, *, upgrades: Mapping[int, Upgrade] = STEPS, **options: Any) -> Runtime[Third]:
    config = RuntimeConfig(state=StateConfig(version=3, upgrades=upgrades))
    return Runtime(db, schema=Third, config=config, **{"stages": [greet], **options})


@pytest.mark.promise("A-12")
async def test_the_state_carries_its_schema_version(db: Database) -> None:
    await write_first_version(db)

    assert (await db.thread("a").state())["$thread"]["schema"] == 1


@pytest.mark.promise("A-12")
async def test_an_older_state_is_upgraded_step_by_step_with_the_next_turn(
    db: Database, store_url: str
) -> None:
    await write_first_version(db)
    before = await db.thread("a").head()
    async with reopen(db, store_url) as again, third(again) as runtime:
        result = await runtime.run_turn("a", "Hi again")

    head = await db.thread("a").head()
    (first,) = await db.thread("a").changesets(after=before.version, limit=1)
    assert result.text == "['Ann'] True"
    assert {key: value for key, value in head.state.items() if key != "$run"} == {
        "names": ["Ann"],
        "mood": {"now": "calm", "was": "v1", "since": "v3"},
        "greeted": True,
        "$thread": {"schema": 3, "agent": "default"},
    }
    assert [op.path for op in first.patches] == [
        ("name",),
        ("greeted",),
        ("mood", "since"),
        ("mood", "was"),
        ("names",),
        ("$thread", "schema"),
        ("$run",),
        ("$run",),
    ]


@pytest.mark.promise("A-12")
async def test_the_version_before_the_upgrade_stays_readable(db: Database) -> None:
    await write_first_version(db)
    before = await db.thread("a").head()
    async with third(db) as runtime:
        await runtime.run_turn("a", "Hi again")
        old = await runtime.state("a", at=before.version)

    assert (await db.thread("a").state(at=before.version)) == before.state
    assert (old.names, old.greeted) == (["Ann"], True)


@pytest.mark.promise("A-12")
async def test_looking_at_an_older_state_upgrades_the_look_and_not_the_thread(db: Database) -> None:
    await write_first_version(db)
    before = await db.thread("a").head()
    async with third(db) as runtime:
        state = await runtime.state("a")

    assert (state.names, state.mood) == (["Ann"], {"now": "calm", "was": "v1", "since": "v3"})
    assert await db.thread("a").head() == before


@pytest.mark.promise("A-12")
async def test_a_state_is_upgraded_once(db: Database) -> None:
    await write_first_version(db)
    async with third(db) as runtime:
        await runtime.run_turn("a", "Hi again")
        await runtime.run_turn("a", "And again")

    inbound = (await db.thread("a").changesets(after=4, limit=1))[0]
    assert [op.path for op in inbound.patches] == [("$run",), ("$run",)]


@tool(approval=True)
async def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@pytest.mark.promise("A-12")
async def test_a_run_that_waits_is_upgraded_when_it_is_resumed(db: Database) -> None:
    model = ScriptedModel(calls(("c1", "send", {"to": "Ann"})), "Done.")
    async with Runtime(db, schema=First, stages=[introduce, respond(tools=[send])], model=model) as first:
        await first.run_turn("a", "Ann")
    async with third(db, stages=[greet, respond(tools=[send])], model=model) as runtime:
        result = await runtime.resume("a", {"c1": Replay()})

    state = await db.thread("a").state()
    assert (result.text, state["names"], state["$thread"]["schema"]) == ("Done.", ["Ann"], 3)


@pytest.mark.promise("A-12")
async def test_a_newer_state_is_refused_and_left_untouched(db: Database) -> None:
    async with third(db) as runtime:
        await runtime.run_turn("a", "Hi")
    before = await db.thread("a").head()
    async with Runtime(db, schema=First, stages=[introduce]) as older:
        with pytest.raises(NewerSchema) as turn:
            await older.run_turn("a", "Ann")
        with pytest.raises(NewerSchema):
            await older.state("a")
        with pytest.raises(NewerSchema):
            await older.run_turn("a", "Ann", replace_state={"name": "Ann"})

    assert (turn.value.thread, turn.value.found, turn.value.known) == ("a", 3, 1)
    assert await db.thread("a").head() == before


@pytest.mark.promise("A-12")
async def test_a_waiting_run_of_a_newer_program_is_not_resumed(db: Database) -> None:
    model = ScriptedModel(calls(("c1", "send", {"to": "Ann"})))
    async with third(db, stages=[respond(tools=[send])], model=model) as runtime:
        await runtime.run_turn("a", "Hi")
    before = await db.thread("a").head()
    async with Runtime(db, schema=First, stages=[respond(tools=[send])], model=model) as older:
        with pytest.raises(NewerSchema):
            await older.resume("a", {"c1": Replay()})

    assert await db.thread("a").head() == before


@pytest.mark.promise("A-12")
@pytest.mark.parametrize("steps", [{}, {1: to_second}, {2: to_third}, {**STEPS, 3: to_third}])
async def test_a_missing_step_is_noticed_before_any_turn(db: Database, steps: dict[int, Any]) -> None:
    with pytest.raises(SchemaInvalid, match="one step from each"):
        third(db, upgrades=steps)


def fail(state: dict[str, Any]) -> dict[str, Any]:
    raise KeyError("nobody")


def no_state(state: dict[str, Any]) -> Any:
    return ["no", "state"]


@pytest.mark.promise("A-12")
@pytest.mark.parametrize("step", [fail, no_state, lambda state: {"names": object()}])
async def test_a_step_that_fails_is_named_and_nothing_is_written(db: Database, step: Any) -> None:
    await write_first_version(db)
    before = await db.thread("a").head()
    async with third(db, upgrades={1: to_second, 2: step}) as runtime:
        with pytest.raises(StateInvalid) as error:
            await runtime.run_turn("a", "Hi")

    assert error.value.stage == "the upgrade from version 2"
    assert await db.thread("a").head() == before


@pytest.mark.promise("A-12")
async def test_a_thread_written_without_the_runtime_is_of_the_first_version(db: Database) -> None:
    thread = await db.create("a")
    await thread.append(patches=[clew.set(["name"], "Ann"), clew.set(["mood"], {})])
    async with third(db) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert result.text == "['Ann'] True"


async def test_a_state_that_replaces_another_is_of_this_version(db: Database) -> None:
    await write_first_version(db)
    async with third(db) as runtime:
        result = await runtime.run_turn("a", "Hi", replace_state={"names": ["Bob"]})

    state = await db.thread("a").state()
    assert (result.text, state["$thread"]) == ("['Bob'] False", {"schema": 3, "agent": "default"})
    assert "name" not in state


@pytest.mark.parametrize("wrong", [{"reply": "x"}, {"history": []}, {"names": "Bob"}, {"message": "x"}])
async def test_a_state_to_replace_another_must_fit_the_schema(db: Database, wrong: dict[str, Any]) -> None:
    async with third(db) as runtime:
        with pytest.raises(StateInvalid) as error:
            await runtime.run_turn("a", "Hi", replace_state=wrong)

    assert (error.value.stage, [error.value.field]) == ("the caller", list(wrong))
