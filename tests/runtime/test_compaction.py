"""Compaction: a summary in place of old messages, by one changeset that can be taken back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import pytest

from holdfast.core.errors import (
    InvalidArgument,
    ModelFailed,
    RewindRefused,
    StoreUnavailable,
    TurnBusy,
    TurnSuspended,
    VersionConflict,
)
from holdfast.core.items import assistant, user
from holdfast.core.values import Item
from holdfast.runtime.compaction import Compaction, Gauge, by_model, tokens_of
from holdfast.runtime.context import Context
from holdfast.runtime.engine import Runtime
from holdfast.runtime.events import Event, MessageAdded, TextDelta
from holdfast.runtime.loop import respond
from holdfast.runtime.messages import Message
from holdfast.runtime.models import Reply, Request, Usage
from holdfast.runtime.schema import State
from holdfast.runtime.suspension import Replay
from holdfast.runtime.tools import Effect, tool
from holdfast.testing.faults import FailingStore
from holdfast.testing.scripted import ScriptedModel, calls
from holdfast.threads.database import Database

Summarize = Callable[[Sequence[Message]], Awaitable[str]]


async def shortly(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


async def contents(db: Database, at: int | None = None) -> list[object]:
    return [item.body.get("content", item.kind) for item in await db.thread("a").items(at=at)]


async def talked(db: Database, turns: int) -> Runtime:
    """A thread ``a`` with some turns behind it."""
    model = ScriptedModel(*(f"answer {number}" for number in range(turns)))
    async with Runtime(db, model=model) as runtime:
        for number in range(turns):
            await runtime.run_turn("a", f"question {number}")
    return runtime


# By hand.


@pytest.mark.promise("S-14")
async def test_a_summary_takes_the_place_of_all_but_the_newest(db: Database) -> None:
    runtime = await talked(db, 3)
    done = await runtime.compact("a", keep=2, summarize=shortly)

    assert await contents(db) == ["4 messages", "question 2", "answer 2"]
    assert (done.ended, done.kept, done.summary) == (4, 2, "4 messages")


@pytest.mark.promise("S-14")
async def test_it_is_one_changeset_and_what_was_compacted_stays_readable(db: Database) -> None:
    runtime = await talked(db, 2)
    before = (await db.thread("a").head()).version
    done = await runtime.compact("a", keep=1, summarize=shortly)

    assert done.version == before + 1
    assert await contents(db, at=before) == ["question 0", "answer 0", "question 1", "answer 1"]
    assert (await db.thread("a").verify()).ok


@pytest.mark.promise("S-14")
async def test_the_summary_is_an_item_like_any_other(db: Database) -> None:
    runtime = await talked(db, 1)
    done = await runtime.compact("a", keep=0, summarize=shortly)
    change = (await db.thread("a").changesets(after=done.version - 1))[0]

    assert [(item.kind, item.role, item.body, item.format) for item in change.items] == [
        ("summary", "system", {"content": "2 messages"}, "holdfast")
    ]
    assert change.reason == "Compact"


@pytest.mark.promise("S-14")
async def test_the_model_writes_the_summary_if_no_function_does(db: Database) -> None:
    await talked(db, 2)
    model = ScriptedModel("They talked.")
    async with Runtime(db, model=model) as runtime:
        await runtime.compact("a", keep=2)

    assert await contents(db) == ["They talked.", "question 1", "answer 1"]
    assert model.requests[0].messages[0].text == "user: question 0\nassistant: answer 0"


async def test_the_next_turn_is_shown_the_summary_and_what_was_kept(db: Database) -> None:
    await talked(db, 2)
    model = ScriptedModel("Later.")
    async with Runtime(db, model=model) as runtime:
        await runtime.compact("a", keep=2, summarize=shortly)
        await runtime.run_turn("a", "And now?")

    assert [message.text for message in model.requests[0].messages] == [
        "2 messages",
        "question 1",
        "answer 1",
        "And now?",
    ]


async def test_a_summary_stays_in_view_when_the_window_no_longer_reaches_it(db: Database) -> None:
    await talked(db, 4)
    model = ScriptedModel("Later.")
    async with Runtime(db, model=model, stages=[respond(window=3)]) as runtime:
        await runtime.compact("a", keep=6, summarize=shortly)
        await runtime.run_turn("a", "And now?")

    shown = [message.text for message in model.requests[0].messages]
    assert shown == ["2 messages", "question 3", "answer 3", "And now?"]


async def test_a_second_summary_takes_the_first_in(db: Database) -> None:
    runtime = await talked(db, 3)
    heard: list[str] = []

    async def noting(messages: Sequence[Message]) -> str:
        heard.extend(message.text for message in messages)
        return "all of it"

    await runtime.compact("a", keep=4, summarize=shortly)
    await runtime.compact("a", keep=2, summarize=noting)

    assert heard == ["2 messages", "question 1", "answer 1"]
    assert await contents(db) == ["all of it", "question 2", "answer 2"]


@pytest.mark.promise("S-14")
async def test_a_call_is_never_parted_from_its_result(db: Database) -> None:
    @tool(effect=Effect.NONE)
    async def look(at: str) -> str:
        """Look."""
        return "seen"

    model = ScriptedModel(calls(("c1", "look", {"at": "x"})), "Seen.")
    async with Runtime(db, model=model, tools=[look]) as runtime:
        await runtime.run_turn("a", "Look")
        done = await runtime.compact("a", keep=2, summarize=shortly)

    assert (done.ended, done.kept) == (1, 3)
    assert await contents(db) == ["1 messages", "call", "result", "Seen."]


# What can go wrong.


@pytest.mark.promise("S-14")
@pytest.mark.parametrize("failure", [ModelFailed(model="m", problem="down"), "  "])
async def test_without_a_summary_nothing_changes(db: Database, failure: ModelFailed | str) -> None:
    await talked(db, 2)
    before = await db.thread("a").head()
    async with Runtime(db, model=ScriptedModel(failure)) as runtime:
        with pytest.raises(ModelFailed):
            await runtime.compact("a", keep=1)

    assert (await db.thread("a").head()).hash == before.hash


@pytest.mark.promise("S-14")
@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_whatever_call_of_the_store_fails_the_history_is_intact(db: Database, number: int) -> None:
    await talked(db, 2)
    before = await db.thread("a").head()
    store = FailingStore(db.store, fail_at=number)
    try:
        await Runtime(Database(store)).compact("a", keep=1, summarize=shortly)
    except StoreUnavailable:
        assert (await db.thread("a").head()).hash == before.hash
        return

    assert (store.calls, number) == (3, 4)
    assert await contents(db) == ["3 messages", "answer 1"]


@pytest.mark.promise("S-14")
async def test_a_writer_in_the_meantime_makes_it_refuse(db: Database) -> None:
    runtime = await talked(db, 2)

    async def interrupted(messages: Sequence[Message]) -> str:
        await db.thread("a").append(items=[user("just now")])
        return "out of date"

    with pytest.raises(VersionConflict):
        await runtime.compact("a", keep=1, summarize=interrupted)
    assert (await contents(db))[-2:] == ["answer 1", "just now"]


@pytest.mark.promise("S-14")
async def test_it_waits_until_tool_calls_are_answered(db: Database) -> None:
    @tool(approval=True)
    async def send(to: str) -> str:
        """Send."""
        return "sent"

    model = ScriptedModel(calls(("c1", "send", {"to": "Ann"})), "Sent.")
    async with Runtime(db, model=model, tools=[send]) as runtime:
        await runtime.run_turn("a", "Write")
        with pytest.raises(TurnSuspended) as caught:
            await runtime.compact("a", keep=0, summarize=shortly)
        await runtime.resume("a", {"c1": Replay()})
        await runtime.compact("a", keep=0, summarize=shortly)

    assert caught.value.calls == ["c1"]
    assert await contents(db) == ["4 messages"]


async def test_a_turn_at_work_is_not_disturbed(db: Database) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def wait(state: State, ctx: Context) -> None:
        asked.set()
        await go.wait()

    async with Runtime(db, stages=[wait]) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi"))
        await asked.wait()

        with pytest.raises(TurnBusy):
            await runtime.compact("a", keep=0, summarize=shortly)
        go.set()
        await turn


@pytest.mark.promise("S-14")
async def test_a_history_that_somebody_else_keeps_is_not_compacted(db: Database) -> None:
    thread = await db.create("a")
    await thread.append(
        items=[user("ours"), Item(body={"type": "message"}, role="user", format="openai.responses")]
    )
    async with Runtime(db) as runtime:
        with pytest.raises(InvalidArgument, match=r"openai\.responses"):
            await runtime.compact("a", keep=0, summarize=shortly)

    assert (await thread.head()).version == 1


async def test_a_short_history_has_nothing_to_compact(db: Database) -> None:
    runtime = await talked(db, 1)

    for keep in (2, -1):
        with pytest.raises(InvalidArgument):
            await runtime.compact("a", keep=keep, summarize=shortly)


# Taking it back.


@pytest.mark.promise("S-14")
async def test_a_compaction_is_taken_back_with_the_turns_after_it_in_their_place(db: Database) -> None:
    await talked(db, 2)
    async with Runtime(db, model=ScriptedModel("Later.")) as runtime:
        done = await runtime.compact("a", keep=2, summarize=shortly)
        await runtime.run_turn("a", "And now?")
        await runtime.rewind("a", compaction=done.version)

    assert await contents(db) == ["question 0", "answer 0", "question 1", "answer 1", "And now?", "Later."]
    assert "summary" not in (await db.thread("a").state())["$thread"]
    assert (await db.thread("a").verify()).ok


async def test_a_compaction_that_was_built_upon_is_not_taken_back(db: Database) -> None:
    runtime = await talked(db, 3)
    first = await runtime.compact("a", keep=4, summarize=shortly)
    await runtime.compact("a", keep=2, summarize=shortly)

    with pytest.raises(RewindRefused):
        await runtime.rewind("a", compaction=first.version)
    with pytest.raises(InvalidArgument):
        await runtime.rewind("a", compaction=1)


# By itself.


@pytest.mark.promise("S-13", "S-14")
async def test_a_turn_that_compacted_and_failed_is_taken_back_without_its_compaction(db: Database) -> None:
    await talked(db, 4)
    compaction = Compaction(budget=60, keep=2, summarize=shortly)
    model = ScriptedModel(ModelFailed(model="m", problem="down"))
    async with Runtime(db, model=model, compaction=compaction, new_id=lambda: "failed") as runtime:
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "And now?")
        await runtime.rewind("a", "failed")

    assert await contents(db) == ["7 messages", "answer 3"]


@pytest.mark.promise("S-14")
async def test_a_turn_compacts_when_the_budget_is_exceeded(db: Database) -> None:
    await talked(db, 4)
    model = ScriptedModel("Later.")
    compaction = Compaction(budget=60, keep=4, summarize=shortly)
    async with Runtime(db, model=model, compaction=compaction) as runtime:
        done = await runtime.run_turn("a", "And now?")

    shown = [message.text for message in model.requests[0].messages]
    assert shown[0].endswith("messages")
    assert shown[-1] == "And now?"
    assert await contents(db) == [*shown, "Later."]
    assert done.text == "Later."


@pytest.mark.promise("S-14")
async def test_within_the_budget_nothing_is_compacted(db: Database) -> None:
    await talked(db, 4)
    compaction = Compaction(budget=10_000, summarize=shortly)
    async with Runtime(db, model=ScriptedModel("Later."), compaction=compaction) as runtime:
        await runtime.run_turn("a", "And now?")

    assert len(await contents(db)) == 10


async def test_a_history_longer_than_the_window_is_compacted_before_anything_is_out_of_sight(
    db: Database,
) -> None:
    await talked(db, 4)
    model = ScriptedModel("Later.")
    compaction = Compaction(budget=10_000, keep=3, summarize=shortly)
    async with Runtime(db, model=model, stages=[respond(window=5, compaction=compaction)]) as runtime:
        await runtime.run_turn("a", "And now?")

    assert [message.text for message in model.requests[0].messages] == [
        "6 messages",
        "question 3",
        "answer 3",
        "And now?",
    ]


async def test_a_compaction_by_itself_is_told_once_and_not_as_live_text(db: Database) -> None:
    await talked(db, 4)
    told: list[Event] = []
    compaction = Compaction(budget=60, keep=2)
    async with Runtime(db, model=ScriptedModel("Summed up.", "Later."), compaction=compaction) as runtime:
        told += [event async for event in runtime.stream_turn("a", "And now?")]

    added = [event.message.text for event in told if isinstance(event, MessageAdded)]
    live = "".join(event.text for event in told if isinstance(event, TextDelta))
    assert (added, live) == (["And now?", "Summed up.", "Later."], "Later.")


async def test_a_turn_goes_on_without_a_summary_if_there_is_none(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await talked(db, 4)
    model = ScriptedModel(ModelFailed(model="m", problem="down"), "Later.")
    with caplog.at_level(logging.WARNING, "holdfast"):
        async with Runtime(db, model=model, compaction=Compaction(budget=60)) as runtime:
            done = await runtime.run_turn("a", "And now?")

    assert done.text == "Later."
    assert len(await contents(db)) == 10
    assert "was not compacted" in caplog.text


async def test_the_messages_of_the_turn_itself_are_never_compacted(db: Database) -> None:
    @tool(effect=Effect.NONE)
    async def look(at: str) -> str:
        """Look."""
        return "a long look " * 100

    await talked(db, 1)
    model = ScriptedModel(calls(("c1", "look", {"at": "x"})), "Seen.")
    compaction = Compaction(budget=100, keep=2, summarize=shortly)
    async with Runtime(db, model=model, tools=[look], compaction=compaction) as runtime:
        await runtime.run_turn("a", "Look")

    assert await contents(db) == ["2 messages", "Look", "call", "result", "Seen."]


async def test_the_usage_of_a_summary_counts_for_the_turn(db: Database) -> None:
    await talked(db, 4)
    async with Runtime(
        db, model=ScriptedModel("Summed up.", "Later."), compaction=Compaction(budget=60, keep=2)
    ) as runtime:
        done = await runtime.run_turn("a", "And now?")

    assert done.usage.calls == 2


async def test_a_compaction_inside_a_turn_that_the_store_refuses_ends_it_with_the_history_intact(
    db: Database,
) -> None:
    await talked(db, 4)
    store = FailingStore(db.store, fail_at=2, only="change")
    compaction = Compaction(budget=60, keep=2, summarize=shortly)
    runtime = Runtime(Database(store), model=ScriptedModel("Later."), compaction=compaction)
    with pytest.raises(StoreUnavailable):
        await runtime.run_turn("a", "And now?")

    assert len(await contents(db)) == 9
    assert (await db.thread("a").changesets(after=13))[-1].reason == "RunFinished"


# How much it is.


def test_the_guess_grows_with_the_text_and_the_number_of_messages() -> None:
    small = tokens_of([Message(role="user", content="a" * 400)])

    assert 100 <= small <= 120
    assert tokens_of([Message(role="user")] * 10) >= 40


def test_what_the_provider_counted_sets_the_guess_right() -> None:
    gauge, messages = Gauge(), [Message(role="user", content="a" * 400)]
    guessed = gauge.tokens(messages)
    gauge.counted(Request(messages=messages), Reply(text="", usage=Usage(calls=1, input_tokens=guessed * 2)))

    assert gauge.tokens(messages) == pytest.approx(guessed * 2, abs=2)


async def test_a_long_history_is_summarised_in_parts_each_with_the_summary_so_far() -> None:
    heard: list[str] = []

    async def ask(request: Request) -> Reply:
        heard.append(request.messages[0].text)
        return Reply(text=f"summary {len(heard)}")

    summarize = by_model(ask, "Summarise.", chunk=20)
    text = await summarize([Message(role="user", content=f"{letter * 40}") for letter in "abc"])

    assert text == "summary 3"
    assert [said[:30] for said in heard] == [
        "user: " + "a" * 24,
        "summary: summary 1\nuser: bbbbb",
        "summary: summary 2\nuser: ccccc",
    ]


@pytest.mark.promise("R-04")
async def test_compaction_by_itself_keeps_a_long_thread_short(db: Database) -> None:
    thread = await db.create("a")
    for number in range(60):
        await thread.append(items=[user(f"question {number}"), assistant(f"answer {number}")])
    model = ScriptedModel(*["Later."] * 12)
    compaction = Compaction(budget=10_000, keep=4, summarize=shortly)
    async with Runtime(db, model=model, stages=[respond(window=10, compaction=compaction)]) as runtime:
        for _ in range(12):
            await runtime.run_turn("a", "And now?")

    assert len(await contents(db)) <= 12
