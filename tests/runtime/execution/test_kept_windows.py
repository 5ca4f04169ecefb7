"""The window that is kept between turns: always what a read would give, and never what was taken away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.core.erasure import subject
from clew.core.errors import ClewError, ModelFailed
from clew.core.items import call, result, user
from clew.core.patch import append
from clew.core.values import HISTORY, Item
from clew.database.database import Database
from clew.runtime.context import Context, MemoryMode
from clew.runtime.execution import turn_lines
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.messages import Message, message_of
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.log import StateLog
from clew.runtime.state.schema import State, input
from clew.runtime.tools.tool import Effect, tool
from clew.runtime.turn.draft import Delta
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls

SECRET = "The key is under the mat."


class Talk(State):
    message: Annotated[str, input]
    history: Annotated[StateLog[Message], append]
    notes: Annotated[StateLog[dict[str, Any]], append]
    reply: str = ""


@tool(effect=Effect.NONE)
async def look(at: list[int]) -> dict[str, list[int]]:
    """Look at numbers."""
    return {"seen": at}


class WindowCheck:
    """A stage that compares what is kept with what the store has, and spoils what it was given."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.kept_count = 0

    async def stage(self, state: Talk, ctx: Context) -> Delta:
        """Compare every kept window, then read, and change what was read."""
        thread = self.db.thread(ctx.turn.thread)
        for (log, whole), tail in ctx.turn.draft.tails.items():
            count = None if tail.is_whole else len(tail.entries)
            assert tail.newest(None) == list(await thread.items(last=count, log=log, whole=whole))
            self.kept_count += 1
        messages = await state.history.tail(5)
        notes = await state.notes.all()
        assert messages == [message_of(item) for item in await thread.items(last=5)]
        assert notes == [item.body["value"] for item in await thread.items(log="notes")]
        for message in messages:
            message.meta["spoiled"] = True
        for note in notes:
            note["numbers"].append("spoiled")
        if state.message == "meddle":
            await thread.append(items=[Item(log="beside", body={})], patches=[clew.set(["beside"], 1)])
        if state.message == "interrupt":
            await thread.append(items=[user("in between")])
        return {"notes": [{"numbers": [len(notes)]}]}


def answer(request: ModelRequest) -> Any:
    """Call the tool when asked to, fail when asked to, or answer."""
    last = request.messages[-1]
    if last.text == "fail":
        raise ModelFailed(model="m", problem="it is down")
    return calls(("c1", "look", {"at": [1, 2]})) if last.text == "tool" else "Yes."


def runtime_of(db: Database, check: WindowCheck) -> Runtime[Any, Any]:
    """A runtime with a small window, without a sweeper."""
    return Runtime(
        db,
        schema=Talk,
        model=ScriptedModel(*[answer] * 99),
        stages=[check.stage, respond(tools=[look], window=4)],
        config=RuntimeConfig(retry_policy=RetryPolicy(attempts=1)),
    )


async def summary(messages: object) -> str:
    """Sum up in few words."""
    return "They talked."


