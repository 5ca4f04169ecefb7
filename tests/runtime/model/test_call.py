"""Asking a model: what is tried again and when, what is not, and what is told and paid meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from clew.core.errors import ClewError, DeadlineExceeded, ModelFailed
from clew.database.database import Database
from clew.runtime.model import call
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.records.events import Event, TextDelta
from clew.runtime.records.runs import KIND, run_of
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.testing.scripted_model import ScriptedModel

QUICK = RetryPolicy(pause=0.001, longest_pause=0.002)
HI = ModelRequest(messages=[Message(role="user", content="Hi")])
NEVER = asyncio.Event


def busy(**facts: Any) -> ModelFailed:
    return ModelFailed(model="m", problem="it is busy", retry=True, **facts)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, without making them."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("clew.runtime.model.call.asyncio.sleep", sleep)
    return waits


class Person(msgspec.Struct):
    """What a model is asked for."""

    name: str
    age: int


async def test_a_failure_that_may_pass_is_tried_again() -> None:
    model = ScriptedModel(busy(), busy(), "Hello.")

    reply = await call.ask(model, HI, QUICK)

    assert (reply.text, len(model.requests)) == ("Hello.", 3)


async def test_a_failure_that_stays_is_raised_at_once() -> None:
    model = ScriptedModel(ModelFailed(model="m", problem="it does not know you"), "Hello.")

    with pytest.raises(ModelFailed):
        await call.ask(model, HI, QUICK)

    assert len(model.requests) == 1


async def test_after_the_last_attempt_the_failure_is_raised() -> None:
    model = ScriptedModel(busy(), busy(), busy(), "Hello.")

    with pytest.raises(ModelFailed, match="it is busy"):
        await call.ask(model, HI, QUICK)

    assert len(model.requests) == 3


async def test_pauses_grow_up_to_the_longest(pauses: list[float]) -> None:
    patience = RetryPolicy(attempts=6, pause=1.0, longest_pause=4.0)

    with pytest.raises(ModelFailed):
        await call.ask(ScriptedModel(*[busy()] * 6), HI, patience)

    assert [0.5 * full <= seconds <= full for seconds, full in zip(pauses, [1, 2, 4, 4, 4], strict=True)] == [
        True
    ] * 5


def test_a_pause_is_spread_by_chance() -> None:
    patience = RetryPolicy(pause=1.0)

    assert [patience.pause_before(2, chance) for chance in (0.0, 0.5, 1.0)] == [0.5, 0.75, 1.0]


async def test_a_provider_that_asks_for_a_pause_gets_it(pauses: list[float]) -> None:
    await call.ask(ScriptedModel(busy(retry_after_ms=7000), "Hello."), HI, QUICK)

    assert pauses == [7.0]


async def test_nobody_waits_longer_than_patience_allows(pauses: list[float]) -> None:
    model = ScriptedModel(busy(retry_after_ms=61_000), "Hello.")

    with pytest.raises(ModelFailed) as error:
        await call.ask(model, HI, QUICK)

    assert (pauses, error.value.retry_after_ms) == ([], 61_000)


async def test_a_call_that_takes_too_long_is_tried_again() -> None:
    model = ScriptedModel(NEVER(), "Hello.")

    reply = await call.ask(
        model, HI, RetryPolicy(call_seconds=0.02, pause=0.001)
    )  # the first attempt took the event from the script

    assert reply.text == "Hello."


async def test_a_call_that_always_takes_too_long_is_over_its_deadline() -> None:
    model = ScriptedModel(NEVER(), NEVER())

    with pytest.raises(DeadlineExceeded) as error:
        await call.ask(model, HI, RetryPolicy(call_seconds=0.01, attempts=2, pause=0.001))

    assert (error.value.what, error.value.seconds) == ("Model 'scripted'", 0.01)


async def test_a_deadline_around_the_call_is_left_to_whoever_set_it() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call.ask(ScriptedModel(NEVER()), HI, RetryPolicy(call_seconds=60))


async def test_a_stream_that_just_ends_is_tried_again() -> None:
    class Short(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
            self.requests.append(request)
            yield TextChunk("Hel")
            if len(self.requests) > 1:
                yield Reply(text="Hello.")

    model = Short()

    assert (await call.ask(model, HI, QUICK)).text == "Hello."
    assert len(model.requests) == 2


async def test_text_is_told_as_it_comes_with_its_attempt() -> None:
    deltas: list[tuple[str, int]] = []
    model = ScriptedModel(["Hel", busy()], ["Hel", "lo."])

    await call.ask(model, HI, QUICK, lambda text, attempt: deltas.append((text, attempt)))

    assert deltas == [("Hel", 1), ("Hel", 2), ("lo.", 2)]


async def test_a_stream_is_closed_when_its_reply_is_there() -> None:
    close_event = asyncio.Event()

    class PausingModel(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
            try:
                yield Reply(text="Hello.")
            finally:
                close_event.set()

    await call.ask(PausingModel(), HI, QUICK)

    assert close_event.is_set()


async def test_what_unusable_answers_cost_is_told() -> None:
    usages: list[Usage] = []
    wrong = busy(spent={"calls": 1, "input_tokens": 5, "output_tokens": 2})

    await call.ask(ScriptedModel(wrong, busy(), "Hello."), HI, QUICK, on_wasted_usage=usages.append)

    assert usages == [Usage(calls=1, input_tokens=5, output_tokens=2)]


async def test_a_typed_answer_that_does_not_fit_is_asked_for_again() -> None:
    usages: list[Usage] = []
    model = ScriptedModel(lambda request: {"name": "Ann"}, lambda request: {"name": "Ann", "age": 7})

    answer, _ = await call.fill(model, HI, Person, QUICK, usages.append)

    assert (answer, len(usages)) == (Person(name="Ann", age=7), 1)


async def test_a_model_is_told_what_was_wrong_with_its_answer() -> None:
    model = ScriptedModel(
        lambda request: {"name": "Ann"}, busy(), lambda request: 7, lambda request: {"name": "Ann", "age": 7}
    )

    await call.fill(model, HI, Person, RetryPolicy(attempts=4, pause=0.001))

    assert [[message.text for message in request.messages[1:]] for request in model.requests] == [
        [],
        [correction("Object missing required field `age`")],
        [correction("Object missing required field `age`")],
        [correction("Expected `object`, got `int`")],
    ]


def correction(problem: str) -> str:
    problem = f"its answer is not what was asked for: {problem}"
    return f"Your last answer could not be used: {problem}. Answer again."


async def test_the_error_survives_its_journey_to_another_process() -> None:
    error = busy(retry_after_ms=5, spent={"calls": 1})

    kind, args = error.__reduce__()

    assert kind(*args).facts() == error.facts()


# In a turn.


async def events_of(runtime: Runtime, thread: str) -> list[Event]:
    return [event async for event in runtime.stream_turn(thread, "Hi")]


async def test_a_client_can_tell_the_text_of_a_new_attempt_from_the_old(db: Database) -> None:
    model = ScriptedModel(["Hel", busy()], ["Good ", "day."])
    async with Runtime(db, model=model, config=RuntimeConfig(retry_policy=QUICK)) as runtime:
        events = await events_of(runtime, "a")

    texts = [event for event in events if isinstance(event, TextDelta)]
    assert [(event.text, event.step, event.attempt, event.offset) for event in texts] == [
        ("Hel", 1, 1, 0),
        ("Good ", 1, 2, 0),
        ("day.", 1, 2, 5),
    ]


async def test_only_the_whole_reply_is_kept(db: Database) -> None:
    model = ScriptedModel(["Hel", busy()], "Good day.")
    async with Runtime(db, model=model, config=RuntimeConfig(retry_policy=QUICK)) as runtime:
        await runtime.run_turn("a", "Hi")

    items = (await db.thread("a").items()).items
    assert [item.body for item in items] == [{"content": "Hi"}, {"content": "Good day."}]


@pytest.mark.promise("T-17")
async def test_the_run_is_charged_for_answers_it_could_not_use(db: Database) -> None:
    wrong = busy(spent={"calls": 1, "input_tokens": 5, "output_tokens": 2, "cost": 3})
    model = ScriptedModel(wrong, Reply(text="Hello.", usage=Usage(calls=1, input_tokens=5, cost=4)))
    async with Runtime(db, model=model, config=RuntimeConfig(retry_policy=QUICK)) as runtime:
        result = await runtime.run_turn("a", "Hi")

    run = run_of(await db.records.get(KIND, result.run))
    assert run.usage == result.usage == Usage(calls=2, input_tokens=10, output_tokens=2, cost=7)


@pytest.mark.promise("T-17")
async def test_a_run_that_failed_is_charged_too(db: Database) -> None:
    wrong = ModelFailed(model="m", problem="nonsense", spent={"calls": 1, "output_tokens": 9})
    async with Runtime(db, model=ScriptedModel(wrong), config=RuntimeConfig(retry_policy=QUICK)) as runtime:
        with pytest.raises(ClewError):
            await runtime.run_turn("a", "Hi")

    last = (await db.thread("a").changesets())[-1]
    assert (last.run_meta or {})["usage"] == {"calls": 1, "output_tokens": 9}


@pytest.mark.promise("R-24")
async def test_after_a_missed_deadline_the_thread_takes_the_next_turn_at_once(db: Database) -> None:
    patience = RetryPolicy(call_seconds=0.02, attempts=1)
    async with Runtime(
        db, model=ScriptedModel(NEVER(), "Hello."), config=RuntimeConfig(retry_policy=patience)
    ) as runtime:
        with pytest.raises(DeadlineExceeded):
            await runtime.run_turn("a", "Hi")
        result = await runtime.run_turn("a", "Still there?", busy="refuse")

    assert result.text == "Hello."
