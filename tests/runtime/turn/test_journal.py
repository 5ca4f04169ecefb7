"""When a run is made durable: the exact sequence of checkpoints, and what happens if one fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clew.core.errors import ModelFailed, StoreUnavailable
from clew.core.values import Changeset
from clew.database.database import Database
from clew.runtime.records.episodes import active_episode
from clew.runtime.records.events import ErrorEvent, Event, RunFinished
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from clew.runtime.state.call_state import Replay
from clew.runtime.tools.tool import Effect, tool
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.dead_store import DeadStore

USER, ASSISTANT, TOOLS, RUN_FINISHED = (
    "UserMessage",
    "AssistantTurnCommitted",
    "ToolResultsCommitted",
    "RunFinished",
)


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    return f"sunny in {city}"


@tool(approval=True)
async def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


OSLO, BERGEN = ("c1", "weather", {"city": "Oslo"}), ("c2", "weather", {"city": "Bergen"})


async def checkpoints(db: Database) -> list[Changeset]:
    return await db.thread("a").changesets()


async def reasons(db: Database) -> list[str]:
    return [change.reason for change in await checkpoints(db)]


@pytest.mark.promise("T-07", "T-08")
async def test_a_plain_answer_has_three_checkpoints(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("Hello.")) as runtime:
        await runtime.run_turn("a", "Hi")

    assert await reasons(db) == [USER, ASSISTANT, RUN_FINISHED]


@pytest.mark.promise("T-08")
async def test_a_tool_adds_its_results_and_another_answer(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel(calls(OSLO), "Sunny."), tools=[weather]) as runtime:
        await runtime.run_turn("a", "Weather?")

    assert await reasons(db) == [USER, ASSISTANT, TOOLS, ASSISTANT, RUN_FINISHED]


@pytest.mark.promise("T-08")
async def test_parallel_tools_are_committed_together(db: Database) -> None:
    model = ScriptedModel(calls(OSLO, BERGEN), "Sunny.")
    async with Runtime(db, model=model, tools=[weather]) as runtime:
        await runtime.run_turn("a", "Weather?")

    changes = await checkpoints(db)
    assert [change.reason for change in changes] == [USER, ASSISTANT, TOOLS, ASSISTANT, RUN_FINISHED]
    assert [item.call for item in changes[2].items] == ["c1", "c2"]


@pytest.mark.promise("T-08", "T-16")
async def test_a_suspended_call_is_committed_and_resumed(db: Database) -> None:
    model = ScriptedModel(calls(("c1", "send", {"to": "Ann"})), "Done.")
    async with Runtime(db, model=model, tools=[send]) as runtime:
        waits = await runtime.run_turn("a", "Write to Ann")
        result = await runtime.resume("a", {"c1": Replay()})

    assert await reasons(db) == [USER, ASSISTANT, TOOLS, RUN_FINISHED, USER, TOOLS, ASSISTANT, RUN_FINISHED]
    assert ([waiting.call for waiting in waits.waiting], result.text) == (["c1"], "Done.")


@pytest.mark.promise("T-08")
async def test_a_cancelled_run_says_so(db: Database) -> None:
    start, never = asyncio.Event(), asyncio.Event()

    def ask(request: object) -> str:
        start.set()
        return "too late"

    async with Runtime(db, model=ScriptedModel(calls(OSLO), ask, never), tools=[hang(start)]) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Wait"))
        await start.wait()
        await runtime.cancel("a")
        result = await turn

    changes = await checkpoints(db)
    assert [change.reason for change in changes] == [USER, ASSISTANT, RUN_FINISHED]
    assert (changes[-1].run_meta or {})["termination"] == result.termination == "cancelled"


def hang(start: asyncio.Event):  # type: ignore[no-untyped-def]  # what `tool` gives is a Tool
    @tool(effect=Effect.NONE, name="weather")
    async def hanging(city: str) -> str:
        start.set()
        await asyncio.Event().wait()
        return city

    return hanging


@pytest.mark.promise("T-08")
async def test_a_failed_run_says_why(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel(ModelFailed(model="m", problem="it is down"))) as runtime:
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "Hi")

    changes = await checkpoints(db)
    assert [change.reason for change in changes] == [USER, RUN_FINISHED]
    assert (changes[-1].run_meta or {})["problem"] == "model_failed: Model 'm' failed: it is down."


@pytest.mark.promise("T-09")
async def test_only_the_end_is_committed_without_a_change(db: Database) -> None:
    async with Runtime(db, stages=[]) as runtime:
        await runtime.run_turn("a", "Hi")

    changes = await checkpoints(db)
    assert [(change.reason, len(change.items)) for change in changes] == [(USER, 1), (RUN_FINISHED, 0)]


@pytest.mark.promise("T-11")
async def test_streaming_follows_the_same_schedule(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel(calls(OSLO), "Sunny."), tools=[weather]) as runtime:
        [_ async for _ in runtime.stream_turn("a", "Weather?")]

    assert await reasons(db) == [USER, ASSISTANT, TOOLS, ASSISTANT, RUN_FINISHED]


@pytest.mark.promise("T-11")
async def test_an_event_is_told_only_once_it_is_durable(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel(calls(OSLO), "Sunny."), tools=[weather]) as runtime:
        early = []
        async for event in runtime.stream_turn("a", "Weather?"):
            version = (await db.thread("a").head()).version
            early += [event] if event.mark is not None and event.mark[0] > version else []

    assert early == []


async def collect(events: AsyncIterator[Event], into: list[Event]) -> None:
    async for event in events:
        into.append(event)  # noqa: PERF401  # what was told before the error counts


async def turn_failing_at(db: Database, number: int) -> tuple[list[Event], FailingStore]:
    """A turn with a tool on a store whose nth change fails, and what was told of it."""
    store = FailingStore(db.store, fail_at=number, how="error", only="change")
    model = ScriptedModel(calls(OSLO), "Sunny.")
    events: list[Event] = []
    async with Runtime(Database(store), model=model, tools=[weather]) as runtime:
        with pytest.raises(StoreUnavailable):
            await collect(runtime.stream_turn("a", "Weather?"), events)
    return events, store


@pytest.mark.promise("T-04", "T-10")
@pytest.mark.parametrize("number", [2, 3, 4])
async def test_a_failed_checkpoint_ends_the_run_with_an_error_and_keeps_the_delta(
    db: Database, number: int
) -> None:
    events, _ = await turn_failing_at(db, number)

    changes = await checkpoints(db)
    assert isinstance(events[-1], RunFinished)
    assert any(isinstance(event, ErrorEvent) and event.code == "store_unavailable" for event in events)
    assert (changes[-1].reason, (changes[-1].run_meta or {})["termination"]) == (RUN_FINISHED, "error")
    assert [len(changes), len(changes[-1].items) > 0] == [number, True]


@pytest.mark.promise("T-10")
async def test_a_failed_last_checkpoint_is_told_as_an_error_and_never_as_an_end(db: Database) -> None:
    store = FailingStore(db.store, fail_at=4, how="error", only="change")
    events: list[Event] = []
    async with Runtime(Database(store), model=ScriptedModel("Hello."), stages=[respond(), rest]) as runtime:
        with pytest.raises(StoreUnavailable):
            await collect(runtime.stream_turn("a", "Hi"), events)

    assert await reasons(db) == [USER, ASSISTANT, USER]
    assert isinstance(events[-1], ErrorEvent)
    assert not any(isinstance(event, RunFinished) for event in events)


async def rest(state: object, ctx: object) -> None:
    """A stage after the answer, which does nothing."""


@pytest.mark.promise("T-04", "T-10")
async def test_an_end_that_fails_with_the_last_answer_is_told_as_an_error_and_never_as_an_end(
    db: Database,
) -> None:
    store, events = DeadStore(db.store, fail_at=2), list[Event]()
    async with Runtime(Database(store), model=ScriptedModel("Hello.")) as runtime:
        with pytest.raises(StoreUnavailable):
            await collect(runtime.stream_turn("a", "Hi"), events)

    assert await reasons(db) == [USER]
    assert isinstance(events[-1], ErrorEvent)
    assert not any(isinstance(event, RunFinished) for event in events)


@pytest.mark.promise("T-08", "T-11")
async def test_the_last_answer_and_the_end_are_two_checkpoints_in_one_transaction(db: Database) -> None:
    store = FailingStore(db.store, fail_at=0, only="change")
    async with Runtime(
        Database(store),
        model=ScriptedModel("Hello."),
        config=RuntimeConfig(leases=LeaseConfig(sweep_seconds=3600)),
    ) as runtime:
        result = await runtime.run_turn("a", "Hi")
        calls = store.calls

    assert await reasons(db) == [USER, ASSISTANT, RUN_FINISHED]
    assert (calls, result.version) == (2, 3)


@pytest.mark.promise("T-02", "R-03")
async def test_a_thread_that_somebody_else_wrote_to_is_looked_at_afresh(db: Database) -> None:
    one, two = ScriptedModel("One.", "Three."), ScriptedModel("Two.")
    async with Runtime(db, model=one) as here, Runtime(db, model=two) as there:
        await here.run_turn("a", "1")
        await there.run_turn("a", "2")
        await here.run_turn("a", "3")

    texts = [item.body["content"] for item in await db.thread("a").items()]
    assert texts == ["1", "One.", "2", "Two.", "3", "Three."]
    assert [message.text for message in one.requests[-1].messages] == texts[:-1]


@pytest.mark.promise("R-13")
async def test_a_thread_that_was_deleted_or_ended_elsewhere_starts_anew(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("One.", "Two.", "Three.")) as runtime:
        await runtime.run_turn("a", "1")
        first = await active_episode(db, "a")
        async with Runtime(db) as elsewhere:
            await elsewhere.end_session("a")
        await runtime.run_turn("a", "2")
        second = await active_episode(db, "a")
        await db.thread("a").delete()
        result = await runtime.run_turn("a", "3")

    assert first is not None
    assert second is not None
    assert (first.id != second.id, result.version) == (True, 3)


@pytest.mark.promise("T-12")
async def test_what_goes_with_a_run_is_deleted_before_the_next_is_marked(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("One.", "Two.")) as runtime:
        await runtime.run_turn("a", "Hi")
        await runtime.run_turn("a", "Again")

    inbound = (await checkpoints(db))[3]
    assert [(type(op).__name__, op.path) for op in inbound.patches] == [
        ("Delete", ("$run",)),
        ("Set", ("$run",)),
    ]


@pytest.mark.promise("T-05")
async def test_the_committed_version_is_written_back_to_the_run(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("Hello.")) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert result.version == (await db.thread("a").head()).version == 3
