"""Two at once: turns wait, are refused or queued; changes that commute go together; others are told apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest

import clew
from clew.core.errors import InvalidArgument, KeyReused, LeaseLost, StateConflict, TurnBusy
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.execution.queue import enqueue_turn
from clew.runtime.execution.resume import resume_run
from clew.runtime.execution.start import StartedTurn, TurnRequest, start_turn, turn_request
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.runs import KIND, Run, run_id_for_key, run_of
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, StateConfig
from clew.runtime.state.run_state import RunState
from clew.runtime.tools.tool import Effect, tool
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.result import TurnResult
from clew.testing.scripted_model import ScriptedModel, calls


class Counting(clew.State):
    message: Annotated[str, clew.input]
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    scores: Annotated[dict[str, int], clew.merge]
    reply: str = ""


class Pause:
    """A line of a script that says when it is reached and waits until it may go on."""

    def __init__(self) -> None:
        self.arrival = asyncio.Event()
        self.go = asyncio.Event()

    def line(self, text: str) -> list[asyncio.Event | Callable[[ModelRequest], str]]:
        return [_ArrivalEvent(self.arrival), self.go, lambda request: text]


class _ArrivalEvent(asyncio.Event):
    """An event that announces whoever waits for it, and lets them pass."""

    def __init__(self, arrival: asyncio.Event) -> None:
        super().__init__()
        self._arrival = arrival

    async def wait(self) -> bool:  # type: ignore[override]  # asyncio says Literal[True]
        self._arrival.set()
        return True


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    return f"sunny in {city}"


async def texts_of(db: Database) -> list[str]:
    return [item.body["content"] for item in await db.thread("a").items()]


async def run_of_id(db: Database, id: str) -> Run:
    return run_of(await db.records.get(KIND, id))


@pytest.mark.promise("B-01")
async def test_a_second_turn_waits_and_stands_behind_the_first(db: Database) -> None:
    pause = Pause()
    model = ScriptedModel(*pause.line("One."), "Two.")
    async with Runtime(db, model=model) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await pause.arrival.wait()
        second = asyncio.create_task(runtime.run_turn("a", "2"))
        pause.go.set()
        await asyncio.gather(first, second)

    assert await texts_of(db) == ["1", "One.", "2", "Two."]


@pytest.mark.promise("B-01")
async def test_a_second_turn_is_refused_if_it_wants_to_be(db: Database) -> None:
    pause = Pause()
    async with Runtime(db, model=ScriptedModel(*pause.line("One."))) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await pause.arrival.wait()
        with pytest.raises(TurnBusy) as error:
            await runtime.run_turn("a", "2", busy="refuse")
        pause.go.set()
        await first

    assert 0 < error.value.retry_after_ms <= 15_000
    assert await texts_of(db) == ["1", "One."]


@pytest.mark.promise("B-01")
async def test_queued_turns_run_in_the_order_they_came(db: Database) -> None:
    pause = Pause()
    model = ScriptedModel(*pause.line("One."), "Two.", "Three.")
    async with Runtime(db, model=model) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await pause.arrival.wait()
        second = await runtime.run_turn("a", "2", busy="queue", key="second")
        third = await runtime.run_turn("a", "3", busy="queue", key="third")
        pause.go.set()
        await first
        result = await runtime.run_turn("a", "3", key="third")

    assert (second.termination, third.termination) == ("queued", "queued")
    assert await texts_of(db) == ["1", "One.", "2", "Two.", "3", "Three."]
    assert (result.run, result.text) == (third.run, "Three.")


@pytest.mark.promise("B-01")
async def test_a_queued_turn_that_is_refused_in_the_middle_keeps_the_next_waiting_no_longer(
    db: Database,
) -> None:
    def refuse(request: ModelRequest) -> str:
        raise InvalidArgument(problem="the stage does not take it")

    pause = Pause()
    model = ScriptedModel(*pause.line("One."), refuse, "Three.")
    async with Runtime(
        db, model=model, config=RuntimeConfig(leases=LeaseConfig(sweep_seconds=3600))
    ) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        await pause.arrival.wait()
        await runtime.run_turn("a", "2", busy="queue", key="second")
        await runtime.run_turn("a", "3", busy="queue", key="third")
        pause.go.set()
        await first
        async with asyncio.timeout(10):
            while (  # noqa: ASYNC110 - a queue tells nobody of its end
                await db.records.find(RecordQuery(kind="queued turn")) or not runtime.is_idle
            ):
                await asyncio.sleep(0.01)

    assert await texts_of(db) == ["1", "One.", "2", "3", "Three."]


@pytest.mark.promise("B-01")
async def test_a_queued_turn_that_cannot_begin_waits_without_a_word_lost(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    request = TurnRequest(thread="a", inputs={"message": "2"}, items=(clew.user("2"),), key="second")
    async with Runtime(
        db,
        model=ScriptedModel("One."),
        config=RuntimeConfig(state=StateConfig(version=2, upgrades={1: dict})),
    ) as newer:
        await newer.run_turn("a", "1")
    await enqueue_turn(db, run_id_for_key("a", "second"), request, now=1)
    async with Runtime(db, model=ScriptedModel("Two.")) as older:
        async with asyncio.timeout(10):
            while not (caplog.records and older.is_idle):  # noqa: ASYNC110 - it is only to be seen there
                await asyncio.sleep(0.01)

    assert "queued turn of thread a" in caplog.text
    assert len(await db.records.find(RecordQuery(kind="queued turn"))) == 1


@pytest.mark.promise("B-01")
async def test_a_queued_turn_is_begun_by_another_runtime_if_its_own_is_gone(db: Database) -> None:
    await db.create("a")
    request = TurnRequest(thread="a", inputs={"message": "2"}, items=(clew.user("2"),), key="second")
    await enqueue_turn(db, run_id_for_key("a", "second"), request, now=1)

    async with Runtime(db, model=ScriptedModel("Two.")) as other:
        result = await other.run_turn("a", "2", key="second")

    assert (result.run, result.text) == (run_id_for_key("a", "second"), "Two.")
    assert not await db.records.find(RecordQuery(kind="queued turn"))


@pytest.mark.promise("B-02")
async def test_a_turn_repeated_by_its_key_gives_the_first_result(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("One.", "Two.")) as runtime:
        first = await runtime.run_turn("a", "Hi", key="k")
        again = await runtime.run_turn("a", "Hi", key="k")

    assert again == first
    assert await texts_of(db) == ["Hi", "One."]


@pytest.mark.promise("B-02")
async def test_one_key_for_two_turns_is_refused(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("One.")) as runtime:
        await runtime.run_turn("a", "Hi", key="k")

        with pytest.raises(KeyReused):
            await runtime.run_turn("a", "Bye", key="k")


@pytest.mark.promise("B-02")
async def test_many_repetitions_at_once_run_one_turn(db: Database) -> None:
    model = ScriptedModel("One.", "Two.", "Three.")
    async with Runtime(db, model=model) as runtime:
        results = await asyncio.gather(*(runtime.run_turn("a", "Hi", key="k") for _ in range(3)))

    assert {result.text for result in results} == {"One."}
    assert len(model.requests) == 1


async def disturb_turn(
    db: Database, *ops: object, items: tuple[clew.Item, ...] = ()
) -> clew.Runtime[Counting]:
    """A turn that adds to ``scores.mine`` while somebody else commits something in the middle of it."""
    pause = Pause()
    model = ScriptedModel(*pause.line("Done."))

    async def count(state: Counting, ctx: clew.Context) -> clew.Delta:
        reply = await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=await state.history.tail(5)))
        return {
            "scores": {"mine": 1},
            "reply": reply.text,
            "history": [clew.Message(role="assistant", content="!")],
        }

    runtime = Runtime(db, schema=Counting, stages=[count], model=model)
    async with runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Count"))
        await pause.arrival.wait()
        await db.thread("a").append(patches=ops, items=items)  # type: ignore[arg-type]  # ops
        pause.go.set()
        await turn
    return runtime


@pytest.mark.promise("T-17", "R-24")
@pytest.mark.parametrize("is_finished", [False, True], ids=["at work", "done"])
async def test_a_turn_that_was_left_behind_is_taken_up_by_one_and_told_to_all(
    db: Database, monkeypatch: pytest.MonkeyPatch, *, is_finished: bool
) -> None:
    pause = Pause()
    one = Runtime(db, model=ScriptedModel(*pause.line("Once.")))
    other = Runtime(db, model=ScriptedModel())
    dead_runtime = Runtime(db, config=RuntimeConfig(leases=LeaseConfig(seconds=0)))
    await start_turn(db, turn_request(dead_runtime.schema, "a", "Hi", key="k"), dead_runtime._settings)
    first: list[asyncio.Task[TurnResult]] = []

    async def late(*args: Any, **options: Any) -> StartedTurn | TurnResult:
        """Be overtaken by the other after it was seen that nobody is at it."""
        if not first:
            first.append(asyncio.create_task(one.run_turn("a", "Hi", key="k")))
            await pause.arrival.wait()
            asyncio.get_running_loop().call_later(0 if is_finished else 0.05, pause.go.set)
            if is_finished:
                await first[0]
        return await resume_run(*args, **options)

    monkeypatch.setattr("clew.runtime.execution.scheduler.resume_run", late)
    again = await other.run_turn("a", "Hi", key="k")

    assert again == await first[0]
    assert (again.termination, await texts_of(db)) == ("natural", ["Hi", "Once."])


@pytest.mark.promise("B-01")
async def test_changes_that_commute_both_commit_without_asking_the_model_again(db: Database) -> None:
    await disturb_turn(db, clew.merge(["scores"], {"yours": 2}))

    assert (await db.thread("a").state())["scores"] == {"mine": 1, "yours": 2}
    assert (await db.thread("a").verify()).ok


@pytest.mark.promise("B-01")
async def test_a_real_conflict_comes_back_with_both_sides(db: Database) -> None:
    with pytest.raises(StateConflict) as error:
        await disturb_turn(db, clew.merge(["scores"], {"mine": 7}))

    assert (error.value.ours, error.value.theirs, error.value.path) == ("merge", "merge", ["scores"])
    assert (await db.thread("a").state())["scores"] == {"mine": 7}


@pytest.mark.promise("B-01")
async def test_messages_of_two_turns_never_interleave(db: Database) -> None:
    with pytest.raises(StateConflict) as error:
        await disturb_turn(db, items=(clew.user("I am in between"),))

    assert error.value.path == ["history"]
    assert await texts_of(db) == ["Count", "I am in between"]


@pytest.mark.promise("B-01", "T-09")
async def test_a_run_whose_answer_is_refused_has_ended(db: Database) -> None:
    async def interrupt(state: clew.Conversation, ctx: clew.Context) -> clew.Delta:
        await db.thread("a").append(items=[clew.user("I am in between")])
        return {}

    runtime = Runtime(db, model=ScriptedModel("Yes."), stages=[interrupt, respond()])
    with pytest.raises(StateConflict):
        await runtime.run_turn("a", "Hi")
    state = RunState.of(await db.thread("a").state())

    assert (state.has_ended, await texts_of(db)) == (True, ["Hi", "I am in between"])


@pytest.mark.promise("B-01", "T-17")
async def test_a_run_that_lost_its_lease_commits_nothing_more(db: Database) -> None:
    pause, clock = Pause(), [1_000_000]
    model = ScriptedModel(*pause.line("Too late."))
    async with (
        Runtime(db, model=model, config=RuntimeConfig(clock=lambda: clock[0])) as frozen,
        Runtime(db, model=ScriptedModel("Taken."), config=RuntimeConfig(clock=lambda: clock[0])) as other,
    ):
        turn = asyncio.create_task(frozen.run_turn("a", "1"))
        await pause.arrival.wait()
        clock[0] += 60_000
        await other.run_turn("a", "2")
        pause.go.set()
        with pytest.raises(LeaseLost):
            await turn

    assert await texts_of(db) == ["1", "2", "Taken."]
    assert (await db.thread("a").verify()).ok


@pytest.mark.promise("T-17")
async def test_what_a_run_cost_before_it_was_taken_over_is_counted(db: Database) -> None:
    pause, clock = Pause(), [1_000_000]
    slow_model = ScriptedModel(calls(("c1", "weather", {"city": "Oslo"})), *pause.line("Too late."))
    async with (
        Runtime(
            db, model=slow_model, tools=[weather], config=RuntimeConfig(clock=lambda: clock[0])
        ) as frozen,
        Runtime(
            db, model=ScriptedModel("Sunny."), tools=[weather], config=RuntimeConfig(clock=lambda: clock[0])
        ) as other,
    ):
        turn = asyncio.create_task(frozen.run_turn("a", "Weather?"))
        await pause.arrival.wait()
        clock[0] += 60_000
        result = await other.resume("a")
        pause.go.set()
        with pytest.raises(LeaseLost):
            await turn

    assert (result.usage.calls, (await run_of_id(db, result.run)).usage.calls) == (2, 2)


@pytest.mark.promise("T-17")
async def test_a_long_turn_keeps_its_lease(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    pause, renewals, renew = Pause(), asyncio.Semaphore(0), ThreadJournal.renew_lease

    async def renew_and_note(journal: ThreadJournal, until: int) -> Run:
        run = await renew(journal, until)
        renewals.release()
        return run

    monkeypatch.setattr(ThreadJournal, "renew_lease", renew_and_note)
    async with Runtime(
        db, model=ScriptedModel(*pause.line("One.")), config=RuntimeConfig(leases=LeaseConfig(seconds=0.6))
    ) as runtime:
        first = asyncio.create_task(runtime.run_turn("a", "1"))
        for _ in range(4):  # more than one whole lease
            await renewals.acquire()
        with pytest.raises(TurnBusy):
            await runtime.run_turn("a", "2", busy="refuse")
        pause.go.set()
        result = await first

    assert result.termination == "natural"


@pytest.mark.promise("T-17")
async def test_a_run_in_another_process_is_told_to_end(db: Database) -> None:
    pause = Pause()
    elsewhere = Runtime(db)  # it is not opened, so that no sweep looks at the run
    async with Runtime(
        db, model=ScriptedModel(*pause.line("One.")), config=RuntimeConfig(leases=LeaseConfig(seconds=1.5))
    ) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "1"))
        await pause.arrival.wait()
        is_cancelled = await elsewhere.cancel("a")
        result = await turn

    assert (is_cancelled, result.termination) == (True, "cancelled")
    assert (await run_of_id(db, result.run)).termination == "cancelled"


async def test_a_turn_whose_thread_is_made_meanwhile_goes_behind(db: Database) -> None:
    async with Runtime(db, model=ScriptedModel("One.", "Two.")) as runtime:
        await asyncio.gather(runtime.run_turn("a", "1"), runtime.run_turn("a", "2"))

    texts = await texts_of(db)
    assert texts in (["1", "One.", "2", "Two."], ["2", "One.", "1", "Two."])
