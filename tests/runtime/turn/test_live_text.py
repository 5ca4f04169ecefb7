"""The text of a running answer: replayed to who comes later, in any process, and gone with its commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias

import msgspec
import pytest

import clew
from clew.core.erasure.retention import RetentionRule
from clew.core.errors import ModelFailed, StorageError
from clew.core.values import ProvisionalText, Scope
from clew.database.database import Database
from clew.database.provisional import provisional_texts
from clew.runtime.context import MemoryMode
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, ToolCall
from clew.runtime.records.events import Event, MessageAdded, RunFinished, TextDelta
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.tools.tool import Effect, tool
from clew.runtime.turn.live_text import WRITE_SECONDS
from clew.testing.scripted_model import ScriptedModel
from tests.support.child_process import ChildProcess

SECONDS = 20
SCOPE = Scope()
Deltas: TypeAlias = list[tuple[str, int, int]]


async def headers(db: Database) -> list[ProvisionalText]:
    texts = provisional_texts(db.store)
    assert texts is not None
    return await texts.headers(SCOPE)


async def wait_until(is_reached: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await is_reached():  # noqa: ASYNC110  # another task writes it, and tells nobody
            await asyncio.sleep(0.01)


async def stored_text(db: Database, thread: str = "a") -> str:
    texts = provisional_texts(db.store)
    assert texts is not None
    text = await texts.read(SCOPE, thread)
    return "" if text is None else b"".join(text.parts).decode()


class Gate:
    """A turn whose model stops in the middle of its answer until it is let go on."""

    def __init__(self, *pieces: str) -> None:
        self.go_on = asyncio.Event()
        first, *rest = pieces
        self.text = "".join(pieces)
        self.first = first
        self.model = ScriptedModel([first, self.go_on, *rest])
        self.task: asyncio.Task[Any] | None = None

    @asynccontextmanager
    async def turn(
        self, db: Database, *, is_stored: bool = True, runtime: Runtime | None = None, **options: Any
    ) -> AsyncIterator[Runtime]:
        """The runtime while the turn waits at its gate; leaving lets it go on to its end."""
        async with runtime or Runtime(db, model=self.model) as owner:
            self.task = asyncio.create_task(owner.run_turn("a", "Hi", **options))
            try:
                if is_stored:
                    await wait_until(lambda: self._is_stored(db))
                else:
                    await wait_until(self._is_asked)
                yield owner
            finally:
                self.go_on.set()
                await asyncio.wait([self.task])

    async def _is_stored(self, db: Database) -> bool:
        return await stored_text(db) == self.first

    async def _is_asked(self) -> bool:
        return bool(self.model.requests)


async def collect(
    events: AsyncIterator[Event], until: Callable[[Event], bool], on_text: Callable[[], None] = lambda: None
) -> list[Event]:
    """The events up to one; ``on_text`` is called at the first text."""
    every: list[Event] = []
    async with asyncio.timeout(SECONDS), aclosing(events) as open:  # type: ignore[type-var]  # a generator
        async for event in open:
            every.append(event)
            if isinstance(event, TextDelta):
                on_text()
            if until(event):
                break
    return every


def is_end(event: Event) -> bool:
    return isinstance(event, RunFinished)


def deltas_in(events: Sequence[Event]) -> Deltas:
    return [(e.text, e.attempt, e.offset) for e in events if isinstance(e, TextDelta)]


def joined(deltas: Deltas) -> str:
    """The text, if every piece begins where the one before it ends."""
    text = ""
    for piece, _, offset in deltas:
        assert offset == len(text)
        text += piece
    return text


def kinds(events: Sequence[Event]) -> list[str]:
    """What kinds of events there are, in order, several of a kind as one."""
    names = [type(event).__name__ for event in events]
    return [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]


@pytest.fixture(params=["the same runtime", "another"])
def is_other(request: pytest.FixtureRequest) -> bool:
    """Whether the follower is of another runtime than the turn: then it reads what the store has."""
    return bool(request.param == "another")


@pytest.mark.promise("B-17", "B-09")
async def test_who_comes_later_gets_the_text_so_far_then_the_rest_and_the_message(
    db: Database, *, is_other: bool
) -> None:
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db) as runtime, Runtime(db) as other:
        follower = other if is_other else runtime
        events = await collect(follower.events("a", after=(0, 0), live=True), is_end, gate.go_on.set)

    assert deltas_in(events)[0] == ("Hel", 1, 0)
    assert gate.text.startswith(joined(deltas_in(events)))
    assert kinds(events)[-3:] == ["TextDelta", "MessageAdded", "RunFinished"]


@pytest.mark.promise("B-17", "B-09")
async def test_who_follows_from_now_on_gets_the_text_so_far(db: Database, *, is_other: bool) -> None:
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db) as runtime, Runtime(db) as other:
        follower = other if is_other else runtime
        events = await collect(follower.events("a", live=True), is_end, gate.go_on.set)

    assert kinds(events) == ["TextDelta", "MessageAdded", "RunFinished"]


async def test_whom_no_live_text_was_asked_for_gets_durable_events_alone(db: Database) -> None:
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db) as runtime:
        task = asyncio.create_task(collect(runtime.events("a", after=(0, 0)), is_end))
        gate.go_on.set()

        assert not deltas_in(await task)


@pytest.mark.promise("B-17")
async def test_the_text_grows_for_who_follows_it(db: Database, *, is_other: bool) -> None:
    gate, last = Gate("one ", "two ", "three"), asyncio.Event()
    gate.model = ScriptedModel(["one ", gate.go_on, "two ", last, "three"])
    async with gate.turn(db) as runtime, Runtime(db) as other:
        follower = other if is_other else runtime
        deltas: Deltas = []

        def grow(event: Event) -> bool:
            deltas.extend(deltas_in([event]))
            (last if joined(deltas) == "one two " else gate.go_on).set()
            return is_end(event)

        await collect(follower.events("a", live=True), grow)

    assert joined(deltas[:2]) == "one two "


@pytest.mark.promise("B-17")
async def test_a_new_attempt_starts_over(db: Database, *, is_other: bool) -> None:
    broken, whole = asyncio.Event(), asyncio.Event()
    error = ModelFailed(model="m", problem="it broke off", retry=True)
    gate = Gate("Hel")
    gate.model = ScriptedModel(["Hel", broken, error], ["Good ", whole, "day."])
    config = RuntimeConfig(retry_policy=RetryPolicy(attempts=2, pause=0.0))
    owner = Runtime(db, model=gate.model, config=config)

    def advance(event: Event) -> bool:
        if isinstance(event, TextDelta):
            (broken if event.attempt == 1 else whole).set()
        return is_end(event)

    async with gate.turn(db, runtime=owner) as runtime, Runtime(db) as other:
        follower = other if is_other else runtime
        events = await collect(follower.events("a", live=True), advance)

    assert deltas_in(events)[:2] == [("Hel", 1, 0), ("Good ", 2, 0)]


@pytest.mark.promise("B-17")
async def test_nothing_is_left_of_a_text_whose_message_is_committed(db: Database) -> None:
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db):
        pass

    assert await headers(db) == []


class LookingModel(ScriptedModel):
    """Says that it will look, waits, and calls a tool; then it plays its script."""

    def __init__(self, go_on: asyncio.Event, *script: str) -> None:
        super().__init__(*script)
        self._go_on = go_on

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The next part of an answer."""
        if self.requests:
            async for part in super().stream(request):
                yield part
            return
        self.requests.append(request)
        yield TextChunk("Let me look.")
        await self._go_on.wait()
        yield Reply(text="Let me look.", calls=(ToolCall(id="c1", name="look", arguments={}),))


