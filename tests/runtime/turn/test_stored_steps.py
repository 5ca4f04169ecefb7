"""Every finished step is kept, each item once and none left out, wherever a turn is broken off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Literal, TypeVar

import pytest

from clew.core.errors import ClewError, InvalidArgument, ModelFailed, NotFound
from clew.database.database import Database
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.records.events import Event, MessageAdded, TextDelta
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.call_state import Replay
from clew.runtime.tools.tool import Effect, tool
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.dead_store import DeadStore

T = TypeVar("T")
STEPS = 6
"""Commits of the turn below: its begin, three answers (the last with its end), two results."""
FULL = ["user Go", "call c1", "result c1", "call c2", "result c2", "assistant Done."]


def next_step(request: ModelRequest) -> object:
    """What a model says that looks at the conversation: first one tool, then the other, then the answer."""
    last = max((at for at, message in enumerate(request.messages) if message.role == "user"), default=0)
    count = sum(message.kind == "result" for message in request.messages[last:])
    if request.messages[last].text != "Go":
        return "Bye."
    return "Done." if count == 2 else calls((f"c{count + 1}", "work", {"step": count + 1}))


def attentive() -> ScriptedModel:
    return ScriptedModel(*[next_step] * 20)


class Work:
    """A tool that counts how often it did what."""

    def __init__(self) -> None:
        self.steps: list[int] = []

        @tool(effect=Effect.IDEMPOTENT)
        async def work(step: int) -> str:
            """Do a step."""
            self.steps.append(step)
            return f"did {step}"

        self.tool = work


async def history(db: Database, thread: str = "a") -> list[str]:
    """What stands in the history, repairs left out."""
    try:
        items = await db.thread(thread).items()
    except NotFound:
        return []
    return [
        f"{item.kind} {item.call}" if item.call else f"{item.role} {item.body['content']}"
        for item in items
        if item.kind != "repair"
    ]


async def turn(runtime: Runtime, events: list[Event], thread: str = "a", *, streaming: bool = False) -> None:
    """A turn that may fail, and what was told of it until then."""
    try:
        if streaming:
            async for event in runtime.stream_turn(thread, "Go"):
                events.append(event)  # noqa: PERF401  # what was told before the error counts
        else:
            await runtime.run_turn(thread, "Go")
    except ClewError:
        pass


def lines_of(events: list[Event]) -> list[str]:
    """What the listener was told is in the history."""
    messages = [event.message for event in events if isinstance(event, MessageAdded)]
    return [
        f"{message.kind} {message.call}" if message.call else f"{message.role} {message.content}"
        for message in messages
        if message.kind != "repair"
    ]


streamed_or_not = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])


@pytest.mark.promise("S-10", "S-11")
@streamed_or_not
@pytest.mark.parametrize("how", ["error", "after", "cancel"])
async def test_a_commit_that_fails_neither_doubles_nor_skips_an_item(
    db: Database, how: Literal["error", "after", "cancel"], *, streaming: bool
) -> None:
    for number in range(1, STEPS + 1):
        id, work, events = f"a{number}", Work(), list[Event]()
        store = FailingStore(db.store, fail_at=number, how=how, only="change")
        runtime = Runtime(Database(store), model=attentive(), tools=[work.tool])
        with suppress(asyncio.CancelledError):
            await turn(runtime, events, id, streaming=streaming)
        async with Runtime(db, model=attentive(), config=RuntimeConfig(clock=lambda: 1 << 50)) as later:
            await later.run_turn(id, "Bye")

        *lines, bye, farewell = await history(db, id)
        assert lines == FULL[: len(lines)]
        assert lines_of(events) == (lines[: len(lines_of(events))] if streaming else [])
        assert (bye, farewell) == ("user Bye", "assistant Bye.")


@pytest.mark.promise("S-11")
@streamed_or_not
async def test_a_commit_whose_answer_is_lost_counts_once_and_the_turn_goes_on(
    db: Database, *, streaming: bool
) -> None:
    for number in range(2, STEPS + 1):
        id, work, events = f"a{number}", Work(), list[Event]()
        store = FailingStore(db.store, fail_at=number, how="after", only="change")
        runtime = Runtime(Database(store), model=attentive(), tools=[work.tool])
        await turn(runtime, events, id, streaming=streaming)

        assert (await history(db, id), work.steps) == (FULL, [1, 2])
        assert lines_of(events) == (FULL if streaming else [])


@pytest.mark.promise("S-10")
async def test_what_was_finished_survives_a_later_failure(db: Database) -> None:
    for number in range(1, STEPS + 1):
        id, work = f"a{number}", Work()
        store = FailingStore(db.store, fail_at=number, only="change")
        await turn(Runtime(Database(store), model=attentive(), tools=[work.tool]), [], id)

        lines = await history(db, id)
        results = [line for line in lines if line.startswith("result")]
        assert results == [f"result c{step}" for step in work.steps]
        assert len(lines) >= number - 1


@pytest.mark.promise("S-11", "T-16")
@streamed_or_not
async def test_a_resumed_run_saves_each_item_once(db: Database, *, streaming: bool) -> None:
    for number in range(2, STEPS + 1):
        id, work, events = f"a{number}", Work(), list[Event]()
        store = DeadStore(db.store, fail_at=number)
        await turn(
            Runtime(Database(store), model=attentive(), tools=[work.tool]), events, id, streaming=streaming
        )
        lines = await history(db, id)
        model = attentive()
        async with Runtime(
            db, model=model, tools=[work.tool], config=RuntimeConfig(clock=lambda: 1 << 50)
        ) as later:
            await later.resume(id)

        answers = sum(line.startswith(("call", "assistant")) for line in lines)
        assert await history(db, id) == FULL
        assert len(model.requests) == 3 - answers
        assert lines_of(events) == (lines if streaming else [])


@pytest.mark.promise("S-11")
async def test_a_finished_run_has_nothing_to_resume(db: Database) -> None:
    work = Work()
    async with Runtime(db, model=attentive(), tools=[work.tool]) as runtime:
        await runtime.run_turn("a", "Go")

        with pytest.raises(InvalidArgument):
            await runtime.resume("a")
    assert (await history(db), work.steps) == (FULL, [1, 2])


@pytest.mark.promise("S-10", "S-11")
async def test_suspension_and_resume_save_approval_and_output_once(db: Database) -> None:
    @tool(approval=True)
    async def work(step: int) -> str:
        """Do a step."""
        return f"did {step}"

    async with Runtime(db, model=attentive(), tools=[work]) as runtime:
        await runtime.run_turn("a", "Go")
        first = await history(db)
        await runtime.resume("a", {"c1": Replay()})
        second = await history(db)
        await runtime.resume("a", {"c2": Replay()})

    assert (first, second, await history(db)) == (FULL[:2], FULL[:4], FULL)


class Cut:
    """A model whose stream breaks off in the middle, as often as told, before it ends well."""

    name = "cut"

    def __init__(self, times: int) -> None:
        self._rest = times

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """Half of the answer, and the rest if nothing breaks."""
        yield TextChunk("Do")
        if self._rest:
            self._rest -= 1
            raise ModelFailed(model=self.name, problem="the stream was cut", retry=True)
        yield TextChunk("ne.")
        yield Reply(text="Done.")

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing."""
        raise ModelFailed(model=self.name, problem="it fills nothing")


