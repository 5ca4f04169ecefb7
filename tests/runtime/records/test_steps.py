"""Run steps: what a run did, with its times, tokens and cost, in the changesets that it commits anyway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import clew
from clew.core.errors import InvalidArgument, ModelFailed, RecordNotFound, StoreUnavailable
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.stateless import run_agent
from clew.runtime.model.protocol import Reply, Usage
from clew.runtime.records.steps import Price, Step, parse_prices, read_prices, run_steps
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import PassOn
from clew.runtime.state.schema import Conversation
from clew.runtime.tools.tool import Effect, tool
from clew.runtime.turn.draft import Delta
from clew.testing.clock import Clock
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.dead_store import DeadStore

DEAR = {"scripted": Price(input=2.0, output=10.0)}


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    return f"sunny in {city}"


@tool(effect=Effect.NONE, kind="code")
async def run_code(code: str) -> str:
    """Run code."""
    raise ZeroDivisionError(code)


@tool(approval=True)
async def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


async def look_up(state: Conversation, ctx: Context) -> Delta:
    with ctx.turn.step("retrieval", "handbook"):
        return {}


OSLO = ("c1", "weather", {"city": "Oslo"})


@pytest.fixture
async def local() -> AsyncIterator[Database]:
    """A database in memory, for what does not depend on the store."""
    async with clew.open("memory://") as database:
        yield database


async def kinds(db: Database, run: str, thread: str = "a") -> list[tuple[str, str]]:
    return [(step.kind, step.name) for step in await run_steps(db, thread, run)]


@pytest.mark.promise("F-12")
async def test_a_run_tells_its_steps_in_order(db: Database) -> None:
    script = ScriptedModel(calls(OSLO), calls(("c2", "run_code", {"code": "1/0"})), "Sunny.")
    stages = [look_up, respond(tools=[weather, run_code])]
    async with Runtime(db, model=script, stages=stages) as runtime:
        result = await runtime.run_turn("a", "How is it in Oslo?", user="alice")

    assert await kinds(db, result.run) == [
        ("retrieval", "handbook"),
        ("model", "scripted"),
        ("tool", "weather"),
        ("model", "scripted"),
        ("code", "run_code"),
        ("model", "scripted"),
        ("output", "reply"),
    ]


@pytest.mark.promise("F-12")
async def test_a_model_call_has_its_tokens_its_stage_and_its_times(local: Database) -> None:
    clock = Clock()

    def slowly(request: object) -> Reply:
        clock.advance(40)
        return Reply(text="Hello.", usage=Usage(calls=1, input_tokens=12, output_tokens=3))

    async with Runtime(local, model=ScriptedModel(slowly), config=RuntimeConfig(clock=clock)) as runtime:
        result = await runtime.run_turn("a", "Hi")
    step = (await run_steps(local, "a", result.run))[0]

    assert (step.input_tokens, step.output_tokens, step.stage) == (12, 3, "respond")
    assert step.started == Clock().now
    assert step.ms >= 0
    assert step.ended >= step.started


async def test_without_a_price_a_step_has_no_cost(local: Database) -> None:
    async with Runtime(local, model=ScriptedModel("Hello.")) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert [step.cost for step in await run_steps(local, "a", result.run)] == [None, None]
    assert result.usage.cost == 0


async def test_a_price_table_prices_steps_and_the_run(local: Database) -> None:
    reply = Reply(text="Hello.", usage=Usage(calls=1, input_tokens=100, output_tokens=10))
    async with Runtime(local, model=ScriptedModel(reply), config=RuntimeConfig(prices=DEAR)) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert [step.cost for step in await run_steps(local, "a", result.run)] == [300, None]
    assert result.usage.cost == 300


async def test_a_price_of_nothing_is_a_cost_of_nothing(local: Database) -> None:
    free = {"scripted": Price(input=0, output=0)}
    async with Runtime(local, model=ScriptedModel("Hello."), config=RuntimeConfig(prices=free)) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert (await run_steps(local, "a", result.run))[0].cost == 0


async def test_a_cost_that_the_model_tells_is_kept(local: Database) -> None:
    reply = Reply(text="Hello.", usage=Usage(calls=1, cost=42))
    async with Runtime(local, model=ScriptedModel(reply)) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert (await run_steps(local, "a", result.run))[0].cost == 42


async def test_what_failed_attempts_cost_is_part_of_the_step(local: Database) -> None:
    failure = ModelFailed(model="m", problem="odd", retry=True, spent={"calls": 1, "output_tokens": 7})
    async with Runtime(local, model=ScriptedModel(failure, "Hello.")) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert (await run_steps(local, "a", result.run))[0].output_tokens == 8


async def test_a_tool_that_failed_says_why(local: Database) -> None:
    script = ScriptedModel(calls(("c1", "run_code", {"code": "1/0"})), "Oh.")
    async with Runtime(local, model=script, tools=[run_code]) as runtime:
        result = await runtime.run_turn("a", "Go")

    assert [step.error for step in await run_steps(local, "a", result.run)] == [
        None,
        "ZeroDivisionError: 1/0",
        None,
        None,
    ]


async def test_an_error_that_is_no_text_does_not_keep_the_run_from_ending(local: Database) -> None:
    async def odd(state: Conversation, ctx: Context) -> Delta:
        try:
            with ctx.turn.step("retrieval", "index"):
                raise InvalidArgument(problem="\ud800" + "x" * 10_000)
        except InvalidArgument:
            return {"reply": "Never mind."}

    async with Runtime(local, stages=[odd]) as runtime:
        result = await runtime.run_turn("a", "Go")
    error = (await run_steps(local, "a", result.run))[0].error

    assert error == "invalid_argument: ?" + "x" * (500 - len("invalid_argument: ?"))


async def test_a_run_that_failed_has_the_steps_up_to_its_failure(local: Database) -> None:
    script = ScriptedModel(calls(OSLO), ModelFailed(model="m", problem="it is down"))
    async with Runtime(local, model=script, tools=[weather]) as runtime:
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "Go", key="k")
        run = (await local.thread("a").changesets())[-1].run_id or ""
    steps = await run_steps(local, "a", run)

    assert [step.kind for step in steps] == ["model", "tool", "model"]
    assert steps[-1].error == "model_failed: Model 'm' failed: it is down."


@pytest.mark.promise("F-12")
async def test_a_run_that_was_suspended_has_the_steps_of_all_its_parts(db: Database) -> None:
    script = ScriptedModel(calls(("c1", "send", {"to": "Bob"})), "Sent.")
    async with Runtime(db, model=script, tools=[send]) as runtime:
        waiting = await runtime.run_turn("a", "Write to Bob.")
        before = await kinds(db, waiting.run)
        await runtime.resume("a", {"c1": PassOn("yes")})

    assert before == [("model", "scripted")]
    assert await kinds(db, waiting.run) == [
        ("model", "scripted"),
        ("tool", "send"),
        ("model", "scripted"),
        ("output", "reply"),
    ]


async def test_a_run_that_died_has_the_steps_that_were_on_disk(local: Database) -> None:
    script = ScriptedModel(calls(OSLO), "Never.")
    dying = Runtime(Database(DeadStore(local.store, fail_at=3)), model=script, tools=[weather])
    with pytest.raises(StoreUnavailable):
        await dying.run_turn("a", "Go")
    run = (await local.thread("a").changesets())[0].run_id or ""

    assert await kinds(local, run) == [("model", "scripted")]


async def test_the_steps_of_a_run_end_where_the_next_one_begins(local: Database) -> None:
    async with Runtime(local, model=ScriptedModel("One.", "Two.")) as runtime:
        first = await runtime.run_turn("a", "Hi")
        second = await runtime.run_turn("a", "And now?")

    assert await kinds(local, first.run) == await kinds(local, second.run)
    assert len(await kinds(local, first.run)) == 2


async def test_a_run_of_another_thread_is_not_found(local: Database) -> None:
    async with Runtime(local, model=ScriptedModel("One.")) as runtime:
        result = await runtime.run_turn("a", "Hi")
        await local.create("b")

    with pytest.raises(RecordNotFound):
        await run_steps(local, "b", result.run)


async def test_steps_cost_no_trip_and_no_row(local: Database) -> None:
    store = FailingStore(local.store, fail_at=1 << 30)
    runtime = Runtime(Database(store), model=ScriptedModel("One.", "Two."))
    await runtime.run_turn("a", "Hi")
    before = store.calls
    await runtime.run_turn("a", "And now?")

    assert store.calls - before == 2


async def test_a_turn_that_keeps_nothing_is_priced_too() -> None:
    result = await run_agent("Hi", model=ScriptedModel("Hello."), prices=DEAR)

    assert result.usage.cost == 12


def test_a_price_table_is_read_from_a_file() -> None:
    table = parse_prices(b'{"openai:gpt-5": {"input": 1.25, "output": 10}}')

    assert table == {"openai:gpt-5": Price(input=1.25, output=10.0)}


@pytest.mark.parametrize("document", [b"", b"[]", b'{"m": {"input": 1}}', b'{"m": {"input": 1, "out": 2}}'])
def test_what_is_no_price_table_is_refused(document: bytes) -> None:
    with pytest.raises(InvalidArgument, match="no price table"):
        parse_prices(document)


def test_a_price_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read: No such file or directory"):
        read_prices(tmp_path / "none.json")
    assert read_prices(None) == {}


async def test_a_name_that_is_no_text_does_not_keep_the_run_from_ending(local: Database) -> None:
    model = ScriptedModel("Hello.", name="m\ud800")
    async with Runtime(local, model=model) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert (await run_steps(local, "a", result.run))[0].name == "m?"


def test_steps_take_little_room() -> None:
    plain = Step(kind="model", name="scripted", started=1_750_000_000_000, ms=812.345, stage="respond")

    assert len(msgspec.json.encode(plain)) < 120