@pytest.mark.promise("B-17")
async def test_the_text_of_a_step_goes_with_its_commit_while_the_turn_goes_on(db: Database) -> None:
    said, looking, is_seen = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool(effect=Effect.NONE)
    async def look() -> str:
        """Look."""
        looking.set()
        await is_seen.wait()
        return "a fox"

    async with Runtime(db, model=LookingModel(said, "A fox."), tools=[look]) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "What is it?"))
        await wait_until(lambda: is_stored(db, "Let me look."))
        said.set()
        await looking.wait()
        await wait_until(lambda: is_stored(db, ""))
        task = asyncio.create_task(collect(runtime.events("a", live=True), is_end))
        await asyncio.sleep(0)
        is_seen.set()
        await turn

        assert "Let me look." not in [text for text, *_ in deltas_in(await task)]


@pytest.mark.promise("B-17")
async def test_a_run_that_is_cancelled_drops_its_text(db: Database) -> None:
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db) as runtime:
        await runtime.cancel("a")

        assert await headers(db) == []


@pytest.mark.promise("B-17")
async def test_a_run_that_fails_drops_its_text(db: Database) -> None:
    gate = Gate("Hel")
    gate.model = ScriptedModel(["Hel", gate.go_on, ModelFailed(model="m", problem="it broke off")])
    async with gate.turn(db):
        pass

    assert gate.task is not None
    assert isinstance(gate.task.exception(), ModelFailed)
    assert await headers(db) == []