class Thread:
    """One thread, what happens to it at random, and two runtimes that run its turns."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.id = f"t-{uuid4().hex}"
        self.check = WindowCheck(db)
        self.runtimes = [runtime_of(db, self.check) for _ in range(2)]
        self.runs: list[str] = []

    async def act(self, action: str, number: int) -> None:
        """Do one thing; what cannot be done just now changes nothing."""
        thread, runtime = self.db.thread(self.id), self.runtimes[0]
        actions: dict[str, Callable[[], Awaitable[object]]] = {
            "elsewhere": lambda: self.runtimes[1].run_turn(self.id, "turn"),
            "append": lambda: thread.append(items=[user("outside"), user("once more")]),
            "call": lambda: thread.append(items=[call("x", "f", [1]), result("x", {"y": [2]})]),
            "opaque": lambda: thread.append(items=[Item(body=b"\x00", codec="raw", format="langchain")]),
            "insert": lambda: thread.append(
                items=[Item(body={"content": "between"}, place=256 * number + 3)]
            ),
            "note": lambda: thread.append(items=[Item(log="notes", body={"value": {"numbers": [number]}})]),
            "pop": lambda: thread.log().pop(),
            "clear": lambda: thread.log("notes" if number % 2 else HISTORY).clear(),
            "compact": lambda: runtime.compact(self.id, keep=number, summarize=summary),
            "rewind": lambda: runtime.rewind(self.id, self.runs[-1]),
            "go back": lambda: runtime.rewind(self.id, to=number),
            "fork": self._fork,
            "erase items": lambda: thread.erase(after=256 * number, state=bool(number % 2)),
            "erase": lambda: self.db.erase(thread=self.id),
            "delete": thread.delete,
        }
        with suppress(ClewError, IndexError):
            if action in actions:
                await actions[action]()
            else:
                self.runs.append((await runtime.run_turn(self.id, action)).run)

    async def _fork(self) -> None:
        new_id = f"f-{uuid4().hex}"
        await self.db.thread(self.id).fork(new_id)
        self.id = new_id


TURNS = ["turn", "turn", "turn", "tool", "fail", "meddle", "interrupt"]
CHANGES = [
    *("elsewhere", "append", "call", "opaque", "insert", "note", "pop", "clear", "compact", "rewind"),
    *("go back", "fork", "erase items", "erase", "delete"),
]
ACTIONS = st.lists(
    st.tuples(st.sampled_from([*TURNS, *TURNS, *CHANGES]), st.integers(0, 6)), min_size=4, max_size=16
)


@pytest.mark.promise("T-13", "T-14", "B-03", "B-07")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTIONS)
def test_a_kept_window_is_what_a_read_gives_whatever_happened(
    store_url: str, actions: list[tuple[str, int]]
) -> None:
    async def check() -> None:
        async with clew.open(store_url) as db:
            thread = Thread(db)
            for action, number in [("turn", 0), *actions]:
                await thread.act("turn", 0)
                await thread.act(action, number)
            await thread.act("turn", 0)

            assert thread.check.kept_count
            assert (await db.thread(thread.id).verify()).ok

    asyncio.run(check())


async def messages_shown(runtime: Runtime[Any, Any], model: ScriptedModel, text: str) -> list[str]:
    """The texts that the model is shown in one more turn."""
    await runtime.run_turn("a", text)
    return [message.text for message in model.requests[-1].messages]


class CountedReads(FailingStore):
    """A store that never fails and counts the readings."""

    def __init__(self, db: Database) -> None:
        super().__init__(db.store, fail_at=0)
        self.reads = 0

    async def read(self, scope: Any, read: Any) -> Any:
        """The result of a reading."""
        self.reads += 1
        return await super().read(scope, read)


@pytest.mark.promise("T-08")
async def test_a_turn_after_another_reads_nothing(db: Database) -> None:
    store = CountedReads(db)
    runtime = Runtime(Database(store), model=ScriptedModel(*["Yes."] * 9))
    await runtime.run_turn("a", "One")
    store.reads = 0
    await runtime.run_turn("a", "Two")
    await runtime.run_turn("a", "Three")

    assert store.reads == 0


@pytest.mark.promise("B-07")
async def test_what_was_erased_is_not_shown_to_the_model_again(db: Database) -> None:
    model = ScriptedModel(*["Yes."] * 9)
    runtime = Runtime(db, model=model)
    await runtime.run_turn("a", SECRET)
    await db.thread("a").erase(after=0)

    assert await messages_shown(runtime, model, "And?") == ["And?"]


@pytest.mark.promise("B-07")
async def test_a_large_thread_that_is_being_erased_shows_nothing_that_is_gone(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "LARGE_THREAD_ITEMS", 1)
    monkeypatch.setattr(subject, "ITEMS_PER_COMMIT", 2)
    model = ScriptedModel(*["Yes."] * 9)
    runtime = Runtime(db, model=model)
    await runtime.run_turn("a", SECRET)
    await runtime.run_turn("a", "Forget it.")

    def stop(counts: dict[str, int]) -> None:
        if counts.get("bodies"):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        await db.erase(thread="a", notify=stop)

    assert SECRET not in await messages_shown(runtime, model, "And?")


@pytest.mark.promise("B-07")
async def test_what_an_emptied_thread_had_is_counted_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "LARGE_THREAD_ITEMS", 1)
    await Runtime(db, model=ScriptedModel("Yes.")).run_turn("a", SECRET)
    preview = await db.erase(thread="a", dry_run=True)
    receipt = await db.erase(thread="a")

    assert receipt.counts == preview.counts


@pytest.mark.promise("B-07")
async def test_a_deleted_thread_begins_anew(db: Database) -> None:
    model = ScriptedModel(*["Yes."] * 9)
    runtime = Runtime(db, model=model)
    await runtime.run_turn("a", SECRET)
    await db.thread("a").delete()

    assert await messages_shown(runtime, model, "And?") == ["And?"]


async def test_a_window_that_is_too_large_is_not_kept(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_lines, "MOST_TAIL_BYTES", 5_000)
    store = CountedReads(db)
    runtime = Runtime(Database(store), model=ScriptedModel(*["Yes."] * 9))
    await runtime.run_turn("a", "x" * 5_000)
    store.reads = 0
    await runtime.run_turn("a", "And?")

    assert store.reads == 1


async def test_all_windows_together_are_bounded(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_lines, "MOST_BYTES_OF_TAILS", 5_000)
    store = CountedReads(db)
    runtime = Runtime(Database(store), model=ScriptedModel(*["Yes."] * 9))
    await runtime.run_turn("a", "x" * 3_000)
    await runtime.run_turn("b", "x" * 3_000)
    store.reads = 0
    await runtime.run_turn("b", "And?")
    reads_of_newest = store.reads
    await runtime.run_turn("a", "And?")

    assert (reads_of_newest, store.reads > 0) == (0, True)


@pytest.mark.promise("R-15")
async def test_nothing_that_was_said_incognito_is_kept(db: Database) -> None:
    model = ScriptedModel(*["Yes."] * 9)
    kept_counts: list[int] = []

    async def count_tails(state: clew.Conversation, ctx: Context) -> Delta:
        kept_counts.append(len(ctx.turn.draft.tails))
        return {}

    runtime = Runtime(db, model=model, stages=[count_tails, respond()], memory_mode=MemoryMode.INCOGNITO)
    await runtime.run_turn("a", SECRET)
    await runtime.run_turn("a", "And?")
    await runtime.close()

    assert kept_counts == [0, 0]
