"""Fields live as long as they say, on every store, over turns, restarts and crashes."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.core import ops
from clew.core.errors import StateInvalid
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import PassOn
from clew.runtime.tools.tool import Effect, Suspend, ToolContext, tool
from clew.testing.clock import Clock
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.sample_state import (
    Companion,
    MemoryControl,
    Profile,
    constant_stage,
    count,
    crash,
    crash_turn,
    observer_stage,
    rename_stage,
    reopen,
)

LATER = 60_000


async def turns(
    db: Database, *stages: Any, message: str = "Hi", model: Any = None, clock: Any = None
) -> None:
    """One turn with these stages."""
    config = RuntimeConfig(clock=clock)
    async with Runtime(db, schema=Companion, stages=stages, model=model, config=config) as runtime:
        await runtime.run_turn("a", message)


async def state_of_next_turn(db: Database, clock: Any = None) -> Companion:
    """The state as the first stage of another turn gets it."""
    states: list[Companion] = []
    await turns(db, observer_stage(states), message="Next", clock=clock)
    return states[0]


@pytest.mark.promise("R-03", "R-05")
async def test_what_has_a_reducer_comes_back_after_a_restart(db: Database, store_url: str) -> None:
    await turns(db, count, constant_stage(session_memory={"summary": "work"}, approach="cbt"))
    await turns(db, count, constant_stage(session_memory={"goal": "sleep"}))

    async with reopen(db, store_url) as again:
        state = await state_of_next_turn(again)
    assert (state.session_progress.turn_count, state.session_progress.returning) == (2, False)
    assert (state.session_memory, state.approach) == ({"summary": "work", "goal": "sleep"}, "cbt")


@pytest.mark.promise("R-06")
async def test_what_has_no_reducer_is_fresh_in_each_turn(db: Database, store_url: str) -> None:
    await turns(db, constant_stage(crisis=3, route="crisis", response_text="Call them."))

    async with reopen(db, store_url) as again:
        state = await state_of_next_turn(again)
    assert (state.crisis, state.route, state.response_text) == (0, "", "")


@pytest.mark.promise("R-06")
async def test_what_a_crashed_turn_had_set_does_not_show_in_the_next(db: Database) -> None:
    clock = Clock()
    fresh = {"crisis": 3, "route": "crisis", "working_memory": ["boss"], "tries": 1}
    stages = [constant_stage(**fresh, memory_control={"action": {"kind": "forget"}}), ask_model, crash]
    await crash_turn(db, "Hi", stages, ScriptedModel("yes"), clock)
    fields = (await db.thread("a").state())["$run"]["turn"]
    clock.advance(LATER)
    state = await state_of_next_turn(db, clock)

    assert fields["route"] == "crisis"
    assert (state.crisis, state.route, state.working_memory, state.tries) == (0, "", [], 0)
    assert state.memory_control.action == {}


async def ask_model(state: Companion, ctx: Context) -> dict[str, Any]:
    """A stage that asks a model, and so is made durable when it ends."""
    reply = await ctx.turn.ask(ctx.control_llm, ModelRequest(messages=[]))
    return {"session_memory": {"asked": reply.text}}


@pytest.mark.promise("A-01")
async def test_a_part_may_be_fresh_while_its_sibling_is_kept(db: Database, store_url: str) -> None:
    pending = {"kind": "forget", "ids": [4]}
    within: list[Companion] = []
    await turns(
        db,
        constant_stage(memory_control={"action": {"kind": "forget"}, "pending_action": pending}),
        observer_stage(within),
    )

    async with reopen(db, store_url) as again:
        state = await state_of_next_turn(again)
    assert within[0].memory_control == MemoryControl(action={"kind": "forget"}, pending_action=pending)
    assert state.memory_control == MemoryControl(action={}, pending_action=pending)


@pytest.mark.promise("A-01")
async def test_a_loaded_profile_is_merged_within_the_turn_and_gone_after_it(db: Database) -> None:
    within: list[Companion] = []
    await turns(
        db,
        constant_stage(procedural_profile={"procedural_rules": ["be short"]}),
        rename_stage("say more", constant_stage(procedural_profile={"proactive_recall_enabled": False})),
        observer_stage(within),
    )
    state = await state_of_next_turn(db)

    profile = Profile(procedural_rules=["be short"], proactive_recall_enabled=False)
    assert within[0].procedural_profile == profile
    assert state.procedural_profile == Profile(procedural_rules=[], proactive_recall_enabled=True)
    assert "procedural_profile" not in await db.thread("a").state()


@pytest.mark.promise("T-12")
async def test_what_goes_with_a_run_is_there_until_the_next_one_begins(db: Database) -> None:
    within: list[Companion] = []
    await turns(
        db,
        constant_stage(tries=1),
        rename_stage("try again", constant_stage(tries=2)),
        observer_stage(within),
    )
    thread_state = await db.thread("a").state()
    state = await state_of_next_turn(db)

    assert (within[0].tries, thread_state["$run"]["fields"]) == (3, {"tries": 3})
    assert state.tries == 0


ODD = 'call/1.$ü "x"'


@tool(effect=Effect.NONE)
async def book(ctx: ToolContext) -> str:
    """Book a room, after two questions."""
    assert isinstance(ctx.state, Companion)
    notes = ctx.state.notes
    if "when" not in notes and ctx.decision is None:
        raise Suspend("When?", delta={"notes": {"asked": "when"}})
    if "when" not in notes:
        raise Suspend("How many?", delta={"notes": {"when": str(ctx.decision)}})
    return f"{notes} for {ctx.decision}"


@pytest.mark.promise("T-12")
async def test_what_goes_with_a_tool_call_lives_under_its_id_and_goes_when_it_is_resolved(
    db: Database, store_url: str
) -> None:
    model = ScriptedModel(calls((ODD, "book", {})), "Booked.")
    stages = [respond(tools=[book], field="response_text")]
    async with Runtime(db, schema=Companion, stages=stages, model=model) as runtime:
        await runtime.run_turn("a", "A room, please")
        await runtime.resume("a", {ODD: PassOn("May")})
    waiting = (await db.thread("a").state())["$calls"]
    async with (
        reopen(db, store_url) as again,
        Runtime(again, schema=Companion, stages=stages, model=model) as other,
    ):
        await other.resume("a", {ODD: PassOn(2, asked=2)})

    outputs = [item.body.get("output") for item in await db.thread("a").items() if item.kind == "result"]
    assert waiting[ODD]["fields"] == {"notes": {"asked": "when", "when": "May"}}
    assert outputs == ["{'asked': 'when', 'when': 'May'} for 2"]
    assert (await db.thread("a").state()).get("$calls", {}) == {}


@pytest.mark.promise("A-01")
async def test_a_stage_that_breaks_the_schema_ends_its_run_and_nothing_of_its_delta_is_kept(
    db: Database,
) -> None:
    async with Runtime(db, schema=Companion, stages=[count, overreach]) as runtime:
        with pytest.raises(StateInvalid) as error:
            await runtime.run_turn("a", "Hi")

    head = await db.thread("a").head()
    assert (error.value.stage, error.value.field) == ("overreach", "message")
    assert (head.state["session_progress"], "approach" in head.state) == ({"turn_count": 1}, False)
    assert head.length() == 1


async def overreach(state: Companion, ctx: Context) -> dict[str, Any]:
    """A stage that writes what only the caller may."""
    return {"approach": "act", "history": [clew.Message(role="assistant", content="Hm")], "message": "mine"}


@pytest.mark.promise("A-02")
async def test_what_finished_stages_changed_is_not_changed_again_when_a_run_is_resumed(
    db: Database, store_url: str
) -> None:
    clock = Clock()
    before = [count, constant_stage(route="talk", working_memory=["boss"], tries=1), ask_model]
    await crash_turn(db, "Hi", [*before, crash], ScriptedModel("yes"), clock)
    clock.advance(LATER)
    states: list[Companion] = []
    stages = [*before, rename_stage("crash", observer_stage(states))]
    async with (
        reopen(db, store_url) as again,
        Runtime(again, schema=Companion, stages=stages, config=RuntimeConfig(clock=clock)) as runtime,
    ):
        result = await runtime.resume("a")

    assert result.trace == ("crash",)
    assert (states[0].session_progress.turn_count, states[0].tries, states[0].message) == (1, 1, "Hi")
    assert (states[0].route, states[0].working_memory) == ("talk", ["boss"])
    assert states[0].session_memory == {"asked": "yes"}


async def test_a_run_that_crashed_before_anything_was_kept_begins_again(db: Database) -> None:
    clock = Clock()
    await crash_turn(db, "Hi", [count, crash], clock=clock)
    clock.advance(LATER)
    async with Runtime(db, schema=Companion, stages=[count], config=RuntimeConfig(clock=clock)) as runtime:
        result = await runtime.resume("a")

    assert result.trace == ("count",)
    assert (await db.thread("a").state())["session_progress"] == {"turn_count": 1}


async def test_an_ended_turn_does_not_show_in_the_state(db: Database) -> None:
    async with Runtime(
        db,
        schema=Companion,
        stages=[constant_stage(route="talk"), ask_model, count],
        model=ScriptedModel("yes"),
    ) as runtime:
        await runtime.run_turn("a", "Hi")
        state = await runtime.state("a")

    assert isinstance(state, Companion)
    assert (state.route, state.session_memory) == ("", {"asked": "yes"})


# One log by two names.


@pytest.mark.promise("R-05")
async def test_an_entry_written_to_history_and_transcript_is_stored_once(db: Database) -> None:
    message = clew.Message(role="assistant", content="Hello")
    states: list[Companion] = []
    await turns(db, constant_stage(transcript=[message], history=[message]), observer_stage(states))

    assert [len(states[0].history), len(states[0].transcript)] == [2, 2]
    assert [item.body["content"] for item in await db.thread("a").items()] == ["Hi", "Hello"]


@pytest.mark.promise("R-05")
async def test_a_stage_may_write_to_the_transcript_what_another_put_into_the_history(db: Database) -> None:
    user = {"role": "user", "content": "Hi"}
    reply = clew.Message(role="assistant", content="Hello", meta={"response_style": "warm"})
    model = ScriptedModel("Hello")
    await turns(
        db,
        respond(field="response_text"),
        constant_stage(transcript=[user, reply]),
        rename_stage("repeat", constant_stage(transcript=[reply])),
        model=model,
    )

    assert [item.body["content"] for item in await db.thread("a").items()] == ["Hi", "Hello", "Hello"]


@pytest.mark.promise("R-05")
async def test_the_transcript_is_not_doubled_when_a_run_is_resumed(db: Database) -> None:
    clock = Clock()
    first = respond(field="response_text")
    await crash_turn(db, "Hi", [first, crash], ScriptedModel("Hello"), clock)
    clock.advance(LATER)
    last = rename_stage("crash", constant_stage(transcript=[clew.Message(role="assistant", content="Hello")]))
    async with Runtime(
        db, schema=Companion, stages=[first, last], config=RuntimeConfig(clock=clock)
    ) as runtime:
        await runtime.resume("a")

    assert [item.body["content"] for item in await db.thread("a").items()] == ["Hi", "Hello"]


@pytest.mark.promise("R-05")
async def test_the_transcript_shows_what_compaction_hid_and_the_history_what_it_left(
    db: Database, store_url: str
) -> None:
    for number in range(5):
        await turns(db, constant_stage(history=[clew.Message(role="assistant", content=f"answer {number}")]))
    await db.thread("a").log().compact([clew.system("They talked.")], keep=2)

    async with reopen(db, store_url) as again:
        state = await state_of_next_turn(again)
        history, transcript = await state.history.all(), await state.transcript.all()
        newest = await state.transcript.tail(5)
    assert [entry.text for entry in history] == ["They talked.", "Hi", "answer 4", "Next"]
    talk = [text for number in range(5) for text in ("Hi", f"answer {number}")]
    assert [entry.text for entry in transcript] == [*talk, "Next"]
    assert [entry.text for entry in newest] == [*talk[-4:], "Next"]
    assert (len(state.history), len(state.transcript)) == (4, 11)


async def test_a_fork_has_the_whole_transcript_too(db: Database) -> None:
    await turns(db, constant_stage(history=[clew.Message(role="assistant", content="one")]))
    await db.thread("a").log().compact([clew.system("Short.")], keep=0)
    await db.thread("a").fork("b")
    async with Runtime(db, schema=Companion, stages=[]) as runtime:
        await runtime.run_turn("b", "On")
        state = await runtime.state("b")

    assert isinstance(state, Companion)
    assert [entry.text for entry in await state.transcript.all()] == ["Hi", "one", "On"]
    assert [entry.text for entry in await state.history.all()] == ["Short.", "On"]


# Whatever is committed.


async def test_what_is_committed_folds_to_what_the_stages_saw(db: Database) -> None:
    states: list[Companion] = []
    stages = [
        count,
        constant_stage(memory_control={"pending_action": {"n": 1}}),
        ask_model,
        observer_stage(states),
    ]
    await turns(db, *stages, model=ScriptedModel("yes"))
    state: dict[str, Any] = {}
    for change in await db.thread("a").changesets():
        state = ops.apply_ops(state, change.patches)

    assert state == await db.thread("a").state()
    assert state["session_progress"]["turn_count"] == states[0].session_progress.turn_count == 1
