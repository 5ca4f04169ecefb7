"""Going back by one run: exactly its own end is taken away, or nothing."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.errors import (
    DecisionRefused,
    InvalidArgument,
    ModelFailed,
    OutcomeUnknown,
    RewindRefused,
    StoreUnavailable,
    TurnBusy,
    VersionConflict,
)
from clew.core.items import user
from clew.core.ops import Set
from clew.database.database import Database
from clew.runtime.records.events import Event, HistoryRewritten, RunFinished
from clew.runtime.records.runs import KIND, run_of
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import Replay
from clew.runtime.tools.tool import tool
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.maintenance.rewinds import (
    FAILURE,
    Diary,
    contents,
    failing_turn,
    look,
    note,
    runs,
    runtime_of,
    waiting_stage,
)


@pytest.mark.promise("S-13")
async def test_a_failed_attempt_is_taken_back_whole_and_alone(db: Database) -> None:
    script = ("Hello.", calls(("c1", "look", {"amount": 1})), FAILURE)
    async with runtime_of(db, *script, tools=[look]) as runtime:
        await runtime.run_turn("a", "Hi")
        await failing_turn(runtime, "Look")
        before = await contents(db)
        result = await runtime.rewind("a", "run2")

    assert before == ["Hi", "Hello.", "Look", "call", "result"]
    assert await contents(db) == ["Hi", "Hello."]
    assert (result.items_removed, result.items_restored, result.effects) == (3, 0, ())


@pytest.mark.promise("S-13")
async def test_look_alike_history_is_never_touched(db: Database) -> None:
    async with runtime_of(db, "Hello.", FAILURE) as runtime:
        await runtime.run_turn("a", "Hi")
        await failing_turn(runtime, "Hi")
        await runtime.rewind("a", "run2")

    assert await contents(db) == ["Hi", "Hello."]
    assert [item.run for item in await db.thread("a").items()] == ["run1", "run1"]


@pytest.mark.promise("S-13")
async def test_a_rewind_is_one_changeset_and_the_past_stays_readable(db: Database) -> None:
    async with runtime_of(db, FAILURE) as runtime:
        await failing_turn(runtime, "Hi")
        before = (await db.thread("a").head()).version
        result = await runtime.rewind("a", "run1")

    assert (result.version, await contents(db), await contents(db, at=before)) == (before + 1, [], ["Hi"])
    assert (await db.thread("a").verify()).ok


@pytest.mark.promise("S-13")
async def test_a_writer_behind_the_attempt_makes_a_rewind_refuse(db: Database) -> None:
    async with runtime_of(db, FAILURE) as runtime:
        await failing_turn(runtime, "Hi")
        await db.thread("a").append(items=[user("somebody else")])

        with pytest.raises(RewindRefused):
            await runtime.rewind("a", "run1")
    assert await contents(db) == ["Hi", "somebody else"]


@pytest.mark.promise("S-13")
async def test_a_writer_in_the_middle_of_a_rewind_makes_it_refuse(db: Database) -> None:
    async with runtime_of(db, FAILURE) as runtime:
        await failing_turn(runtime, "Hi")

    class Racing(FailingStore):
        async def change(self, scope, planning):  # type: ignore[no-untyped-def]  # as in the store behind
            await db.thread("a").append(patches=[Set(("seen",), value=1)])
            return await super().change(scope, planning)

    async with runtime_of(Database(Racing(db.store, fail_at=0))) as late:
        with pytest.raises(VersionConflict):
            await late.rewind("a", "run1")
    assert await contents(db) == ["Hi"]


@pytest.mark.promise("S-13")
async def test_an_attempt_of_which_something_was_taken_already_is_not_rewound(db: Database) -> None:
    async with runtime_of(db, calls(("c1", "look", {"amount": 1})), FAILURE, tools=[look]) as runtime:
        await failing_turn(runtime, "Hi")
        await db.thread("a").log().pop()

        with pytest.raises(RewindRefused):
            await runtime.rewind("a", "run1")
    assert await contents(db) == ["Hi", "call"]


@pytest.mark.promise("S-13")
async def test_a_rewind_whose_commit_fails_changes_nothing(db: Database) -> None:
    async with runtime_of(db, FAILURE) as runtime:
        await failing_turn(runtime, "Hi")

    store = FailingStore(db.store, fail_at=1, only="change")
    async with runtime_of(Database(store)) as late:
        with pytest.raises(StoreUnavailable):
            await late.rewind("a", "run1")
    assert await contents(db) == ["Hi"]


async def test_an_earlier_run_or_an_unknown_one_is_not_rewound(db: Database) -> None:
    async with runtime_of(db, "One.", "Two.") as runtime:
        await runtime.run_turn("a", "1")
        await runtime.run_turn("a", "2")

        for run in ("run1", "nobody"):
            with pytest.raises(RewindRefused):
                await runtime.rewind("a", run)
    assert await contents(db) == ["1", "One.", "2", "Two."]


@pytest.mark.promise("B-02", "S-13")
async def test_a_rewind_repeated_after_its_answer_was_lost_gives_the_first_result(db: Database) -> None:
    async with runtime_of(db, "Hello.", FAILURE) as runtime:
        await runtime.run_turn("a", "Hi")
        await failing_turn(runtime, "Hi")
        store = FailingStore(db.store, fail_at=1, how="after", only="change")
        with pytest.raises(OutcomeUnknown):
            await Runtime(Database(store)).rewind("a", "run2")
        before = (await db.thread("a").head()).version
        result = await runtime.rewind("a", "run2")

    assert (result.version, result.items_removed, await contents(db)) == (before, 1, ["Hi", "Hello."])


async def test_whoever_listens_is_told_that_the_history_was_rewritten(db: Database) -> None:
    async with runtime_of(db, FAILURE) as runtime:
        await failing_turn(runtime, "Hi")
        result = await runtime.rewind("a", "run1")
        event = await anext(runtime.events("a", after=(result.version - 1, 1 << 30)))

    assert event == HistoryRewritten(run="run1", mark=(result.version, 0), reason="Rewind", ended=1)


@pytest.mark.promise("S-13")
async def test_a_run_is_taken_out_of_every_log_it_wrote_to(db: Database) -> None:
    stages = [note, respond()]
    model = ScriptedModel("One.", FAILURE)
    async with Runtime(
        db, schema=Diary, model=model, stages=stages, config=RuntimeConfig(new_id=runs())
    ) as runtime:
        await runtime.run_turn("a", "a")
        await failing_turn(runtime, "b")
        await runtime.rewind("a", "run2")

    assert await contents(db) == ["a", "One."]
    assert await contents(db, log="moods") == ["mood a"]


@pytest.mark.promise("S-13")
async def test_a_message_that_was_taken_back_can_be_sent_again_by_its_id(db: Database) -> None:
    async with runtime_of(db, FAILURE, "Hello.") as runtime:
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "Hi", message_id="m1")
        await runtime.rewind("a", "run1")
        await runtime.run_turn("a", "Hi", message_id="m1")

    assert await contents(db) == ["Hi", "Hello."]


async def test_a_message_that_was_compacted_is_still_known_by_its_id(db: Database) -> None:
    async def summary(messages: object) -> str:
        return "They met."

    async with runtime_of(db, "Hello.", "Again?") as runtime:
        await runtime.run_turn("a", "Hi", message_id="m1")
        await runtime.compact("a", keep=0, summarize=summary)
        await runtime.run_turn("a", "Hi", message_id="m1")

    assert await contents(db) == ["They met.", "Again?"]


async def test_a_run_at_work_is_not_rewound(db: Database) -> None:
    start, go = asyncio.Event(), asyncio.Event()

    async with Runtime(db, stages=[waiting_stage(start, go)], config=RuntimeConfig(new_id=runs())) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi"))
        await start.wait()

        with pytest.raises(TurnBusy):
            await runtime.rewind("a", "run1")
        go.set()
        await turn


@pytest.mark.promise("S-13")
async def test_a_suspended_run_that_is_rewound_is_given_up(db: Database) -> None:
    @tool(approval=True)
    async def send(to: str) -> str:
        """Send."""
        return to

    events: list[Event] = []
    async with runtime_of(db, calls(("c1", "send", {"to": "Ann"})), "Hello.", tools=[send]) as runtime:
        await runtime.run_turn("a", "Write")
        result = await runtime.rewind("a", "run1")
        with pytest.raises((InvalidArgument, DecisionRefused)):
            await runtime.resume("a", {"c1": Replay()})
        async for event in runtime.events("a", after=(result.version - 1, 1 << 30)):
            events.append(event)
            if isinstance(event, RunFinished):
                break
        await runtime.run_turn("a", "Hi")

    assert await contents(db) == ["Hi", "Hello."]
    assert [type(event) for event in events] == [HistoryRewritten, RunFinished]
    assert run_of(await db.records.get(KIND, "run1")).termination == "cancelled"
