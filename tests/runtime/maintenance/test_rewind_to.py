"""Going back to a version: history and state as they were, and what cannot be taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.core.errors import (
    InvalidArgument,
    LeaseLost,
    ModelFailed,
    RewindRefused,
    TranscriptBroken,
    VersionNotFound,
)
from clew.core.items import user
from clew.core.values import Item
from clew.database.database import Database
from clew.runtime.execution.rollback import RewindResult
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import Replay, UseResult
from clew.runtime.tools.tool import Effect, Tool, tool
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.maintenance.rewinds import (
    FAILURE,
    PAY,
    Diary,
    contents,
    failing_turn,
    look,
    note,
    pay,
    runs,
    runtime_of,
    waiting_stage,
)


@pytest.mark.promise("S-13", "B-03")
async def test_history_and_state_become_what_they_were(db: Database) -> None:
    stages = [note, respond()]
    model = ScriptedModel("One.", "Two.", "Three.", "Four.")
    async with Runtime(db, schema=Diary, model=model, stages=stages) as runtime:
        first = await runtime.run_turn("a", "a")
        await runtime.run_turn("a", "b")
        await runtime.run_turn("a", "c")
        last = (await db.thread("a").head()).version
        result = await runtime.rewind("a", to=first.version)
        again = await runtime.run_turn("a", "d")

    assert (result.version, result.items_removed, result.items_restored) == (last + 1, 6, 0)
    assert await contents(db, at=result.version) == ["a", "One."]
    assert await contents(db, at=result.version, log="moods") == ["mood a"]
    assert (await db.thread("a").state(at=result.version))["progress"] == {"a": 1}
    assert await contents(db, at=last) == ["a", "One.", "b", "Two.", "c", "Three."]
    assert await contents(db) == ["a", "One.", "d", "Four."]
    assert again.text == "Four."
    assert (await db.thread("a").verify()).ok


async def test_what_was_popped_since_comes_back(db: Database) -> None:
    async with runtime_of(db, "One.", "Two.") as runtime:
        first = await runtime.run_turn("a", "1")
        await db.thread("a").log().pop()
        await runtime.run_turn("a", "2")
        result = await runtime.rewind("a", to=first.version)

    assert await contents(db) == ["1", "One."]
    assert (result.items_removed, result.items_restored) == (2, 1)


async def test_a_result_that_was_popped_comes_back_to_its_call(db: Database) -> None:
    script = (calls(("c1", "look", {"amount": 1})), "Seen.", "Hello.")
    async with runtime_of(db, *script, tools=[look]) as runtime:
        first = await runtime.run_turn("a", "Look")
        await db.thread("a").log().pop()
        await db.thread("a").log().pop()
        await runtime.run_turn("a", "Hi")
        await runtime.rewind("a", to=first.version)

    assert await contents(db) == ["Look", "call", "result", "Seen."]
    assert (await db.thread("a").head()).counters.open == {}


async def test_going_back_before_a_compaction_brings_the_messages_back(db: Database) -> None:
    async def summary(messages: object) -> str:
        return "They met."

    async with runtime_of(db, "One.", "Two.") as runtime:
        before = await runtime.run_turn("a", "1")
        await runtime.compact("a", keep=0, summarize=summary)
        await runtime.run_turn("a", "2")
        await runtime.rewind("a", to=before.version)

    assert await contents(db) == ["1", "One."]
    assert "summary" not in (await db.thread("a").state())["$thread"]


async def test_going_back_into_the_middle_of_a_run_leaves_its_calls_as_they_were(db: Database) -> None:
    async with runtime_of(db, calls(PAY), "Paid.", "Hello.", tools=[pay]) as runtime:
        await runtime.run_turn("a", "Pay")
        await runtime.rewind("a", to=2)
        middle = await contents(db)
        await runtime.run_turn("a", "Hi")

    assert middle == ["Pay", "call"]
    assert await contents(db) == [
        "Pay",
        "call",
        "The run was interrupted before the tool answered.",
        "Hi",
        "Hello.",
    ]


async def test_a_version_that_is_not_there_or_is_now_cannot_be_gone_back_to(db: Database) -> None:
    async with runtime_of(db, "One.") as runtime:
        result = await runtime.run_turn("a", "1")

        with pytest.raises(VersionNotFound):
            await runtime.rewind("a", to=result.version + 1)
        with pytest.raises(InvalidArgument):
            await runtime.rewind("a", to=result.version)
        with pytest.raises(InvalidArgument):
            await runtime.rewind("a")


async def test_going_back_to_nothing_leaves_an_empty_thread_that_goes_on(db: Database) -> None:
    async with runtime_of(db, "One.", "Two.") as runtime:
        await runtime.run_turn("a", "1")
        await runtime.rewind("a", to=0)
        empty = await contents(db)
        await runtime.run_turn("a", "2")

    assert (empty, await contents(db)) == ([], ["2", "Two."])


@pytest.mark.promise("B-01")
async def test_a_frozen_run_cannot_write_behind_a_rewind(db: Database) -> None:
    start, go = asyncio.Event(), asyncio.Event()
    stages = [waiting_stage(start, go), respond()]
    config = RuntimeConfig(new_id=runs(), clock=lambda: 0)
    later = Runtime(
        db, config=RuntimeConfig(clock=lambda: 1_000_000)
    )  # it is not opened, so that no sweep closes the run first
    async with Runtime(db, model=ScriptedModel("Late."), stages=stages, config=config) as frozen:
        turn = asyncio.create_task(frozen.run_turn("a", "Hi"))
        await start.wait()
        await later.rewind("a", "run1")
        go.set()

        with pytest.raises(LeaseLost):
            await turn
    assert await contents(db) == []


# What is not taken back.


async def rewind_run(db: Database, decision: Replay | UseResult | None, *tools: Tool) -> RewindResult:
    """A turn that calls ``pay``, decided so, and then taken back."""
    async with runtime_of(db, calls(PAY), "Done.", tools=list(tools)) as runtime:
        await runtime.run_turn("a", "Pay")
        if decision is not None:
            await runtime.resume("a", {"c1": decision})
        return await runtime.rewind("a", "run1")


@pytest.mark.promise("B-03", "S-13")
async def test_effects_that_are_not_taken_back_are_listed(db: Database) -> None:
    result = await rewind_run(db, None, pay)

    assert [(effect.tool, effect.call, effect.output, effect.in_doubt) for effect in result.effects] == [
        ("pay", "c1", "paid 5", False)
    ]


async def test_a_tool_without_effects_is_not_listed(db: Database) -> None:
    @tool(effect=Effect.NONE, name="pay")
    async def harmless(amount: int) -> str:
        """Only look."""
        return "seen"

    assert (await rewind_run(db, None, harmless)).effects == ()


async def test_a_call_that_was_denied_is_not_listed(db: Database) -> None:
    @tool(approval=True, name="pay")
    async def asking(amount: int) -> str:
        """Pay, if allowed."""
        return "paid"

    assert (await rewind_run(db, UseResult("denied"), asking)).effects == ()


async def test_a_fork_is_rewound_and_its_parent_is_not(db: Database) -> None:
    async with runtime_of(db, "One.", FAILURE) as runtime:
        await runtime.run_turn("a", "1")
        await failing_turn(runtime, "2")
        fork = await runtime.fork("a", "b")
        await runtime.rewind("b", "run2")

    assert [item.body["content"] for item in await fork.items()] == ["1", "One."]
    assert await contents(db) == ["1", "One.", "2"]


async def test_a_guest_item_survives_a_rewind_to_its_version(db: Database) -> None:
    thread = await db.create("a")
    await thread.append(items=[Item(body={"content": "x"}, format="guest", role="user")])
    await thread.append(items=[user("y")])
    async with runtime_of(db) as runtime:
        await runtime.rewind("a", to=1)

    assert [(item.format, item.body) for item in await thread.items()] == [("guest", {"content": "x"})]


# Whatever happened before.

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["turn", "tool", "fail", "pop", "clear", "compact", "undo", "back"]),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=12,
)


async def act(runtime: Runtime, db: Database, action: str, number: int) -> None:
    """One thing that can happen to a thread; what cannot happen now is left out."""
    thread = db.thread("a")
    version = (await thread.head()).version
    match action:
        case "pop":
            await thread.log().pop()
        case "clear":
            await thread.log().clear()
        case "compact":
            await runtime.compact("a", keep=number % 5, summarize=in_short)
        case "undo":
            await runtime.rewind("a", compaction=1 + number % version)
        case "back":
            await runtime.rewind("a", to=number % (version + 1))
        case _:
            await runtime.run_turn("a", action)


async def in_short(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


def by_message(request: ModelRequest) -> object:
    """What a model answers, by what the user said last."""
    last = max(at for at, message in enumerate(request.messages) if message.role == "user")
    if request.messages[last].text == "fail":
        return FAILURE
    if request.messages[last].text == "tool" and request.messages[-1].kind != "result":
        return calls(("c1", "look", {"amount": 1}))
    return f"answer {len(request.messages)}"


async def snapshot(db: Database) -> tuple[list[object], object, object]:
    """What a rewind must bring back: the history, which calls are open, and the state but for the run's."""
    head = await db.thread("a").head()
    items = await db.thread("a").items()
    state = {key: value for key, value in head.state.items() if key not in ("$run", "$calls")}
    return [(item.kind, item.call, item.body) for item in items], head.counters.open, state


@pytest.mark.promise("S-13", "S-14", "T-13")
@settings(deadline=None, max_examples=60)
@given(ACTIONS)
def test_every_version_can_be_gone_back_to_whatever_happened_since(actions: list[tuple[str, int]]) -> None:
    async def check() -> None:
        async with clew.open("memory://") as db:
            runtime = Runtime(db, model=ScriptedModel(*[by_message] * 99), tools=[look])
            await runtime.run_turn("a", "turn")
            snapshots = {(await db.thread("a").head()).version: await snapshot(db)}
            for action, number in actions:
                with suppress(ModelFailed, InvalidArgument, RewindRefused, TranscriptBroken):
                    await act(runtime, db, action, number)
                snapshots[(await db.thread("a").head()).version] = await snapshot(db)
            last = (await db.thread("a").head()).version
            for version in sorted(snapshots.keys() - {last}):
                await runtime.rewind("a", to=version)

                assert await snapshot(db) == snapshots[version]
            assert (await db.thread("a").verify()).ok

    asyncio.run(check())
