"""Guardrails: a trip keeps what the user said and nothing else, and no tool runs before all have passed."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest

from clew.core.errors import DeadlineExceeded, GuardrailTripped
from clew.core.patch import append
from clew.core.values import Changeset
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.events import ErrorEvent, Event, MessageAdded, RunFinished, TextDelta
from clew.runtime.respond.guardrails import Guardrail, guardrail
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.log import StateLog
from clew.runtime.state.schema import State, input
from clew.runtime.tools.tool import tool
from clew.testing.scripted_model import ScriptedModel, calls

CALL = ("c1", "pay", {"amount": 5})


async def turn(runtime: Runtime, message: str, *, streaming: bool) -> list[Event]:
    """A turn that may fail, streamed or not, and what was told of it."""
    events: list[Event] = []
    try:
        if streaming:
            async for event in runtime.stream_turn("a", message):
                events.append(event)  # noqa: PERF401  # what was told before the error counts
        else:
            await runtime.run_turn("a", message)
    except GuardrailTripped:
        pass
    return events


async def contents(db: Database) -> list[object]:
    return [item.body.get("content", item.kind) for item in await db.thread("a").items()]


async def last_change(db: Database) -> Changeset:
    return (await db.thread("a").changesets())[-1]


def refusal_guardrail(word: str, *, parallel: bool) -> Guardrail:
    async def check(text: str, ctx: Context) -> str | None:
        return f"it says {word!r}" if word in text else None

    return Guardrail(name="no rude words", check=check, parallel=parallel)


both_ways = pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
streamed_or_not = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])


@pytest.mark.promise("S-12")
@both_ways
@streamed_or_not
async def test_a_refused_input_is_kept_and_nothing_is_made_of_it(
    db: Database, *, parallel: bool, streaming: bool
) -> None:
    stages = [respond(input_guardrails=[refusal_guardrail("darn", parallel=parallel)])]
    async with Runtime(db, model=ScriptedModel("Speculation.", "Fine."), stages=stages) as runtime:
        events = await turn(runtime, "darn", streaming=streaming)

    assert await contents(db) == ["darn"]
    meta = (await last_change(db)).run_meta or {}
    assert {key: value for key, value in meta.items() if key != "steps"} == {
        "status": "done",
        "termination": "error",
        "problem": "guardrail_tripped: Guardrail 'no rude words' refused the turn: it says 'darn'.",
        "usage": {"calls": 1, "input_tokens": 1, "output_tokens": 1} if parallel else {},
    }
    assert isinstance(events[-1], RunFinished) if streaming else events == []


@pytest.mark.promise("S-12")
@both_ways
@streamed_or_not
async def test_a_refused_answer_is_dropped_and_the_input_kept(
    db: Database, *, parallel: bool, streaming: bool
) -> None:
    stages = [respond(output_guardrails=[refusal_guardrail("darn", parallel=parallel)])]
    async with Runtime(db, model=ScriptedModel("Well, darn it."), stages=stages) as runtime:
        events = await turn(runtime, "Hi", streaming=streaming)

    assert await contents(db) == ["Hi"]
    assert [event.message.text for event in events if isinstance(event, MessageAdded)] == ["Hi"] * streaming


@pytest.mark.promise("S-12")
@both_ways
@streamed_or_not
async def test_the_turn_after_a_refused_one_goes_on_from_what_was_kept(
    db: Database, *, parallel: bool, streaming: bool
) -> None:
    model = ScriptedModel(*["Speculation."] * parallel, "Fine.")
    stages = [respond(input_guardrails=[refusal_guardrail("darn", parallel=parallel)])]
    async with Runtime(db, model=model, stages=stages) as runtime:
        await turn(runtime, "darn", streaming=streaming)
        await turn(runtime, "sorry", streaming=streaming)

    assert [message.text for message in model.requests[-1].messages] == ["darn", "sorry"]
    assert await contents(db) == ["darn", "sorry", "Fine."]


@pytest.mark.promise("S-12")
@streamed_or_not
async def test_no_tool_runs_before_a_parallel_guardrail_has_passed(db: Database, *, streaming: bool) -> None:
    answer_event, effects = asyncio.Event(), []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        effects.append("paid")
        return "paid"

    def answer(request: ModelRequest) -> Any:
        answer_event.set()
        return calls(CALL)

    @guardrail(parallel=True)
    async def slow(text: str, ctx: Context) -> str | None:
        await answer_event.wait()
        for _ in range(20):
            await asyncio.sleep(0)  # a tool that could run would have begun by now
        effects.append("refused")
        return "not today"

    stages = [respond(tools=[pay], input_guardrails=[slow])]
    async with Runtime(db, model=ScriptedModel(answer, "Paid."), stages=stages) as runtime:
        await turn(runtime, "Pay", streaming=streaming)

    assert effects == ["refused"]
    assert await contents(db) == ["Pay"]
    assert "$calls" not in await db.thread("a").state()


@pytest.mark.promise("S-12")
async def test_tools_run_once_all_guardrails_have_passed(db: Database) -> None:
    order: list[str] = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        order.append("paid")
        return "paid"

    @guardrail
    async def first(text: str, ctx: Context) -> str | None:
        order.append("first")
        return None

    @guardrail(parallel=True)
    async def beside(text: str, ctx: Context) -> str | None:
        order.append("beside")
        return None

    model = ScriptedModel(calls(CALL), "Paid.")
    stages = [respond(tools=[pay], input_guardrails=[beside, first])]
    async with Runtime(db, model=model, stages=stages) as runtime:
        result = await runtime.run_turn("a", "Pay")

    assert (order, result.text) == (["first", "beside", "paid"], "Paid.")


async def test_a_sequential_guardrail_that_trips_saves_the_model_call(db: Database) -> None:
    model = ScriptedModel("Never asked.")
    stages = [respond(input_guardrails=[refusal_guardrail("darn", parallel=False)])]
    async with Runtime(db, model=model, stages=stages) as runtime:
        with pytest.raises(GuardrailTripped) as error:
            await runtime.run_turn("a", "darn")

    assert (error.value.guardrail, error.value.problem) == ("no rude words", "it says 'darn'")
    assert model.requests == []


async def test_a_trip_ends_the_model_call_beside_it(db: Database) -> None:
    never = asyncio.Event()
    stages = [respond(input_guardrails=[refusal_guardrail("darn", parallel=True)])]
    async with Runtime(db, model=ScriptedModel(never, "Too late."), stages=stages) as runtime:
        with pytest.raises(GuardrailTripped):
            await runtime.run_turn("a", "darn")

    assert await contents(db) == ["darn"]


async def test_tool_results_that_were_kept_survive_a_refused_answer(db: Database) -> None:
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    stages = [respond(tools=[pay], output_guardrails=[refusal_guardrail("darn", parallel=False)])]
    async with Runtime(db, model=ScriptedModel(calls(CALL), "darn"), stages=stages) as runtime:
        with pytest.raises(GuardrailTripped):
            await runtime.run_turn("a", "Pay")

    assert await contents(db) == ["Pay", "call", "result"]


async def test_text_beside_tool_calls_is_checked_before_the_tools_run(db: Database) -> None:
    payments: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        payments.append(amount)
        return "paid"

    stages = [respond(tools=[pay], output_guardrails=[refusal_guardrail("darn", parallel=True)])]
    async with Runtime(db, model=ScriptedModel(calls(CALL, text="darn")), stages=stages) as runtime:
        with pytest.raises(GuardrailTripped):
            await runtime.run_turn("a", "Pay")

    assert (payments, await contents(db)) == ([], ["Pay"])


@both_ways
async def test_a_guardrail_that_fails_lets_nothing_pass(db: Database, *, parallel: bool) -> None:
    async def fail(text: str, ctx: Context) -> str | None:
        raise LookupError("no word list")

    stages = [respond(input_guardrails=[Guardrail(name="broken", check=fail, parallel=parallel)])]
    async with Runtime(db, model=ScriptedModel("Speculation."), stages=stages) as runtime:
        with pytest.raises(LookupError):
            await runtime.run_turn("a", "Hi")

    assert await contents(db) == ["Hi"]


async def test_a_guardrail_that_takes_too_long_lets_nothing_pass(db: Database) -> None:
    @guardrail(parallel=True)
    async def slow(text: str, ctx: Context) -> str | None:
        await asyncio.Event().wait()
        return None

    patience = RetryPolicy(call_seconds=0.05)
    stages = [respond(input_guardrails=[slow])]
    async with Runtime(
        db, model=ScriptedModel("Speculation."), stages=stages, config=RuntimeConfig(retry_policy=patience)
    ) as runtime:
        with pytest.raises(DeadlineExceeded) as error:
            await runtime.run_turn("a", "Hi")

    assert error.value.what == "Guardrail 'slow'"
    assert await contents(db) == ["Hi"]


async def test_a_refused_answer_is_not_heard_if_text_is_held_back(db: Database) -> None:
    stages = [respond(output_guardrails=[refusal_guardrail("darn", parallel=False)], live=False)]
    async with Runtime(db, model=ScriptedModel("darn"), stages=stages) as runtime:
        events = await turn(runtime, "Hi", streaming=True)

    assert not any(isinstance(event, TextDelta) for event in events)
    assert [event.code for event in events if isinstance(event, ErrorEvent)] == ["guardrail_tripped"]


async def test_guardrails_on_the_input_are_asked_once_in_a_turn(db: Database) -> None:
    questions: list[str] = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    @guardrail
    async def noting(text: str, ctx: Context) -> str | None:
        questions.append(text)
        return None

    stages = [respond(tools=[pay], input_guardrails=[noting])]
    async with Runtime(db, model=ScriptedModel(calls(CALL), "Paid."), stages=stages) as runtime:
        await runtime.run_turn("a", "Pay")

    assert questions == ["Pay"]


async def test_content_that_is_not_text_is_looked_at_as_json(db: Database) -> None:
    class Parts(State):
        message: Annotated[list[dict[str, str]], input]
        history: Annotated[StateLog[Message], append]
        reply: str = ""

    stages = [respond(input_guardrails=[refusal_guardrail("darn", parallel=False)])]
    async with Runtime(db, schema=Parts, model=ScriptedModel("Fine."), stages=stages) as runtime:
        with pytest.raises(GuardrailTripped):
            await runtime.run_turn("a", {"message": [{"text": "darn"}]})
