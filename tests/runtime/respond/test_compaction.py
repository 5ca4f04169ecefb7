"""Compaction: a summary in place of old messages, by one changeset that can be taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from clew.core.errors import (
    GuestThread,
    InvalidArgument,
    ModelFailed,
    RewindRefused,
    StoreUnavailable,
    TurnBusy,
    TurnSuspended,
    VersionConflict,
)
from clew.core.items import user
from clew.core.values import Item
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import Replay
from clew.runtime.state.schema import State
from clew.runtime.tools.tool import Effect, tool
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.dead_store import DeadStore
from tests.runtime.respond.long_threads import contents, runtime_after, shortly


@pytest.mark.promise("S-14")
async def test_a_summary_takes_the_place_of_all_but_the_newest(db: Database) -> None:
    runtime = await runtime_after(db, 3)
    result = await runtime.compact("a", keep=2, summarize=shortly)

    assert await contents(db) == ["4 messages", "question 2", "answer 2"]
    assert (result.items_removed, result.items_left, result.summary) == (4, 2, "4 messages")


@pytest.mark.promise("S-14")
async def test_it_is_one_changeset_and_what_was_compacted_stays_readable(db: Database) -> None:
    runtime = await runtime_after(db, 2)
    before = (await db.thread("a").head()).version
    result = await runtime.compact("a", keep=1, summarize=shortly)

    assert result.version == before + 1
    assert await contents(db, at=before) == ["question 0", "answer 0", "question 1", "answer 1"]
    assert (await db.thread("a").verify()).ok


@pytest.mark.promise("S-14")
async def test_the_summary_is_an_item_like_any_other(db: Database) -> None:
    runtime = await runtime_after(db, 1)
    result = await runtime.compact("a", keep=0, summarize=shortly)
    change = (await db.thread("a").changesets(after=result.version - 1))[0]

    assert [(item.kind, item.role, item.body, item.format) for item in change.items] == [
        ("summary", "system", {"content": "2 messages"}, "clew")
    ]
    assert change.reason == "Compact"


@pytest.mark.promise("S-14")
async def test_the_model_writes_the_summary_if_no_function_does(db: Database) -> None:
    await runtime_after(db, 2)
    model = ScriptedModel("They talked.")
    async with Runtime(db, model=model) as runtime:
        await runtime.compact("a", keep=2)

    assert await contents(db) == ["They talked.", "question 1", "answer 1"]
    assert model.requests[0].messages[0].text == "user: question 0\nassistant: answer 0"


async def test_the_next_turn_is_shown_the_summary_and_what_was_kept(db: Database) -> None:
    await runtime_after(db, 2)
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
    await runtime_after(db, 4)
    model = ScriptedModel("Later.")
    async with Runtime(db, model=model, stages=[respond(window=3)]) as runtime:
        await runtime.compact("a", keep=6, summarize=shortly)
        await runtime.run_turn("a", "And now?")

    texts = [message.text for message in model.requests[0].messages]
    assert texts == ["2 messages", "question 3", "answer 3", "And now?"]


async def test_a_second_summary_takes_the_first_in(db: Database) -> None:
    runtime = await runtime_after(db, 3)
    texts: list[str] = []

    async def noting(messages: Sequence[Message]) -> str:
        texts.extend(message.text for message in messages)
        return "all of it"

    await runtime.compact("a", keep=4, summarize=shortly)
    await runtime.compact("a", keep=2, summarize=noting)

    assert texts == ["2 messages", "question 1", "answer 1"]
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
        result = await runtime.compact("a", keep=2, summarize=shortly)

    assert (result.items_removed, result.items_left) == (1, 3)
    assert await contents(db) == ["1 messages", "call", "result", "Seen."]


# What can go wrong.


@pytest.mark.promise("S-14")
@pytest.mark.parametrize("failure", [ModelFailed(model="m", problem="down"), "  "])
async def test_without_a_summary_nothing_changes(db: Database, failure: ModelFailed | str) -> None:
    await runtime_after(db, 2)
    before = await db.thread("a").head()
    async with Runtime(db, model=ScriptedModel(failure)) as runtime:
        with pytest.raises(ModelFailed):
            await runtime.compact("a", keep=1)

    assert (await db.thread("a").head()).hash == before.hash


@pytest.mark.promise("S-14")
@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_whatever_call_of_the_store_fails_the_history_is_intact(db: Database, number: int) -> None:
    await runtime_after(db, 2)
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
    runtime = await runtime_after(db, 2)

    async def interrupt(messages: Sequence[Message]) -> str:
        await db.thread("a").append(items=[user("just now")])
        return "out of date"

    with pytest.raises(VersionConflict):
        await runtime.compact("a", keep=1, summarize=interrupt)
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
        with pytest.raises(TurnSuspended) as error:
            await runtime.compact("a", keep=0, summarize=shortly)
        await runtime.resume("a", {"c1": Replay()})
        await runtime.compact("a", keep=0, summarize=shortly)

    assert error.value.calls == ["c1"]
    assert await contents(db) == ["4 messages"]


async def test_a_turn_at_work_is_not_disturbed(db: Database) -> None:
    start, go = asyncio.Event(), asyncio.Event()

    async def wait(state: State, ctx: Context) -> None:
        start.set()
        await go.wait()

    async with Runtime(db, stages=[wait]) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi"))
        await start.wait()

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
        with pytest.raises(GuestThread, match="kept by OpenAI Agents"):
            await runtime.compact("a", keep=0, summarize=shortly)

    assert (await thread.head()).version == 1


async def test_a_short_history_has_nothing_to_compact(db: Database) -> None:
    runtime = await runtime_after(db, 1)

    for keep in (2, -1):
        with pytest.raises(InvalidArgument):
            await runtime.compact("a", keep=keep, summarize=shortly)


@pytest.mark.promise("S-14")
async def test_what_an_interrupted_run_needs_to_be_resumed_is_never_compacted(db: Database) -> None:
    await runtime_after(db, 2)
    dead = Database(DeadStore(db.store, fail_at=2))
    with pytest.raises(StoreUnavailable):
        await Runtime(dead, model=ScriptedModel("Lost.")).run_turn("a", "And now?")
    model = ScriptedModel("Later.")
    later = Runtime(db, model=model, config=RuntimeConfig(clock=lambda: 1 << 50))
    await later.compact("a", keep=0, summarize=shortly)
    await later.resume("a")

    assert [message.text for message in model.requests[0].messages] == ["4 messages", "And now?"]
    assert await contents(db) == ["4 messages", "And now?", "Later."]


# Taking it back.


@pytest.mark.promise("S-14")
async def test_a_compaction_is_taken_back_with_the_turns_after_it_in_their_place(db: Database) -> None:
    await runtime_after(db, 2)
    async with Runtime(db, model=ScriptedModel("Later.")) as runtime:
        result = await runtime.compact("a", keep=2, summarize=shortly)
        await runtime.run_turn("a", "And now?")
        await runtime.rewind("a", compaction=result.version)

    assert await contents(db) == ["question 0", "answer 0", "question 1", "answer 1", "And now?", "Later."]
    assert "summary" not in (await db.thread("a").state())["$thread"]
    assert (await db.thread("a").verify()).ok


async def test_a_compaction_that_was_built_upon_is_not_taken_back(db: Database) -> None:
    runtime = await runtime_after(db, 3)
    first = await runtime.compact("a", keep=4, summarize=shortly)
    await runtime.compact("a", keep=2, summarize=shortly)

    with pytest.raises(RewindRefused):
        await runtime.rewind("a", compaction=first.version)
    with pytest.raises(InvalidArgument):
        await runtime.rewind("a", compaction=1)