class CountingTexts:
    """Texts of a store, with the names of what was called."""

    def __init__(self, texts: Any, error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self._texts = texts
        self._error = error

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        if self._error is not None and name != "clear":
            raise self._error
        return getattr(self._texts, name, lambda: None)


async def test_an_answer_that_is_there_at_once_is_never_written(db: Database) -> None:
    texts = CountingTexts(provisional_texts(db.store))
    db.store.provisional = texts  # type: ignore[attr-defined]  # to count its calls
    async with Runtime(db, model=ScriptedModel("Hello there.")) as runtime:
        await runtime.run_turn("a", "Hi")

    assert set(texts.calls) <= {"headers"}


@pytest.mark.promise("B-17")
async def test_an_answer_that_has_ended_is_not_written_however_late_its_commit_is(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, texts = db.store.change, provisional_texts(db.store)
    assert texts is not None
    writes: list[object] = []

    async def change_late(*arguments: Any) -> Any:
        await asyncio.sleep(2 * WRITE_SECONDS)
        return await change(*arguments)

    async def begin(*arguments: object) -> bool:
        writes.append(arguments)
        return False

    async with Runtime(db, model=ScriptedModel("Hi.", "Hello.")) as runtime:
        await runtime.run_turn("a", "Hi")
        monkeypatch.setattr(db.store, "change", change_late)
        monkeypatch.setattr(texts, "begin", begin)
        runtime_events = [event async for event in runtime.stream_turn("b", "Hi")]

    assert (writes, type(runtime_events[-1])) == ([], RunFinished)


async def test_a_store_that_cannot_keep_the_text_costs_no_turn(db: Database) -> None:
    gate = Gate("Hel", "lo there.")
    texts = CountingTexts(None, StorageError(store="it", problem="no space"))
    db.store.provisional = texts  # type: ignore[attr-defined]  # to make it fail
    async with gate.turn(db, is_stored=False):

        async def is_tried() -> bool:
            return "begin" in texts.calls

        await wait_until(is_tried)

    assert gate.task is not None
    assert gate.task.result().text == gate.text


async def test_in_one_process_the_text_is_replayed_from_a_store_that_keeps_none() -> None:
    gate = Gate("Hel", "lo there.")
    async with clew.open("memory://") as db:
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(db.store, "provisional")  # a store of another make
            async with gate.turn(db, is_stored=False) as runtime:
                events = await collect(runtime.events("a", live=True), is_end, gate.go_on.set)

    assert kinds(events) == ["TextDelta", "MessageAdded", "RunFinished"]


@pytest.mark.promise("B-17")
async def test_what_is_over_the_bound_is_not_replayed_and_the_message_comes_whole(
    db: Database, *, is_other: bool
) -> None:
    gate = Gate("x" * 100, "y" * 100, "z" * 100)
    config = RuntimeConfig(provisional_bytes=250)
    owner = Runtime(db, model=gate.model, config=config)
    async with gate.turn(db, runtime=owner) as runtime, Runtime(db) as other:
        follower = other if is_other else runtime
        events = await collect(follower.events("a", live=True), is_end, gate.go_on.set)

    assert "z" not in joined(deltas_in(events))
    assert [e.message.text for e in events if isinstance(e, MessageAdded)] == [gate.text]


async def test_without_a_bound_no_text_is_kept(db: Database) -> None:
    gate = Gate("Hel", "lo there.")
    config = RuntimeConfig(provisional_bytes=0)
    runtime = Runtime(db, model=gate.model, config=config)
    async with gate.turn(db, is_stored=False, runtime=runtime):
        task = asyncio.create_task(collect(runtime.events("a", live=True), is_end))
        gate.go_on.set()

        assert kinds(await task) == ["MessageAdded", "RunFinished"]


@pytest.mark.promise("B-17")
async def test_of_an_incognito_answer_nothing_is_kept(db: Database) -> None:
    gate = Gate("Hel", "lo there.")
    texts = CountingTexts(provisional_texts(db.store))
    db.store.provisional = texts  # type: ignore[attr-defined]  # to count its calls
    options: dict[str, Any] = {"mode": MemoryMode.INCOGNITO}
    async with gate.turn(db, is_stored=False, **options) as runtime:
        task = asyncio.create_task(collect(runtime.events("a", live=True), is_end))
        await asyncio.sleep(0.3)  # three times as long as until an answer is written
        gate.go_on.set()

        assert kinds(await task) == ["MessageAdded", "RunFinished"]
    assert set(texts.calls) <= {"headers"}


# Letting go.


async def erase_thread(db: Database) -> None:
    receipt = await db.erase(thread="a")
    assert receipt.counts["texts of running answers"] == 1


async def erase_owner(db: Database) -> None:
    receipt = await db.erase(owner="alice")
    assert receipt.counts["texts of running answers"] == 1


async def apply_retention(db: Database) -> None:
    rule = RetentionRule(name="all", days=1)
    (result,) = await db.retention.apply([rule], now=db.store.now() + 3 * 24 * 60 * 60 * 1000)
    assert result.threads == ("a",)


async def erase_part(db: Database) -> None:
    items = await db.thread("a").items()
    await db.thread("a").erase(after=items[0].place - 1 if items[0].place else None, before=1)


async def delete_thread(db: Database) -> None:
    await db.thread("a").delete()


@pytest.mark.promise("B-17")
@pytest.mark.parametrize("let_go", [erase_thread, erase_owner, erase_part, delete_thread, apply_retention])
async def test_what_is_let_go_takes_the_text_along_and_it_does_not_come_back(
    db: Database, let_go: Callable[[Database], Any]
) -> None:
    more = asyncio.Event()
    gate = Gate("Hel", "lo there.")
    gate.model = ScriptedModel(["Hel", gate.go_on, "lo there.", more])
    async with gate.turn(db, user="alice"):
        await let_go(db)
        gate.go_on.set()
        await asyncio.sleep(0.3)  # three times as long as until more is written
        texts = await headers(db)
        more.set()

    assert texts == []
    assert await headers(db) == []


@pytest.mark.promise("B-17")
async def test_a_later_answer_of_a_turn_whose_thread_is_gone_is_not_kept(db: Database) -> None:
    second = asyncio.Event()
    gate = Gate("Hel")
    error = ModelFailed(model="m", problem="it broke off", retry=True)
    gate.model = ScriptedModel(["Hel", gate.go_on, error], ["Good day.", second])
    config = RuntimeConfig(retry_policy=RetryPolicy(attempts=2, pause=0.0))
    async with gate.turn(db, runtime=Runtime(db, model=gate.model, config=config)):
        await db.thread("a").delete()
        gate.go_on.set()
        await asyncio.sleep(0.3)  # three times as long as until the second is written
        texts = await headers(db)
        second.set()

    assert texts == []


@pytest.mark.promise("B-17")
async def test_a_sweep_drops_what_a_dead_process_has_left_and_nothing_else(db: Database) -> None:
    texts = provisional_texts(db.store)
    assert texts is not None
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db) as runtime:
        (running,) = await headers(db)
        await db.create("b")
        for thread in ("b", "gone"):
            leftover = msgspec.structs.replace(running, thread=thread, parts=(b"left",))
            await texts.begin(SCOPE, leftover, 100)
        await runtime.sweep()

        assert await headers(db) == [running]


@pytest.mark.promise("B-17")
async def test_a_sweep_drops_a_text_whose_run_has_committed_since(db: Database) -> None:
    texts = provisional_texts(db.store)
    assert texts is not None
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db) as runtime, Runtime(db) as other:
        (running,) = await headers(db)
        await texts.begin(
            SCOPE, msgspec.structs.replace(running, version=running.version - 1, parts=(b"old",)), 100
        )
        assert runtime is not other
        await other.sweep()

        assert await headers(db) == []


