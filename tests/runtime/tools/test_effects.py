"""The effect ledger: intent before, result after, and what a rewind does not undo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clew.core.clock import now_ms
from clew.core.errors import StoreUnavailable
from clew.core.ops import Set
from clew.database.database import Database
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from clew.runtime.state.call_state import Replay, UseResult
from clew.runtime.tools.effects import external_effects
from clew.runtime.tools.tool import NOT_HAPPENED, Effect, Tool, ToolContext, tool
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls


@tool(effect=Effect.NONE)
async def look(city: str) -> str:
    """Look at a map."""
    return city


@tool(effect=Effect.IDEMPOTENT)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(approval=True)
async def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


LOOK, PAY, SEND = (
    ("c1", "look", {"city": "Oslo"}),
    ("c2", "pay", {"amount": 5}),
    ("c3", "send", {"to": "Ann"}),
)
TOOLS = [look, pay, send]


@pytest.mark.promise("B-04")
async def test_the_intent_is_durable_before_the_effect(db: Database) -> None:
    at_effect: list[Any] = []

    @tool
    async def act(context: ToolContext) -> None:
        state = await db.thread("a").state()
        at_effect.append((state["$calls"]["c1"], context.key))

    async with Runtime(db, model=ScriptedModel(calls(("c1", "act", {})), "Done."), tools=[act]) as runtime:
        await runtime.run_turn("a", "Act")

    [(intent, key)] = at_effect
    assert intent == {"tool": "act", "status": "intended", "key": key}
    assert (await db.thread("a").state())["$calls"] == {}


@pytest.mark.promise("B-04")
async def test_only_calls_that_may_touch_the_world_are_noted(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel(calls(LOOK, PAY, SEND)), tools=TOOLS) as runtime:
        await runtime.run_turn("a", "Go")

    change = (await db.thread("a").changesets())[1]
    paths = [op.path for op in change.patches if isinstance(op, Set) and op.path[0] == "$calls"]
    assert paths == [("$calls", "c2")]


@pytest.mark.promise("B-04")
async def test_without_a_durable_intent_a_person_is_asked_first(db: Database) -> None:
    """Whether to ask changes its mind after the intent was, or was not, noted."""
    answers = iter([True, False])
    call_log: list[str] = []

    @tool(approval=lambda arguments: next(answers))
    async def act() -> str:
        call_log.append("act")
        return "done"

    async with Runtime(db, model=ScriptedModel(calls(("c1", "act", {}))), tools=[act]) as runtime:
        result = await runtime.run_turn("a", "Act")

    assert ([waiting.why for waiting in result.waiting], call_log) == (["approval"], [])


@pytest.mark.promise("B-03", "B-04")
async def test_effects_between_two_versions_are_listed(db: Database) -> None:
    model = ScriptedModel(calls(LOOK, PAY, SEND), "Done.", calls(PAY), "Again.")
    async with Runtime(db, model=model, tools=TOOLS) as runtime:
        waits = await runtime.run_turn("a", "Go")
        first = await runtime.resume("a", {"c3": Replay()})
        second = await runtime.run_turn("a", "Once more")

    thread = db.thread("a")
    everything = await external_effects(thread)
    assert [(effect.tool, effect.call, effect.output, effect.run) for effect in everything] == [
        ("pay", "c2", "paid 5", waits.run),
        ("send", "c3", "sent to Ann", waits.run),
        ("pay", "c2", "paid 5", second.run),
    ]
    assert len({effect.key for effect in everything}) == 3
    assert await external_effects(thread, after=first.version) == everything[2:]
    assert await external_effects(thread, after=waits.version, upto=first.version) == everything[1:2]
    assert await external_effects(thread, after=2, upto=waits.version) == everything[:1]


@pytest.mark.promise("B-03", "B-04")
async def test_a_call_that_a_person_answered_has_no_effect(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel(calls(SEND), "Done."), tools=TOOLS) as runtime:
        await runtime.run_turn("a", "Go")
        await runtime.resume("a", {"c3": UseResult("no")})

    assert await external_effects(db.thread("a")) == []


@pytest.mark.promise("B-03", "B-04", "B-05")
async def test_a_call_that_was_cancelled_at_work_is_in_doubt(db: Database) -> None:
    start = asyncio.Event()

    @tool
    async def act() -> None:
        start.set()
        await asyncio.Event().wait()

    async with Runtime(db, model=ScriptedModel(calls(("c1", "act", {}))), tools=[act]) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Act"))
        await start.wait()
        open_now = await external_effects(db.thread("a"))
        await runtime.cancel("a")
        result = await turn

    [effect] = await external_effects(db.thread("a"))
    last = (await db.thread("a").items(last=1))[0]
    run = await db.records.get("run", result.run)
    assert [(effect.call, effect.in_doubt, effect.version) for effect in open_now] == [("c1", True, 0)]
    assert (effect.tool, effect.run, effect.in_doubt, effect.version) == ("act", result.run, True, 3)
    assert last.body["content"].endswith("Whether these had their effect is not known: act (c1).")
    assert run.body["in_doubt"] == ["c1"]


@pytest.mark.promise("B-04", "T-10")
async def test_a_result_that_could_not_be_kept_at_once_is_kept_with_the_end(db: Database) -> None:
    store = FailingStore(db.store, fail_at=3, how="error", only="change")
    async with Runtime(Database(store), model=ScriptedModel(calls(PAY)), tools=TOOLS) as runtime:
        with pytest.raises(StoreUnavailable):
            await runtime.run_turn("a", "Pay")

    assert [(effect.call, effect.in_doubt) for effect in await external_effects(db.thread("a"))] == [
        ("c2", False)
    ]
    assert (await db.thread("a").head()).counters.open == {}


# A process that is gone, as another one sees it.

HOUR = 3_600_000


@asynccontextmanager
async def runtime_after_crash(
    db: Database, tool_again: Tool | None, name: str = "act"
) -> AsyncIterator[Runtime]:
    """A runtime that comes upon a run which somebody left in the middle of a call, an hour ago."""
    start, never = asyncio.Event(), asyncio.Event()

    @tool(name=name, effect=Effect.IDEMPOTENT)
    async def hang(to: str) -> None:
        start.set()
        await never.wait()

    model = ScriptedModel(calls(("c1", name, {"to": "Ann"})))
    tools = [] if tool_again is None else [tool_again]
    async with Runtime(db, model=model, tools=[hang]) as dead_runtime:
        turn = asyncio.create_task(dead_runtime.run_turn("a", "Act"))
        await start.wait()
        later = Runtime(
            db,
            model=ScriptedModel("Done."),
            tools=tools,
            config=RuntimeConfig(leases=LeaseConfig(sweep_seconds=HOUR), clock=lambda: now_ms() + HOUR),
        )
        yield later
        await later.close()
        await dead_runtime.close()
        await asyncio.wait([turn])
        turn.exception()


def effect_tool(effect: Effect, call_log: list[str], check: Any = None) -> Tool:
    """A tool with some effect."""

    @tool(effect=effect, check=check)
    async def act(to: str, context: ToolContext) -> str:
        call_log.append(context.key)
        return f"done for {to}"

    return act


async def output(db: Database) -> Any:
    """What the call was answered."""
    return [item.body["output"] for item in await db.thread("a").items() if item.kind == "result"]


@pytest.mark.promise("B-04")
@pytest.mark.parametrize("effect", [Effect.NONE, Effect.IDEMPOTENT])
async def test_what_may_be_repeated_is_called_again_with_its_key(db: Database, effect: Effect) -> None:
    call_log: list[str] = []
    async with runtime_after_crash(db, effect_tool(effect, call_log)) as runtime:
        key = (await db.thread("a").state())["$calls"]["c1"]["key"]
        result = await runtime.resume("a")

    assert (result.text, call_log, await output(db)) == ("Done.", [key], ["done for Ann"])


@pytest.mark.promise("B-04")
@pytest.mark.parametrize(
    ("answer", "outputs", "times"), [("sent", ["sent"], 0), (NOT_HAPPENED, ["done for Ann"], 1)]
)
@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_what_can_be_checked_is_called_only_if_the_check_says_so(
    db: Database, answer: Any, outputs: list[str], times: int, kind: str
) -> None:
    call_log: list[str] = []
    checks: list[str] = []

    def look(context: ToolContext) -> Any:
        checks.append(context.key)
        return answer

    async def look_slowly(context: ToolContext) -> Any:
        return look(context)

    async with runtime_after_crash(
        db, effect_tool(Effect.CHECKABLE, call_log, look_slowly if kind == "async" else look)
    ) as runtime:
        key = (await db.thread("a").state())["$calls"]["c1"]["key"]
        await runtime.resume("a")

    assert (await output(db), call_log, checks) == (outputs, [key] * times, [key])


def count(number: int) -> int:
    return number


def fail(context: ToolContext) -> str:
    raise ConnectionError("no answer")


@pytest.mark.promise("B-04")
@pytest.mark.parametrize(
    ("act", "question"),
    [
        (effect_tool(Effect.UNKNOWN, []), {"in_doubt": "act"}),
        (effect_tool(Effect.CHECKABLE, [], fail), {"in_doubt": "act", "check": "ConnectionError: no answer"}),
        (tool(name="act", effect=Effect.IDEMPOTENT)(count), {"in_doubt": "act"}),
        (None, {"in_doubt": "act"}),
    ],
    ids=["unknown effect", "a check that fails", "other arguments by now", "no such tool by now"],
)
async def test_what_nobody_can_tell_a_person_is_asked(db: Database, act: Tool | None, question: Any) -> None:
    async with runtime_after_crash(db, act) as runtime:
        result = await runtime.resume("a")
        end = await runtime.resume("a", {"c1": UseResult("it arrived")})

    [waiting] = result.waiting
    assert (waiting.why, waiting.question, waiting.arguments) == ("in doubt", question, {"to": "Ann"})
    assert (end.text, await output(db)) == ("Done.", ["it arrived"])


@pytest.mark.promise("B-04", "B-05")
async def test_cancelling_what_is_in_doubt_leaves_it_in_doubt(db: Database) -> None:
    async with runtime_after_crash(db, effect_tool(Effect.UNKNOWN, [])) as runtime:
        result = await runtime.resume("a")
        await runtime.cancel("a")

    [effect] = await external_effects(db.thread("a"))
    run = await db.records.get("run", result.run)
    repair = (await db.thread("a").items(last=1))[0]
    assert (effect.call, effect.in_doubt, run.body["in_doubt"]) == ("c1", True, ["c1"])
    assert repair.body["content"].endswith("not known: act (c1).")


@pytest.mark.promise("B-04")
async def test_a_run_that_was_taken_over_keeps_nothing_of_its_tool(db: Database) -> None:
    async with runtime_after_crash(db, effect_tool(Effect.IDEMPOTENT, [])) as runtime:
        await runtime.resume("a")
        version = (await db.thread("a").head()).version

    assert (await db.thread("a").head()).version == version
