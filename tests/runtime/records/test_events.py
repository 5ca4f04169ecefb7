"""Streams that can be taken up again: each durable event once, whoever tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from clew.database.database import Database
from clew.runtime.records.events import Event, Mark, RunFinished, RunStarted, TextDelta
from clew.runtime.runtime import Runtime
from clew.runtime.tools.tool import Effect, tool
from clew.testing.scripted_model import ScriptedModel, calls


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    return f"sunny in {city}"


def model() -> ScriptedModel:
    return ScriptedModel(
        calls(("c1", "weather", {"city": "Oslo"}), ("c2", "weather", {"city": "Bergen"})), "Sunny.", "Bye."
    )


async def two_turns(db: Database) -> list[Event]:
    async with Runtime(db, model=model(), tools=[weather]) as runtime:
        first = [event async for event in runtime.stream_turn("a", "Weather?")]
        return first + [event async for event in runtime.stream_turn("a", "Thanks")]


async def until_end(events: AsyncIterator[Event], ends: int) -> list[Event]:
    history = []
    async with aclosing(events) as open:  # type: ignore[type-var]  # it is an async generator
        async for event in open:
            history.append(event)
            ends -= isinstance(event, RunFinished)
            if ends == 0:
                break
    return history


@pytest.mark.promise("B-09")
async def test_another_process_tells_the_same_durable_events(db: Database) -> None:
    events = [event for event in await two_turns(db) if event.mark is not None]

    async with Runtime(db) as other:
        assert await until_end(other.events("a", after=(0, 0)), ends=2) == events


@pytest.mark.promise("B-09")
async def test_a_client_that_comes_back_after_any_event_misses_none_and_sees_none_twice(db: Database) -> None:
    events = [event for event in await two_turns(db) if event.mark is not None]

    async with Runtime(db) as other:
        for number in range(len(events) - 1):
            after = events[number].mark
            rest = events[number + 1 :]
            ends = sum(isinstance(event, RunFinished) for event in rest)
            assert await until_end(other.events("a", after=after), ends) == rest


@pytest.mark.promise("B-09")
async def test_marks_only_grow(db: Database) -> None:
    marks: list[Mark] = [event.mark for event in await two_turns(db) if event.mark is not None]

    assert marks == sorted(set(marks))


@pytest.mark.promise("T-11", "B-09")
async def test_live_text_has_no_mark_and_comes_whole_once_it_is_durable(db: Database) -> None:
    events = await two_turns(db)

    live = [event for event in events if isinstance(event, TextDelta)]
    whole = [e.message.content for e in events if e.mark and getattr(e, "message", None) and e.message.text]  # type: ignore[union-attr]  # has one
    assert {event.mark for event in live} == {None}
    assert "".join(event.text for event in live) == "Sunny.Bye."
    assert whole[-1] == "Bye."


async def test_a_listener_that_leaves_does_not_end_the_turn(db: Database) -> None:
    async with Runtime(db, model=model(), tools=[weather]) as runtime:
        async with aclosing(runtime.stream_turn("a", "Weather?")) as events:  # type: ignore[type-var]  # generator
            first = await anext(events)
        rest = await until_end(runtime.events("a", after=(1, 0)), ends=1)

    assert isinstance(first, RunStarted)
    assert isinstance(rest[-1], RunFinished)
    assert rest[-1].termination == "natural"
