"""Two layers, one pipeline: what the stateless call and the persistent runtime have in common."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.core.errors import ModelFailed, StateInvalid
from clew.core.values import Record, RecordQuery
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.stateless import run_agent
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.events import ErrorEvent, Event, RunFinished, StageStarted
from clew.runtime.respond.respond import Stage, respond
from clew.runtime.runtime import Runtime
from clew.runtime.state.schema import State, input, persistent
from clew.runtime.tools.tool import Effect, tool
from clew.runtime.turn.result import TurnResult
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.sample_state import Companion, constant_stage, count, rename_stage


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    return f"sunny in {city}"


@tool(approval=True)
async def send(to: str) -> str:
    """Send a letter."""
    return to


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn looked like from outside."""

    stages: list[str]
    trace: tuple[str, ...] = ()
    text: str = ""
    output: Any = None
    termination: str = ""
    waiting: tuple[str, ...] = ()
    problem: str = ""


def outcome(events: list[Event], result: TurnResult[Any] | None) -> Outcome:
    """What can be compared of a turn: everything but ids, versions and times."""
    problems = [event.problem for event in events if isinstance(event, ErrorEvent)]
    ends = [event.termination for event in events if isinstance(event, RunFinished)]
    return Outcome(
        stages=[event.name for event in events if isinstance(event, StageStarted)],
        trace=result.trace if result else (),
        text=result.text if result else "",
        output=result.output if result else None,
        termination=ends[-1] if ends else "",
        waiting=tuple(entry.tool for entry in result.waiting) if result else (),
        problem=problems[-1] if problems else "",
    )


async def ask(state: Companion, ctx: Context) -> dict[str, Any]:
    """A stage that asks the deciding model."""
    reply = await ctx.turn.ask(ctx.control_llm, ModelRequest(messages=[]))
    return {"route": reply.text, "crisis": state.crisis + 1}


async def fail(state: Companion, ctx: Context) -> None:
    """A stage that goes wrong."""
    raise ModelFailed(model="m", problem="it is down")


async def overreach(state: Companion, ctx: Context) -> dict[str, Any]:
    """A stage that writes what it may not."""
    return {"crisis": 9, "channel": "web"}


def with_tools(name: str, *replies: Any) -> tuple[Stage, list[Any]]:
    """A stage that answers with tools, and what the model says to it."""
    stage = respond(tools=[weather, send], field="response_text")
    stage.__name__ = name
    return stage, list(replies)


OSLO, ANN = ("c1", "weather", {"city": "Oslo"}), ("c2", "send", {"to": "Ann"})
KINDS: dict[str, tuple[Stage, list[Any]]] = {
    "count": (count, []),
    "say": (constant_stage(response_text="noted", crisis=1, session_memory={"goal": "sleep"}), []),
    "ask": (ask, ["talk"]),
    "answer": with_tools("answer", "Hello."),
    "use_tool": with_tools("use_tool", calls(OSLO), "Sunny."),
    "wait": with_tools("wait", calls(ANN)),
    "fail": (fail, []),
    "overreach": (overreach, []),
}


def pipeline(kinds: list[str]) -> tuple[list[Stage], list[Any]]:
    """Stages of these kinds, and a script for the model they share."""
    stages = [rename_stage(f"{kind} {number}", KINDS[kind][0]) for number, kind in enumerate(kinds)]
    return stages, [line for kind in kinds for line in KINDS[kind][1]]


async def stateless(kinds: list[str]) -> Outcome:
    """A turn of the stateless layer."""
    stages, script = pipeline(kinds)
    events: list[Event] = []
    try:
        result = await run_agent(
            "Hi", schema=Companion, stages=stages, model=ScriptedModel(*script), notify=events.append
        )
    except (ModelFailed, StateInvalid):
        return outcome(events, None)
    return outcome(events, without_times(result))


async def run_persistent_turn(kinds: list[str], url: str = "memory://") -> Outcome:
    """A turn of the persistent layer."""
    stages, script = pipeline(kinds)
    events: list[Event] = []
    async with (
        clew.open(url) as db,
        Runtime(db, schema=Companion, stages=stages, model=ScriptedModel(*script)) as runtime,
    ):
        try:
            async for event in runtime.stream_turn("a", "Hi", key="once"):
                events.append(event)  # noqa: PERF401  # what was told before an error counts
        except (ModelFailed, StateInvalid):
            return outcome(events, None)
        return outcome(events, without_times(await runtime.run_turn("a", "Hi", key="once")))


def without_times(result: TurnResult[Any]) -> TurnResult[Any]:
    """A result without what differs from one run to the next."""
    return msgspec.structs.replace(
        result, output={name: value for name, value in result.output.items() if name != "diagnostics"}
    )


@pytest.mark.promise("R-01")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=5))
def test_both_layers_run_the_same_stages_in_the_same_order_to_the_same_end(kinds: list[str]) -> None:
    with asyncio.Runner() as runner:
        one = runner.run(stateless(kinds))
        other = runner.run(run_persistent_turn(kinds))

    assert one == other
    assert one.stages == [stage.__name__ for stage in pipeline(kinds)[0]][: len(one.stages)]


@pytest.mark.promise("R-01")
@pytest.mark.parametrize("kinds", [["count", "ask", "use_tool", "say"], ["ask", "wait"], ["ask", "fail"]])
async def test_both_layers_are_equal_on_every_store(db: Database, store_url: str, kinds: list[str]) -> None:
    assert await stateless(kinds) == await run_persistent_turn(kinds, store_url)


