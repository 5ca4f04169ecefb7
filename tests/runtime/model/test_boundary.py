"""Whatever a model or a summarizer does, it gives what was asked for, or has failed."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from clew.core.errors import DeadlineExceeded, ModelFailed, StoreUnavailable
from clew.database.database import Database
from clew.runtime.model import call as model_call
from clew.runtime.model.boundary import ModelWrapper, stream_parts
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, ToolCall, Usage
from clew.runtime.respond.compaction import Compaction
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.testing.scripted_model import ScriptedModel

HI = ModelRequest(messages=[Message(role="user", content="Hi")])
QUICK = RetryPolicy(pause=0.001, longest_pause=0.002)
ERRORS = [
    ValueError("zanzibar"),
    KeyError("zanzibar"),
    TimeoutError("zanzibar"),
    ConnectionResetError("zanzibar"),
    ExceptionGroup("zanzibar", [ValueError()]),
    asyncio.CancelledError("zanzibar"),
]


class Person(msgspec.Struct):
    """What a model is asked for."""

    name: str
    age: float = 0.0


class Wild:
    """A model that does whatever it was made with, and counts how often."""

    name = "wild"

    def __init__(self, does: Callable[[], Any]) -> None:
        self.call_count = 0
        self._does = does

    async def fill(self, request: ModelRequest, kind: type[Any]) -> Any:
        self.call_count += 1
        return self._does()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        self.call_count += 1
        yield TextChunk("Hel")
        yield self._does()


def failure_of(error: BaseException) -> Callable[[], Any]:
    def does() -> Any:
        raise error

    return does


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", ["ask", "fill"])
async def test_what_a_model_raises_is_its_failure_and_logged_once_without_its_words(
    error: BaseException, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = Wild(failure_of(error))
    call = model_call.ask(model, HI, QUICK) if way == "ask" else model_call.fill(model, HI, Person, QUICK)

    with caplog.at_level(logging.INFO, "clew"), pytest.raises(ModelFailed) as failure:
        await call

    assert failure.value.__cause__ is error
    assert "zanzibar" not in str(failure.value)
    assert [record.getMessage() for record in caplog.records] == [
        f"Model 'wild' failed: {type(error).__name__}"
    ]


@pytest.mark.parametrize(("error", "times"), [(ValueError(), 1), (ConnectionResetError(), 3)])
async def test_only_what_is_about_a_connection_is_tried_again(error: BaseException, times: int) -> None:
    model = Wild(failure_of(error))

    with pytest.raises(ModelFailed):
        await model_call.fill(model, HI, Person, QUICK)

    assert model.call_count == times


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "zanzibar",
        Person(name="Ann"),
        (Person(name="Ann"), None),
        (None, Usage()),
        (Person(name=None), Usage()),  # type: ignore[arg-type]  # what a struct does not look at
        (Person(name="Ann", age=math.nan), Usage()),
        (Person(name="\ud83d"), Usage()),
        (Person(name="Ann"), Usage(calls="many")),  # type: ignore[arg-type]  # what a struct does not look at
        (object(), Usage()),
    ],
    ids=[
        "nothing",
        "text",
        "alone",
        "no usage",
        "no answer",
        "no name",
        "NaN",
        "surrogate",
        "words",
        "object",
    ],
)
async def test_an_answer_that_is_not_of_its_type_is_a_failure(answer: Any) -> None:
    with pytest.raises(ModelFailed, match="not what was asked for"):
        await model_call.fill(Wild(lambda: answer), HI, Person, QUICK)


async def test_an_answer_of_a_type_that_only_its_caller_knows_is_taken_as_it_is() -> None:
    class Own:
        """A type that no schema can be made of."""

    answer = Own()

    assert (await model_call.fill(Wild(lambda: (answer, Usage())), HI, Own, QUICK))[0] is answer


@pytest.mark.parametrize(
    "part",
    [
        "zanzibar",
        7,
        TextChunk(None),  # type: ignore[arg-type]  # what a struct does not look at
        Reply(text=None),  # type: ignore[arg-type]  # what a struct does not look at
        Reply(usage="free"),  # type: ignore[arg-type]  # what a struct does not look at
        Reply(calls=(ToolCall(id=1, name="weather", arguments={}),)),  # type: ignore[arg-type]  # the same
        Reply(calls="weather"),  # type: ignore[arg-type]  # what a struct does not look at
    ],
    ids=["text", "number", "no text", "empty reply", "no usage", "call", "calls"],
)
async def test_a_part_that_is_none_is_a_failure(part: Any) -> None:
    with pytest.raises(ModelFailed):
        await model_call.ask(Wild(lambda: part), HI, QUICK)


async def test_a_model_that_streams_nothing_one_can_go_through_has_failed() -> None:
    class Flat(Wild):
        def stream(self, request: ModelRequest) -> Any:
            return "Hello."

    with pytest.raises(ModelFailed, match="it raised TypeError"):
        await model_call.ask(Flat(lambda: None), HI, QUICK)


# What is no fault of the model.


async def test_an_error_of_a_store_passes_through_a_model_as_it_is() -> None:
    down = StoreUnavailable(problem="it is locked")

    with pytest.raises(StoreUnavailable) as error:
        await model_call.fill(Wild(failure_of(down)), HI, Person, QUICK)

    assert error.value is down


async def test_a_mistake_of_who_listens_is_not_the_models() -> None:
    def notify(text: str, attempt: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await model_call.ask(ScriptedModel("Hello."), HI, QUICK, notify)


async def test_a_mistake_of_a_wrapper_of_ours_is_not_the_models() -> None:
    class Clumsy(ModelWrapper):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
            async with aclosing(stream_parts(self._model, request)) as parts:
                async for part in parts:
                    yield TextChunk(str(1 // 0))
                    yield part

    with pytest.raises(ZeroDivisionError):
        await model_call.ask(Clumsy(ScriptedModel("Hello.")), HI, QUICK)


@pytest.mark.parametrize("way", ["ask", "fill"])
async def test_what_the_model_inside_a_wrapper_raises_is_the_models(way: str) -> None:
    class Through(ModelWrapper):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
            async with aclosing(stream_parts(self._model, request)) as parts:
                async for part in parts:
                    yield part

    model = Through(Wild(failure_of(KeyError())))

    with pytest.raises(ModelFailed, match="it raised KeyError"):
        await (
            model_call.ask(model, HI, QUICK) if way == "ask" else model_call.fill(model, HI, Person, QUICK)
        )


class Stubborn(Wild):
    """A model that makes something else of being cancelled."""

    def __init__(self) -> None:
        self.start = asyncio.Event()

    async def fill(self, request: ModelRequest, kind: type[Any]) -> Any:
        self.start.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("zanzibar") from None


async def test_whoever_is_cancelled_is_cancelled_whatever_a_model_makes_of_it() -> None:
    model = Stubborn()
    task = asyncio.create_task(model_call.fill(model, HI, Person, QUICK))
    await model.start.wait()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()


async def test_a_deadline_is_one_whatever_a_model_makes_of_it() -> None:
    with pytest.raises(DeadlineExceeded):
        await model_call.fill(Stubborn(), HI, Person, RetryPolicy(call_seconds=0.01, attempts=1))


# In a turn, and beside it.


async def test_a_turn_whose_model_raises_anything_ends_as_one_whose_model_failed(db: Database) -> None:
    async with Runtime(
        db, model=ScriptedModel(KeyError("zanzibar"), "Hello."), config=RuntimeConfig(retry_policy=QUICK)
    ) as runtime:
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "Hi")
        result = await runtime.run_turn("a", "Still there?")

    assert result.text == "Hello."


@pytest.mark.parametrize(
    "does", [failure_of(KeyError("zanzibar")), lambda: None, lambda: 7], ids=["raises", "nothing", "number"]
)
async def test_a_function_that_makes_no_summary_keeps_no_turn_from_its_answer(
    db: Database, does: Callable[[], Any]
) -> None:
    async def summarize(messages: Sequence[Message]) -> str:
        return does()  # type: ignore[no-any-return]  # it may be anything

    model = ScriptedModel(*["I see."] * 6)
    compaction = Compaction(budget=20, keep=1, summarize=summarize)
    async with Runtime(db, model=model, config=RuntimeConfig(compaction=compaction)) as runtime:
        texts = [(await runtime.run_turn("a", f"This is sentence number {n}")).text for n in range(6)]

    assert texts == ["I see."] * 6