@pytest.mark.promise("S-11")
@streamed_or_not
@pytest.mark.parametrize("times", [0, 1, 2, 3])
async def test_a_stream_that_is_cut_and_tried_again_saves_the_answer_once_or_not_at_all(
    db: Database, times: int, *, streaming: bool
) -> None:
    events: list[Event] = []
    patience = RetryPolicy(attempts=3, pause=0.0)
    async with Runtime(db, model=Cut(times), config=RuntimeConfig(retry_policy=patience)) as runtime:
        await turn(runtime, events, streaming=streaming)

    attempts = [event.attempt for event in events if isinstance(event, TextDelta)]
    assert await history(db) == ["user Go", "assistant Done."][: 2 if times < 3 else 1]
    assert sorted(set(attempts)) == list(range(1, min(times + 1, 3) + 1)) * streaming


@pytest.mark.promise("S-11", "B-02")
async def test_a_turn_repeated_by_its_key_after_a_crash_is_saved_once(db: Database) -> None:
    for number in range(1, STEPS + 1):
        id, work = f"a{number}", Work()
        dead = Runtime(Database(DeadStore(db.store, fail_at=number)), model=attentive(), tools=[work.tool])
        with pytest.raises(ClewError):
            await dead.run_turn(id, "Go", key="k")
        async with Runtime(
            db, model=attentive(), tools=[work.tool], config=RuntimeConfig(clock=lambda: 1 << 50)
        ) as later:
            result = await later.run_turn(id, "Go", key="k")
            again = await later.run_turn(id, "Go", key="k")

        assert await history(db, id) == FULL
        assert (result.text, again.text, again.version) == ("Done.", "Done.", result.version)