async def test_the_stateless_call_takes_what_came_before_and_keeps_nothing() -> None:
    model = ScriptedModel("And to you.")
    before = [clew.Message(role="user", content="Hi"), clew.Message(role="assistant", content="Hello.")]
    result = await run_agent(
        "Good night",
        schema=Companion,
        stages=[count, respond(field="response_text")],
        model=model,
        history=before,
        state={"session_progress": {"turn_count": 4}},
    )

    assert [message.text for message in model.requests[0].messages] == ["Hi", "Hello.", "Good night"]
    assert (result.text, result.version, result.thread) == ("And to you.", 0, "")


async def test_the_stateless_call_tells_what_waits() -> None:
    result = await run_agent("Write to Ann", model=ScriptedModel(calls(ANN)), tools=[send])

    assert (result.termination, [entry.call for entry in result.waiting]) == ("suspended", ["c2"])


async def test_the_stateless_call_refuses_a_state_that_does_not_fit() -> None:
    with pytest.raises(StateInvalid) as error:
        await run_agent("Hi", schema=Companion, stages=[], state={"approach": 3})
    assert (error.value.stage, error.value.field) == ("the caller", "approach")


async def remember(state: Companion, ctx: Context) -> dict[str, Any]:
    """A stage that writes to the memory and reads from it."""
    await ctx.memory_store.put(Record(kind="fact", id="f1", body="likes tea", tags=("drink",)))
    records = await ctx.memory_store.find(RecordQuery(kind="fact", tags=("drink",)))
    same = await ctx.memory_store.get("fact", "f1")
    return {
        "working_memory": [record.body for record in (*records, same)],
        "response_text": ctx.memory_mode.value,
    }


async def test_stages_have_a_memory_in_both_layers(db: Database) -> None:
    alone = await run_agent("Hi", schema=Companion, stages=[remember])
    async with Runtime(db, schema=Companion, stages=[remember]) as runtime:
        durable = await runtime.run_turn("a", "Hi")

    mode = "synced" if db.store.name == "postgres" else "local"
    assert (alone.text, durable.text) == ("incognito", mode)
    assert (await db.records.get("fact", "f1")).body == "likes tea"


# Input, state and output are three types.


class Assessment(msgspec.Struct, frozen=True):
    """How serious it is."""

    level: int = 0
    reason: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What an application's caller gives."""

    message: str
    channel: str = "web"


class Inside(State):
    message: Annotated[str, input]
    channel: Annotated[str, input]
    secret: Annotated[str, persistent] = "hidden"
    crisis: Assessment = Assessment()
    response_text: str = ""
    diagnostics: Annotated[dict[str, Any], clew.merge]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What an application's caller gets."""

    response_text: str
    crisis: Assessment
    diagnostics: dict[str, Any]


async def reply(state: Inside, ctx: Context) -> dict[str, Any]:
    """Answer, with what was asked and from where."""
    return {"response_text": f"{state.message} by {state.channel}", "crisis": Assessment(1, "tired")}


@pytest.mark.promise("R-02", "A-11")
async def test_the_outside_gives_one_type_and_gets_another(db: Database) -> None:
    async with Runtime(db, schema=Inside, stages=[reply], output=Answer) as runtime:
        result = await runtime.run_turn("a", Question(message="Hi"))
    alone = await run_agent(Question(message="Hi"), schema=Inside, stages=[reply], output=Answer)

    assert isinstance(result.output, Answer)
    assert (result.output.response_text, result.output.crisis) == ("Hi by web", Assessment(1, "tired"))
    assert msgspec.structs.replace(result.output, diagnostics={}) == msgspec.structs.replace(
        alone.output, diagnostics={}
    )


@pytest.mark.promise("A-11")
async def test_a_repeated_turn_gives_the_same_typed_output(db: Database, store_url: str) -> None:
    async with Runtime(db, schema=Inside, stages=[reply], output=Answer) as runtime:
        first = await runtime.run_turn("a", Question(message="Hi"), key="k")
        again = await runtime.run_turn("a", Question(message="Hi"), key="k")

    assert again == first


@pytest.mark.promise("A-10")
async def test_the_whole_turn_and_each_stage_are_timed_from_outside(db: Database) -> None:
    async with Runtime(db, schema=Inside, stages=[reply], output=Answer) as runtime:
        result = await runtime.run_turn("a", Question(message="Hi"))
    alone = await run_agent(Question(message="Hi"), schema=Inside, stages=[reply], output=Answer)

    diagnostics = (await db.thread("a").state())["diagnostics"]
    assert diagnostics == result.output.diagnostics
    assert list(diagnostics["stage_ms"]) == list(alone.output.diagnostics["stage_ms"]) == ["reply"]
    assert diagnostics["turn_total_ms"] >= diagnostics["stage_ms"]["reply"] >= 0


class Plain(State):
    message: Annotated[str, input]
    diagnostics: Annotated[dict[str, float], clew.merge]


@pytest.mark.promise("A-10")
async def test_only_what_the_diagnostics_have_room_for_is_noted(db: Database) -> None:
    async with Runtime(db, schema=Plain, stages=[]) as runtime:
        await runtime.run_turn("a", "Hi")

    assert list((await db.thread("a").state())["diagnostics"]) == ["turn_total_ms"]