@pytest.mark.promise("B-09")
async def test_a_text_that_was_committed_is_not_replayed_though_it_is_still_there(db: Database) -> None:
    texts = provisional_texts(db.store)
    assert texts is not None
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db), Runtime(db) as other:
        (running,) = await headers(db)
        stale = msgspec.structs.replace(running, version=running.version - 1, parts=(b"old",))
        await texts.begin(SCOPE, stale, 100)
        task = asyncio.create_task(collect(other.events("a", live=True), is_end))
        await asyncio.sleep(0.3)  # several looks of the follower
        gate.go_on.set()

        assert deltas_in(await task) == []


@pytest.mark.promise("F-10", "B-17")
async def test_another_user_does_not_get_the_text(db: Database) -> None:
    gate = Gate("Hel", "lo there.")
    async with gate.turn(db, user="alice") as runtime:
        with pytest.raises(clew.core.errors.ThreadNotFound):
            await collect(runtime.events("a", after=(0, 0), user="bob", live=True), is_end)


# Killed.


async def answer_slowly(url: str) -> None:
    """Run a turn whose answer is never finished."""
    gate = Gate("Hel", "lo there.")
    async with clew.open(url) as db, Runtime(db, model=gate.model) as runtime:
        await runtime.run_turn("a", "Hi", key="k")


