"""A message that does not wait: it cuts the running answer short, or takes the running turn back."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

import clew
from clew.core.errors import RewindRefused, ThreadOfAnotherAgent, TurnSuspended
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.execution.start import BusyPolicy
from clew.runtime.execution.takeover import request_stop
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.events import Event, MessageAdded, RunFinished, RunStarted
from clew.runtime.records.runs import KIND, Run, run_of
from clew.runtime.respond.guardrails import guardrail
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from clew.runtime.tools.tool import Effect, tool
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.execution.half_answer import HalfAnswer, half_an_answer, next_line

LONG_LEASE = RuntimeConfig(leases=LeaseConfig(seconds=600))
"""A lease that is not renewed within a test: whoever is stopped before has seen the request itself."""


async def texts_of(db: Database) -> list[str]:
    return [str(item.body.get("content")) for item in await db.thread("a").items()]


async def runs_of(db: Database) -> list[Run]:
    return [run_of(record) for record in await db.records.find(RecordQuery(kind=KIND))]


async def terminations(db: Database) -> list[str | None]:
    return [run.termination for run in await runs_of(db)]


async def until_idle(runtime: Runtime) -> None:
    """Return once no turn is at work or about to begin."""
    while not runtime.is_idle:  # noqa: ASYNC110  # nothing announces it
        await asyncio.sleep(0.01)


# Interrupt.


@pytest.mark.promise("R-24")
async def test_an_interrupted_answer_stays_as_far_as_it_was_said(db: Database) -> None:
    half = HalfAnswer()
    async with Runtime(db, model=ScriptedModel(half.line, "Two."), config=LONG_LEASE) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await half.is_said.wait()
        second = await runtime.run_turn("a", "2", busy="interrupt")
        cut = await first

    assert (cut.termination, cut.text, second.text) == ("superseded", "Half of ", "Two.")
    assert await texts_of(db) == ["1", "Half of ", "2", "Two."]
    assert await terminations(db) == ["superseded", "natural"]


async def test_a_reader_a_client_and_a_model_can_tell_an_answer_that_was_cut_short(db: Database) -> None:
    half = HalfAnswer()
    model = ScriptedModel(half.line, "Two.")

    async def events_of_turn(runtime: Runtime) -> list[Event]:
        return [event async for event in runtime.stream_turn("a", "1")]

    async with Runtime(db, model=model) as runtime:
        first = asyncio.create_task(events_of_turn(runtime))
        await half.is_said.wait()
        await runtime.run_turn("a", "2", busy="interrupt")
        events = await first

    item = (await db.thread("a").items())[1]
    added = [event.message.meta for event in events if isinstance(event, MessageAdded)]
    assert item.body["meta"] == {"cut_short": True}
    assert added == [{}, {"cut_short": True}]
    assert [event.termination for event in events if isinstance(event, RunFinished)] == ["superseded"]
    assert model.requests[-1].messages[1].text == "Half of  [cut short by the next message]"


async def test_nothing_is_added_for_an_answer_that_had_not_begun(db: Database) -> None:
    asked, never = asyncio.Event(), asyncio.Event()

    def ask(request: ModelRequest) -> list[asyncio.Event | str]:
        asked.set()
        return [never, "One."]

    async with Runtime(db, model=ScriptedModel(ask, "Two.")) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await asked.wait()
        await runtime.run_turn("a", "2", busy="interrupt")
        await first

    assert await texts_of(db) == ["1", "2", "Two."]


async def test_an_answer_that_a_guardrail_has_not_seen_is_not_stored(db: Database) -> None:
    @guardrail
    async def polite(text: str, ctx: clew.Context) -> str | None:
        return None

    half = HalfAnswer()
    stage = respond(output_guardrails=[polite])
    async with Runtime(db, stages=[stage], model=ScriptedModel(half.line, "Two.")) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await half.is_said.wait()
        await runtime.run_turn("a", "2", busy="interrupt")
        await first

    assert await texts_of(db) == ["1", "2", "Two."]


async def test_a_free_thread_takes_the_message_at_once(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("One.", "Two.", "Three.")) as runtime:
        await runtime.run_turn("a", "1", busy="interrupt")
        await runtime.run_turn("a", "2", busy="rollback")
        await runtime.run_turn("a", "3", busy="interrupt")

    assert await texts_of(db) == ["1", "One.", "2", "Two.", "3", "Three."]


@pytest.mark.promise("T-17")
async def test_a_tool_that_is_cut_off_is_recorded_as_in_doubt(db: Database) -> None:
    reached = asyncio.Event()

    @tool(effect=Effect.UNKNOWN)
    async def pay(amount: int) -> str:
        """Pay."""
        reached.set()
        await asyncio.Event().wait()
        return "paid"

    model = ScriptedModel(calls(("c1", "pay", {"amount": 3})), "Two.")
    async with Runtime(db, model=model, tools=[pay]) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await reached.wait()
        await runtime.run_turn("a", "2", busy="interrupt")
        await first

    (cut, _) = await runs_of(db)
    assert (cut.termination, cut.in_doubt) == ("superseded", ("c1",))
    assert "not known: pay (c1)" in (await texts_of(db))[2]


@pytest.mark.promise("T-16")
async def test_calls_that_wait_for_a_decision_count_as_not_approved(db: Database) -> None:
    @tool(effect=Effect.UNKNOWN, approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError

    model = ScriptedModel(calls(("c1", "pay", {"amount": 3})), "Never mind.")
    async with Runtime(db, model=model, tools=[pay]) as runtime:
        waiting = await runtime.run_turn("a", "1")
        with pytest.raises(TurnSuspended):
            await runtime.run_turn("a", "2", busy="wait")
        result = await runtime.run_turn("a", "2", busy="interrupt")

    assert (waiting.termination, result.text) == ("suspended", "Never mind.")
    assert await terminations(db) == ["superseded", "natural"]
    assert "not approved" in model.requests[-1].messages[2].text
    assert not (await db.thread("a").head()).counters.open


async def test_turns_that_wait_are_not_cut_and_come_after(db: Database) -> None:
    half = HalfAnswer()
    model = ScriptedModel(half.line, "To the third.", "To the second.", "To the queued.")
    async with Runtime(db, model=model) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await half.is_said.wait()
        second = asyncio.create_task(runtime.run_turn("a", "2"))
        await runtime.run_turn("a", "queued", busy="queue")
        await asyncio.sleep(0)  # the second and the queued turn take their places in line
        third = await runtime.run_turn("a", "3", busy="interrupt")
        results = await asyncio.gather(first, second)
        await until_idle(runtime)

    assert third.text == "To the third."
    assert [result.termination for result in results] == ["superseded", "natural"]
    assert (await texts_of(db))[:4] == ["1", "Half of ", "3", "To the third."]
    assert set((await texts_of(db))[4::2]) == {"2", "queued"}


async def test_of_two_that_interrupt_the_later_cuts_the_earlier(db: Database) -> None:
    one, two = HalfAnswer("One "), HalfAnswer("Two ")
    async with Runtime(db, model=ScriptedModel(one.line, two.line, "Three.")) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await one.is_said.wait()
        second = asyncio.create_task(runtime.run_turn("a", "2", busy="interrupt"))
        third = asyncio.create_task(runtime.run_turn("a", "3", busy="interrupt"))
        results = await asyncio.gather(first, second, third)

    assert [result.termination for result in results] == ["superseded", "superseded", "natural"]
    assert [text for text in await texts_of(db) if text in "123"] == ["1", "2", "3"]


@pytest.mark.promise("B-01")
async def test_a_turn_sent_twice_does_not_interrupt_itself(db: Database) -> None:
    half = HalfAnswer()
    go = asyncio.Event()
    half.line[2] = go
    async with Runtime(db, model=ScriptedModel(half.line)) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1", key="k", busy="interrupt"))
        await half.is_said.wait()
        again = asyncio.create_task(runtime.run_turn("a", "1", key="k", busy="interrupt"))
        await asyncio.sleep(0.2)  # long enough to be noticed by the turn at work, if it asked it to stop
        go.set()
        results = await asyncio.gather(first, again)

    assert [(result.text, result.termination) for result in results] == [
        ("Half of an answer.", "natural"),
        ("Half of an answer.", "natural"),
    ]


async def test_a_run_that_ended_before_it_saw_the_request_keeps_its_answer(db: Database) -> None:
    half, go = HalfAnswer(), asyncio.Event()
    half.line[2] = go
    async with Runtime(db, model=ScriptedModel(half.line, "Two.")) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await half.is_said.wait()
        (run,) = await runs_of(db)
        await request_stop(db, await db.thread("a").head(), run, "rolled_back")
        go.set()  # before the watch of the run has its turn
        result = await first
        await runtime.run_turn("a", "2", busy="rollback")

    assert result.termination == "natural"
    assert await texts_of(db) == ["1", "Half of an answer.", "2", "Two."]


@pytest.mark.promise("B-16")
async def test_another_agent_cannot_end_a_run(db: Database) -> None:
    half, go = HalfAnswer(), asyncio.Event()
    half.line[2] = go
    async with Runtime(db, agent="mine", model=ScriptedModel(half.line)) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await half.is_said.wait()
        async with Runtime(db, agent="other", model=ScriptedModel("No.")) as other:
            for busy in ("interrupt", "rollback"):
                with pytest.raises(ThreadOfAnotherAgent):
                    await other.run_turn("a", "2", busy=busy)
        go.set()

        assert (await first).termination == "natural"


# Roll back.


async def test_a_turn_that_is_rolled_back_leaves_the_history_and_stays_in_the_log(db: Database) -> None:
    half = HalfAnswer()
    async with Runtime(db, model=ScriptedModel("Zero.", half.line, "Two.")) as runtime:
        await runtime.run_turn("a", "0")
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await half.is_said.wait()
        second = await runtime.run_turn("a", "2", busy="rollback")
        taken_back = await first

    past = [str(item.body["content"]) for item in await db.thread("a").items(whole=True)]
    assert (taken_back.termination, second.text) == ("rolled_back", "Two.")
    assert await texts_of(db) == ["0", "Zero.", "2", "Two."]
    assert "1" in past
    assert await terminations(db) == ["natural", "rolled_back", "natural"]


async def test_effects_of_a_turn_that_is_rolled_back_are_reported(db: Database) -> None:
    reached = asyncio.Event()

    @tool(effect=Effect.UNKNOWN)
    async def pay(amount: int) -> str:
        """Pay."""
        if amount > 3:
            reached.set()
            await asyncio.Event().wait()
        return "paid"

    first_calls = calls(("c1", "pay", {"amount": 3}))
    model = ScriptedModel(first_calls, calls(("c2", "pay", {"amount": 4})), "Two.")
    async with Runtime(db, model=model, tools=[pay]) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await reached.wait()
        events = [event async for event in runtime.stream_turn("a", "2", busy="rollback", key="k")]
        result = await runtime.run_turn("a", "2", key="k")
        await first

    expected = [("c1", "paid", False), ("c2", None, True)]
    (started,) = [event for event in events if isinstance(event, RunStarted)]
    assert [(each.call, each.output, each.in_doubt) for each in result.effects] == expected
    assert [(each.call, each.output, each.in_doubt) for each in started.effects] == expected
    assert await texts_of(db) == ["2", "Two."]


@pytest.mark.promise("T-16")
async def test_a_turn_that_waits_for_a_decision_is_rolled_back(db: Database) -> None:
    @tool(effect=Effect.UNKNOWN, approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError

    model = ScriptedModel(calls(("c1", "pay", {"amount": 3})), "Two.")
    async with Runtime(db, model=model, tools=[pay]) as runtime:
        await runtime.run_turn("a", "1")
        result = await runtime.run_turn("a", "2", busy="rollback")

    assert (result.text, result.effects) == ("Two.", ())
    assert await texts_of(db) == ["2", "Two."]
    assert await terminations(db) == ["rolled_back", "natural"]


async def test_a_roll_back_that_was_asked_for_is_done_by_the_next_turn(db: Database) -> None:
    half = HalfAnswer()
    async with Runtime(db, model=ScriptedModel(half.line, "Two.")) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await half.is_said.wait()
        (run,) = await runs_of(db)
        await request_stop(db, await db.thread("a").head(), run, "rolled_back")  # and then it is gone
        await first
        await runtime.run_turn("a", "2")

    assert await texts_of(db) == ["2", "Two."]


async def test_a_turn_that_others_wrote_behind_is_not_rolled_back(db: Database) -> None:
    half = HalfAnswer()
    async with Runtime(db, model=ScriptedModel(half.line, "Three.")) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await half.is_said.wait()
        await db.thread("a").append(items=[clew.user("Beside it.")])
        with pytest.raises(RewindRefused):
            await runtime.run_turn("a", "2", busy="rollback")
        cut = await first
        await runtime.run_turn("a", "3")

    assert cut.termination == "rolled_back"
    assert await texts_of(db) == ["1", "Beside it.", "3", "Three."]
    assert await terminations(db) == ["superseded", "natural"]


async def test_a_run_with_a_safe_reply_is_never_taken_back(db: Database) -> None:
    reached = asyncio.Event()

    async def guard(state: clew.Conversation, ctx: clew.Context) -> clew.Delta:
        if state.message == "help":
            ctx.turn.set_safe_reply("Call this number.")
            reached.set()
            await asyncio.Event().wait()
        return {}

    stages = [guard, respond()]
    async with Runtime(db, stages=stages, model=ScriptedModel("Two.")) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "help"))
        await reached.wait()
        await runtime.run_turn("a", "2", busy="rollback")
        await first

    assert await texts_of(db) == ["help", "Call this number.", "2", "Two."]


# In whatever process.


@pytest.mark.promise("T-17")
async def test_an_answer_of_another_process_is_interrupted_at_once(shared_url: str) -> None:
    async with half_an_answer(shared_url) as process, clew.open(shared_url) as db:
        async with Runtime(db, model=ScriptedModel("Two.")) as runtime:
            start = time.monotonic()
            await runtime.run_turn("a", "2", busy="interrupt")
            seconds = time.monotonic() - start

        assert await next_line(process) == "superseded"
        assert await texts_of(db) == ["1", "Half of ", "2", "Two."]
        assert seconds < 5  # a lease is renewed after ten


async def test_a_turn_goes_before_those_that_wait_in_line_in_the_process_of_the_run_it_ends(
    shared_url: str,
) -> None:
    async with half_an_answer(shared_url, "2") as process, clew.open(shared_url) as db:
        async with Runtime(db, model=ScriptedModel("To the third.")) as runtime:
            await runtime.run_turn("a", "3", busy="interrupt")
        assert await next_line(process) == "superseded"
        await process.wait()

        assert await texts_of(db) == ["1", "Half of ", "3", "To the third.", "2", "To one in line."]


async def test_a_turn_of_another_process_is_rolled_back(shared_url: str) -> None:
    async with half_an_answer(shared_url) as process, clew.open(shared_url) as db:
        async with Runtime(db, model=ScriptedModel("Two.")) as runtime:
            await runtime.run_turn("a", "2", busy="rollback")

        assert await next_line(process) == "rolled_back"
        assert await texts_of(db) == ["2", "Two."]


async def test_a_run_of_another_process_is_cancelled_at_once(shared_url: str) -> None:
    async with half_an_answer(shared_url) as process, clew.open(shared_url) as db:
        start = time.monotonic()
        is_cancelled = await Runtime(db).cancel("a")

        assert (is_cancelled, await next_line(process)) == (True, "cancelled")
        assert time.monotonic() - start < 5


@pytest.mark.parametrize(("busy", "texts"), [("interrupt", ["1", "2", "Two."]), ("rollback", ["2", "Two."])])
@pytest.mark.parametrize("sweeps", [0, 1])
async def test_a_turn_whose_process_was_killed_gives_way(
    shared_url: str, busy: BusyPolicy, texts: list[str], sweeps: int
) -> None:
    async with half_an_answer(shared_url) as process, clew.open(shared_url) as db:
        process.kill()
        await process.wait()
        runtime = Runtime(db, model=ScriptedModel("Two."))
        for _ in range(sweeps):
            await runtime.sweep()
        await runtime.run_turn("a", "2", busy=busy)
        await runtime.close()

        assert await texts_of(db) == texts


# At random.


@pytest.mark.race
@pytest.mark.promise("T-02")
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_comes_in_whatever_order_one_turn_runs_and_no_message_is_lost(
    db: Database, seed: int
) -> None:
    chance = random.Random(seed)
    at_work, most_at_work = 0, 0

    async def stage(state: clew.Conversation, ctx: clew.Context) -> clew.Delta:
        nonlocal at_work, most_at_work
        at_work += 1
        most_at_work = max(most_at_work, at_work)
        try:
            await asyncio.sleep(chance.random() * 0.1)
        finally:
            at_work -= 1
        return {"history": [clew.Message(role="assistant", content=f"Re: {state.message}")]}

    async def send(runtime: Runtime, number: int) -> tuple[str, str]:
        await asyncio.sleep(chance.random() * 0.5)
        busy: BusyPolicy = chance.choice(["wait", "queue", "interrupt", "rollback"])
        result = await runtime.run_turn("a", str(number), busy=busy)
        return str(number), result.run

    async with Runtime(db, stages=[stage]) as one, Runtime(db, stages=[stage]) as other:
        turns = await asyncio.gather(*(send(chance.choice([one, other]), number) for number in range(12)))
        await until_idle(one)
        await until_idle(other)
        await until_idle(one)

    runs = {run.id: run.termination for run in await runs_of(db)}
    visible = await texts_of(db)
    whole = [str(item.body["content"]) for item in await db.thread("a").items(whole=True)]
    assert most_at_work == 1
    assert sorted(text for text in whole if text.isdigit()) == sorted(number for number, _ in turns)
    for number, run in turns:
        assert (number in visible) == (runs[run] != "rolled_back")
        assert (f"Re: {number}" in visible) == (runs[run] == "natural")
