"""Turns that compact by themselves, by a budget of tokens, and how tokens are guessed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from clew.core import patch
from clew.core.errors import (
    ModelFailed,
    StoreUnavailable,
)
from clew.core.items import assistant, user
from clew.core.values import Item, Window
from clew.database.database import Database
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Reply, Usage
from clew.runtime.records.events import Event, MessageAdded, TextDelta
from clew.runtime.respond.compaction import Compaction, TokenGauge, estimate_tokens, model_summarizer
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.tools.tool import Effect, tool
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.dead_store import DeadStore
from tests.runtime.respond.long_threads import contents, runtime_after, shortly


@pytest.mark.promise("S-13", "S-14")
async def test_a_turn_that_compacted_and_failed_is_taken_back_without_its_compaction(db: Database) -> None:
    await runtime_after(db, 4)
    compaction = Compaction(budget=60, keep=2, summarize=shortly)
    model = ScriptedModel(ModelFailed(model="m", problem="down"))
    async with Runtime(
        db, model=model, config=RuntimeConfig(compaction=compaction, new_id=lambda: "failed")
    ) as runtime:
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "And now?")
        await runtime.rewind("a", "failed")

    assert await contents(db) == ["7 messages", "answer 3"]


@pytest.mark.promise("S-14")
async def test_a_turn_compacts_when_the_budget_is_exceeded(db: Database) -> None:
    await runtime_after(db, 4)
    model = ScriptedModel("Later.")
    compaction = Compaction(budget=60, keep=4, summarize=shortly)
    async with Runtime(db, model=model, config=RuntimeConfig(compaction=compaction)) as runtime:
        result = await runtime.run_turn("a", "And now?")

    texts = [message.text for message in model.requests[0].messages]
    assert texts[0].endswith("messages")
    assert texts[-1] == "And now?"
    assert await contents(db) == [*texts, "Later."]
    assert result.text == "Later."


@pytest.mark.promise("S-14")
async def test_within_the_budget_nothing_is_compacted(db: Database) -> None:
    await runtime_after(db, 4)
    compaction = Compaction(budget=10_000, summarize=shortly)
    async with Runtime(
        db, model=ScriptedModel("Later."), config=RuntimeConfig(compaction=compaction)
    ) as runtime:
        await runtime.run_turn("a", "And now?")

    assert len(await contents(db)) == 10


async def test_a_history_longer_than_the_window_is_compacted_before_anything_is_out_of_sight(
    db: Database,
) -> None:
    await runtime_after(db, 4)
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
    await runtime_after(db, 4)
    events: list[Event] = []
    compaction = Compaction(budget=60, keep=2)
    async with Runtime(
        db, model=ScriptedModel("Summed up.", "Later."), config=RuntimeConfig(compaction=compaction)
    ) as runtime:
        events += [event async for event in runtime.stream_turn("a", "And now?")]

    texts = [event.message.text for event in events if isinstance(event, MessageAdded)]
    live = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert (texts, live) == (["And now?", "Summed up.", "Later."], "Later.")


@pytest.mark.promise("R-04", "S-14")
async def test_a_guest_history_is_neither_compacted_by_itself_nor_read_in_vain(db: Database) -> None:
    thread = await db.create("a")
    guest = [Item(body={"content": f"{number}"}, role="user", format="guest") for number in range(50)]
    await thread.append(items=guest, patches=[patch.set(["$thread", "agent"], "default")])
    sizes: list[int] = []

    class Counting(FailingStore):
        async def read(self, scope, asking):  # type: ignore[no-untyped-def]  # as in the store behind
            answer = await super().read(scope, asking)
            sizes.extend([len(answer)] if isinstance(answer, Window) else [])
            return answer

    stages = [respond(window=5, compaction=Compaction(budget=1, summarize=shortly))]
    store = Counting(db.store, fail_at=0)
    await Runtime(Database(store), model=ScriptedModel("Hi."), stages=stages).run_turn("a", "Hi")

    assert len(await contents(db)) == 52
    assert max(sizes) == 6


async def test_a_turn_goes_on_without_a_summary_if_there_is_none(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await runtime_after(db, 4)
    model = ScriptedModel(ModelFailed(model="m", problem="down"), "Later.")
    with caplog.at_level(logging.WARNING, "clew"):
        async with Runtime(
            db, model=model, config=RuntimeConfig(compaction=Compaction(budget=60))
        ) as runtime:
            result = await runtime.run_turn("a", "And now?")

    assert result.text == "Later."
    assert len(await contents(db)) == 10
    assert "was not compacted" in caplog.text


@pytest.mark.parametrize("text", [None, " "], ids=["fails", "empty"])
async def test_a_function_that_gives_no_summary_does_not_end_the_turn(
    db: Database, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def summarize(messages: Sequence[Message]) -> str:
        if text is None:
            raise LookupError("no words")
        return text

    await runtime_after(db, 4)
    compaction = Compaction(budget=60, summarize=summarize)
    async with Runtime(
        db, model=ScriptedModel("Later."), config=RuntimeConfig(compaction=compaction)
    ) as runtime:
        result = await runtime.run_turn("a", "And now?")

    assert (result.text, len(await contents(db))) == ("Later.", 10)
    assert "was not compacted" in caplog.text


async def test_the_messages_of_the_turn_itself_are_never_compacted(db: Database) -> None:
    @tool(effect=Effect.NONE)
    async def look(at: str) -> str:
        """Look."""
        return "a long look " * 100

    await runtime_after(db, 1)
    model = ScriptedModel(calls(("c1", "look", {"at": "x"})), "Seen.")
    compaction = Compaction(budget=100, keep=2, summarize=shortly)
    async with Runtime(db, model=model, tools=[look], config=RuntimeConfig(compaction=compaction)) as runtime:
        await runtime.run_turn("a", "Look")

    assert await contents(db) == ["2 messages", "Look", "call", "result", "Seen."]


async def test_the_usage_of_a_summary_counts_for_the_turn(db: Database) -> None:
    await runtime_after(db, 4)
    async with Runtime(
        db,
        model=ScriptedModel("Summed up.", "Later."),
        config=RuntimeConfig(compaction=Compaction(budget=60, keep=2)),
    ) as runtime:
        result = await runtime.run_turn("a", "And now?")

    assert result.usage.calls == 2


async def test_a_compaction_inside_a_turn_that_the_store_refuses_ends_it_with_the_history_intact(
    db: Database,
) -> None:
    await runtime_after(db, 4)
    store = FailingStore(db.store, fail_at=2, only="change")
    compaction = Compaction(budget=60, keep=2, summarize=shortly)
    runtime = Runtime(
        Database(store), model=ScriptedModel("Later."), config=RuntimeConfig(compaction=compaction)
    )
    with pytest.raises(StoreUnavailable):
        await runtime.run_turn("a", "And now?")

    assert len(await contents(db)) == 9
    assert (await db.thread("a").changesets(after=13))[-1].reason == "RunFinished"


@pytest.mark.promise("S-11", "S-14")
async def test_a_turn_that_dies_around_its_compaction_is_resumed_and_compacts_once(db: Database) -> None:
    compaction = Compaction(budget=60, keep=2, summarize=shortly)
    for number in range(2, 4):
        id = f"a{number}"
        thread = await db.create(id)
        await thread.append(items=[user(f"a longer question {at}") for at in range(8)])
        dead = DeadStore(db.store, fail_at=number)
        with pytest.raises(StoreUnavailable):
            await Runtime(
                Database(dead), model=ScriptedModel("Later."), config=RuntimeConfig(compaction=compaction)
            ).run_turn(id, "Now?")
        later = Runtime(
            db,
            model=ScriptedModel("Later."),
            config=RuntimeConfig(compaction=compaction, clock=lambda: 1 << 50),
        )
        await later.resume(id)

        texts = [item.body["content"] for item in await thread.items()]
        reasons = [change.reason for change in await thread.changesets()]
        assert texts == ["7 messages", "a longer question 7", "Now?", "Later."]
        assert reasons.count("Compact") == 1


# How much it is.


def test_the_guess_grows_with_the_text_and_the_number_of_messages() -> None:
    small = estimate_tokens([Message(role="user", content="a" * 400)])

    assert 100 <= small <= 120
    assert estimate_tokens([Message(role="user")] * 10) >= 40


def test_what_the_provider_counted_sets_the_guess_right() -> None:
    gauge, messages = TokenGauge(), [Message(role="user", content="a" * 400)]
    tokens = gauge.tokens(messages)
    gauge.calibrate(
        ModelRequest(messages=messages), Reply(text="", usage=Usage(calls=1, input_tokens=tokens * 2))
    )

    assert gauge.tokens(messages) == pytest.approx(tokens * 2, abs=2)


async def test_a_long_history_is_summarised_in_parts_each_with_the_summary_so_far() -> None:
    prompts: list[str] = []

    async def ask(request: ModelRequest) -> Reply:
        prompts.append(request.messages[0].text)
        return Reply(text=f"summary {len(prompts)}")

    summarize = model_summarizer(ask, "Summarise.", chunk=20)
    text = await summarize([Message(role="user", content=f"{letter * 40}") for letter in "abc"])

    assert text == "summary 3"
    assert [prompt[:30] for prompt in prompts] == [
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