@pytest.mark.promise("B-17", "B-09")
async def test_the_text_outlives_its_process_until_the_run_is_taken_up_again(shared_url: str) -> None:
    child = ChildProcess(run_child, shared_url)
    async with clew.open(shared_url) as db:
        await wait_until(lambda: is_stored(db, "Hel"))
        child.kill()
        child.end()
        model = ScriptedModel(["Good ", pause := asyncio.Event(), "day."])
        late = Runtime(db, model=model)
        replayed = await collect(late.events("a", after=(0, 0), live=True), is_text)
        async with late:
            turn = asyncio.create_task(late.run_turn("a", "Hi", key="k"))
            await wait_until(lambda: is_stored(db, "Good "))
            events = await collect(late.events("a", live=True), is_end, pause.set)
            await turn

            assert deltas_in(replayed) == [("Hel", 1, 0)]
            assert deltas_in(events)[0] == ("Good ", 1, 0)
            assert "Hel" not in joined(deltas_in(events))
            assert await headers(db) == []


@pytest.mark.promise("B-17")
async def test_a_sweep_that_closes_a_dead_run_drops_its_text(shared_url: str) -> None:
    child = ChildProcess(run_child, shared_url)
    async with clew.open(shared_url) as db:
        await wait_until(lambda: is_stored(db, "Hel"))
        child.kill()
        child.end()
        async with Runtime(db) as runtime:
            await runtime.sweep()

            assert await headers(db) == []


def run_child(url: str) -> None:
    """Answer slowly until killed."""
    asyncio.run(answer_slowly(url))


async def is_stored(db: Database, text: str) -> bool:
    return await stored_text(db) == text


def is_text(event: Event) -> bool:
    return isinstance(event, TextDelta)
