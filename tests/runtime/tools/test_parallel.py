"""Parallel tools: one frozen state for all, changes that commute go together, others fail the run."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import Annotated, Any

import pytest

import clew
from clew.core.errors import StateInvalid, ToolConflict
from clew.database.database import Database
from clew.runtime.model.messages import Message
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.state.schema import State, input, persistent
from clew.runtime.tools.tool import Effect, Tool, ToolContext, ToolOutcome, tool
from clew.testing.scripted_model import ScriptedModel, calls


class Diary(State):
    """A state with a field of each kind."""

    message: Annotated[str, input]
    history: Annotated[clew.StateLog[Message], clew.append]
    notes: Annotated[clew.StateLog[str], clew.append]
    progress: Annotated[dict[str, Any], clew.merge]
    visits: Annotated[int, clew.increment] = 0
    balance: Annotated[int, clew.increment] = 100
    best: Annotated[int, clew.max] = 3
    tags: Annotated[list[str], clew.union]
    mood: Annotated[str, persistent] = "calm"
    plan: dict[str, Any]
    reply: str = ""


def writes(name: str, delta: Mapping[str, Any]) -> Tool:
    """A tool that changes the state so."""

    @tool(name=name, effect=Effect.NONE)
    async def write() -> ToolOutcome:
        return ToolOutcome(output=name, delta=delta)

    return write


async def state_after(db: Database, *tools: Tool) -> Diary:
    """The state after a turn in which all tools were called at once."""
    requests: list[tuple[str, str, Any]] = [
        (f"c{number}", each.name, {}) for number, each in enumerate(tools)
    ]
    async with Runtime(
        db, schema=Diary, model=ScriptedModel(calls(*requests), "Done."), tools=list(tools)
    ) as runtime:
        await runtime.run_turn("a", "Go")
        state = await runtime.state("a")
    assert isinstance(state, Diary)
    return state


@pytest.mark.promise("T-18")
async def test_what_one_tool_does_to_its_copy_no_other_sees(db: Database) -> None:
    barrier = asyncio.Barrier(2)
    states: list[Any] = []

    def vandal(name: str) -> Tool:
        @tool(name=name, effect=Effect.NONE)
        async def vandalise(context: ToolContext) -> None:
            state = context.state
            assert isinstance(state, Diary)
            await barrier.wait()
            states.append(copy.deepcopy((state.progress, state.tags, state.plan)))
            state.progress["walks"]["done"] = "mine"
            state.progress[name] = 1
            state.tags.append(name)
            state.plan["x"] = name
            await barrier.wait()
            states.append(sorted(state.progress))

        return vandalise

    async def begin(state: Diary, ctx: Any) -> Mapping[str, Any]:
        return {"progress": {"walks": {"done": 1}}, "tags": ["t"], "plan": {"x": 1}}

    tools = [vandal("left"), vandal("right")]
    model = ScriptedModel(calls(("c1", "left", {}), ("c2", "right", {})), "Done.")
    async with Runtime(db, schema=Diary, stages=[begin, respond(tools=tools)], model=model) as runtime:
        await runtime.run_turn("a", "Go")
        state = await runtime.state("a")

    assert states[:2] == [({"walks": {"done": 1}}, ["t"], {"x": 1})] * 2
    assert sorted(states[2:]) == [["left", "walks"], ["right", "walks"]]
    assert isinstance(state, Diary)
    assert (state.progress, state.tags) == ({"walks": {"done": 1}}, ["t"])


@pytest.mark.promise("T-18")
async def test_tools_run_at_the_same_time_and_answer_in_the_order_of_the_calls(db: Database) -> None:
    first_may_end = asyncio.Event()

    @tool(effect=Effect.NONE)
    async def slow() -> str:
        await first_may_end.wait()
        return "slow"

    @tool(effect=Effect.NONE)
    async def quick() -> str:
        first_may_end.set()
        return "quick"

    await state_after(db, slow, quick)

    results = [item for item in await db.thread("a").items() if item.kind == "result"]
    assert [item.body["output"] for item in results] == ["slow", "quick"]


@pytest.mark.promise("T-18")
@pytest.mark.parametrize(
    ("field", "left", "right", "both"),
    [
        ("visits", 2, 3, 5),
        ("balance", -10, -20, 70),
        ("best", 7, 5, 7),
        ("best", 1, 2, 3),
        ("tags", ["b", "a"], ["c", "a"], ["a", "b", "c"]),
        ("progress", {"walks": 1}, {"calls": 2}, {"walks": 1, "calls": 2}),
        ("progress", {"walks": 1}, {"walks": 1}, {"walks": 1}),
        ("mood", "glad", "glad", "glad"),
    ],
)
async def test_changes_that_commute_go_together(
    db: Database, field: str, left: Any, right: Any, both: Any
) -> None:
    state = await state_after(db, writes("left", {field: left}), writes("right", {field: right}))

    assert getattr(state, field) == both


@pytest.mark.promise("T-18")
async def test_different_fields_go_together(db: Database) -> None:
    state = await state_after(
        db, writes("left", {"mood": "glad"}), writes("right", {"visits": 1, "notes": ["n"]})
    )

    assert (state.mood, state.visits, await state.notes.all()) == ("glad", 1, ["n"])


@pytest.mark.promise("T-18")
async def test_what_a_tool_sets_for_this_turn_the_next_stage_sees(db: Database) -> None:
    states: list[Any] = []

    async def after(state: Diary, ctx: Any) -> None:
        states.append(state.plan)

    stages = [respond(tools=[writes("plan", {"plan": {"step": 1}})]), after]
    model = ScriptedModel(calls(("c1", "plan", {})), "Done.")
    async with Runtime(db, schema=Diary, stages=stages, model=model) as runtime:
        await runtime.run_turn("a", "Go")

    assert states == [{"step": 1}]


@pytest.mark.promise("T-18")
@pytest.mark.parametrize(
    ("left", "right", "path"),
    [
        ({"mood": "glad"}, {"mood": "sad"}, ["mood"]),
        ({"progress": {"walks": 1, "a": 1}}, {"progress": {"walks": 2, "b": 1}}, ["progress", "walks"]),
        ({"notes": ["one"]}, {"notes": ["two"]}, ["notes"]),
    ],
)
async def test_changes_whose_order_matters_fail_the_run(
    db: Database, left: Any, right: Any, path: list[str]
) -> None:
    with pytest.raises(ToolConflict) as error:
        await state_after(db, writes("left", left), writes("other", {"visits": 1}), writes("right", right))
    assert (error.value.first, error.value.second, error.value.path) == ("left", "right", path)


@pytest.mark.promise("T-18")
@pytest.mark.parametrize(
    ("left", "right"), [({"mood": "glad"}, {"mood": "sad"}), ({"progress": {"a": 1}}, {"progress": {"a": 2}})]
)
async def test_a_tool_that_says_what_is_so_already_still_says_it(db: Database, left: Any, right: Any) -> None:
    await state_after(db, writes("first", left))

    with pytest.raises(ToolConflict):
        await state_after(db, writes("left", left), writes("right", right))


@pytest.mark.promise("T-18", "B-05")
async def test_nothing_of_a_conflict_is_kept_and_the_thread_goes_on(db: Database) -> None:
    with pytest.raises(ToolConflict):
        await state_after(db, writes("left", {"mood": "glad", "visits": 1}), writes("right", {"mood": "sad"}))

    async with Runtime(db, schema=Diary, model=ScriptedModel("Here.")) as runtime:
        change = (await db.thread("a").changesets())[-1]
        state = await runtime.state("a")
        result = await runtime.run_turn("a", "Still there?")
    assert isinstance(state, Diary)
    assert (state.mood, state.visits) == ("calm", 0)
    assert (change.run_meta or {})["problem"].startswith("tool_conflict: Tools 'left' and 'right'")
    assert [item.kind for item in change.items] == ["repair"]
    assert result.text == "Here."


async def test_a_change_that_does_not_fit_names_tool_and_field(db: Database) -> None:
    with pytest.raises(StateInvalid) as error:
        await state_after(db, writes("left", {"visits": 1}), writes("right", {"mood": 7}))
    assert (error.value.stage, error.value.field) == ("right", "mood")


async def test_a_tool_cannot_put_anything_between_calls_and_results(db: Database) -> None:
    with pytest.raises(StateInvalid) as error:
        await state_after(db, writes("left", {"history": [Message(role="user", content="me")]}))
    assert (error.value.stage, error.value.field) == ("left", "history")


@pytest.mark.promise("T-18")
async def test_no_tool_goes_on_behind_the_back_of_a_run_that_failed(db: Database) -> None:
    ends: list[str] = []

    @tool(effect=Effect.NONE)
    async def slow() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        ends.append("slow")

    with pytest.raises(StateInvalid):
        await state_after(db, writes("wrong", {"nothing": 1}), slow)

    assert ends == ["slow"]


@pytest.mark.promise("T-18")
async def test_a_hundred_calls_at_once_are_all_answered(db: Database) -> None:
    requests: list[tuple[str, str, Any]] = [(f"c{number}", "count", {}) for number in range(100)]
    model = ScriptedModel(calls(*requests), "Done.")
    count = writes("count", {"visits": 1})
    async with Runtime(db, schema=Diary, model=model, tools=[count]) as runtime:
        result = await runtime.run_turn("a", "Go")
        state = await runtime.state("a")

    assert isinstance(state, Diary)
    assert (result.text, state.visits, len(model.requests)) == ("Done.", 100, 2)
