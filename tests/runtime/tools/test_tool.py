"""Tools: what a model may ask for, how it is checked, and what comes back."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import msgspec
import pytest

from clew.core.errors import SchemaInvalid
from clew.database.database import Database
from clew.runtime.execution.stateless import run_agent
from clew.runtime.model.call import Deadlines
from clew.runtime.records.events import Event, MessageAdded
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.tools.tool import Effect, Tool, ToolContext, ToolFunction, tool
from clew.runtime.tools.toolbox import Toolbox
from clew.testing.scripted_model import ScriptedModel, calls


class Place(msgspec.Struct):
    """Where something is."""

    city: str
    zip: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}$")] = "0150"


@tool(effect=Effect.NONE)
async def weather(place: Place, days: int = 1) -> str:
    """Say what the weather is like."""
    return f"sunny in {place.city} for {days}"


async def answers(
    tools: list[Tool], *requests: tuple[str, str, Any], deadlines: Deadlines = Deadlines()
) -> Any:
    """What tools answer when a model calls them, one after another."""
    events: list[Event] = []
    model = ScriptedModel(*(calls(call) for call in requests), "Done.")
    stages = [respond(tools=tools)]
    await run_agent("Go", stages=stages, model=model, notify=events.append, deadlines=deadlines)
    messages = [event.message for event in events if isinstance(event, MessageAdded)]
    return [message.content for message in messages if message.kind == "result"]


async def answer(function: Tool, arguments: Any = None, deadlines: Deadlines = Deadlines()) -> Any:
    """What one tool answers to one call."""
    outputs = await answers(
        [function], ("c1", function.name, {} if arguments is None else arguments), deadlines=deadlines
    )
    return outputs[0]


def test_a_model_is_told_name_description_and_arguments() -> None:
    spec = weather.spec()

    assert (spec.name, spec.description) == ("weather", "Say what the weather is like.")
    assert spec.parameters["required"] == ["place"]
    assert spec.parameters["properties"]["days"] == {"type": "integer", "default": 1}
    assert spec.parameters["$defs"]["Place"]["properties"]["zip"]["pattern"] == "^[0-9]{4}$"
    assert spec.parameters["additionalProperties"] is False


async def test_arguments_come_as_they_are_declared() -> None:
    assert await answer(weather, {"place": {"city": "Oslo"}, "days": 3}) == "sunny in Oslo for 3"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"days": 1}, "Object missing required field `place`"),
        ({"place": {"city": 7}}, "Expected `str`, got `int` - at `$.place.city`"),
        (
            {"place": {"city": "A", "zip": "x"}},
            "Expected `str` matching regex '^[0-9]{4}$' - at `$.place.zip`",
        ),
        ({"place": {"city": "A"}, "day": 1}, "Object contains unknown field `day`"),
        ("Oslo", "Expected `object`, got `str`"),
        ([], "Expected `object`, got `array`"),
    ],
)
async def test_a_model_is_told_which_argument_does_not_fit(arguments: Any, problem: str) -> None:
    assert await answer(weather, arguments) == {"error": f"The arguments do not fit: {problem}"}


async def test_a_model_that_was_told_may_correct_itself(db: Database) -> None:
    wrong, right = ("c1", "weather", {"city": "Oslo"}), ("c1", "weather", {"place": {"city": "Oslo"}})
    model = ScriptedModel(calls(wrong), calls(right), "Sunny.")
    async with Runtime(db, model=model, tools=[weather]) as runtime:
        result = await runtime.run_turn("a", "Weather?")

    outputs = [item.body["output"] for item in await db.thread("a").items() if item.kind == "result"]
    assert outputs[0]["error"].startswith("The arguments do not fit")
    assert (outputs[1], result.text) == ("sunny in Oslo for 1", "Sunny.")


async def test_a_tool_that_is_not_there_is_named_with_those_that_are() -> None:
    outputs = await answers([weather], ("c1", "wether", {}))

    assert outputs == [{"error": "There is no tool 'wether'. Known: weather."}]


async def test_what_a_tool_raises_is_told_to_the_model() -> None:
    @tool(effect=Effect.NONE)
    async def fail() -> str:
        raise LookupError("no such city")

    assert await answer(fail) == {"error": "LookupError: no such city"}


async def test_a_check_inside_a_tool_is_not_taken_for_its_arguments() -> None:
    @tool(effect=Effect.NONE)
    async def fail() -> str:
        return msgspec.convert(7, str)

    assert await answer(fail) == {"error": "ValidationError: Expected `str`, got `int`"}


async def test_an_output_that_is_not_json_is_told_by_its_path() -> None:
    @tool(effect=Effect.NONE)
    async def odd() -> Any:
        return {"rate": float("nan")}

    assert "output of tool odd" in (await answer(odd))["error"]


async def test_structs_and_dataclasses_come_out_as_json() -> None:
    @tool(effect=Effect.NONE)
    async def where() -> Place:
        return Place(city="Oslo")

    assert await answer(where) == {"city": "Oslo", "zip": "0150"}


async def test_a_function_that_is_not_async_does_not_hold_up_the_others() -> None:
    ready = threading.Event()

    @tool(effect=Effect.NONE)
    def wait() -> bool:
        return ready.wait(5)

    @tool(effect=Effect.NONE)
    async def go() -> bool:
        ready.set()
        return True

    events: list[Event] = []
    model = ScriptedModel(calls(("c1", "wait", {}), ("c2", "go", {})), "Done.")
    await run_agent("Go", stages=[respond(tools=[wait, go])], model=model, notify=events.append)

    messages = [event.message for event in events if isinstance(event, MessageAdded)]
    assert [message.content for message in messages if message.kind == "result"] == [True, True]


async def test_a_function_may_give_back_an_awaitable() -> None:
    async def later() -> str:
        return "later"

    @tool(effect=Effect.NONE)
    def give_awaitable() -> Any:
        return later()

    assert await answer(give_awaitable) == "later"


async def test_a_thread_may_raise_even_what_a_future_cannot_carry() -> None:
    @tool(effect=Effect.NONE)
    def stop() -> None:
        raise StopIteration

    assert await answer(stop) == {"error": "RuntimeError: the function raised StopIteration"}


@pytest.mark.parametrize(
    ("effect", "more"), [(Effect.NONE, ""), (Effect.UNKNOWN, " Whether it had its effect is not known.")]
)
async def test_a_tool_that_takes_too_long_is_left(effect: Effect, more: str) -> None:
    @tool(effect=effect)
    async def hang() -> None:
        await asyncio.Event().wait()

    outputs = await answer(hang, deadlines=Deadlines(tool_seconds=0.01))

    assert outputs == {"error": f"It took longer than 0.01 s.{more}"}


async def test_a_timeout_of_the_tool_itself_is_its_own() -> None:
    @tool(effect=Effect.NONE)
    async def late() -> None:
        raise TimeoutError("the server")

    assert await answer(late) == {"error": "TimeoutError: the server"}


async def test_a_tool_that_cancels_itself_does_not_cancel_the_run() -> None:
    @tool(effect=Effect.NONE)
    async def leave() -> None:
        raise asyncio.CancelledError

    assert await answer(leave) == {"error": "The tool cancelled itself."}


async def test_a_tool_knows_its_call(db: Database) -> None:
    contexts: list[ToolContext] = []

    @tool
    async def look(city: str, context: ToolContext) -> str:
        """Look around."""
        contexts.append(context)
        return city

    model = ScriptedModel(
        calls(("c1", "look", {"city": "Oslo"})), calls(("c1", "look", {"city": "Bergen"})), "Ok."
    )
    async with Runtime(db, model=model, tools=[look]) as runtime:
        result = await runtime.run_turn("a", "Look", user="alice")

    assert "context" not in look.spec().parameters["properties"]
    assert {(context.thread, context.run, context.user) for context in contexts} == {
        ("a", result.run, "alice")
    }
    assert contexts[0].call == "c1"
    assert len({context.key for context in contexts}) == 2


async def test_mutable_defaults_are_not_shared() -> None:
    @tool(effect=Effect.NONE)
    async def grow(names: list[str] = ["a"]) -> list[str]:  # noqa: B006  # that is what is tested
        names.append("b")
        return names

    outputs = await answers([grow], ("c1", "grow", {}), ("c2", "grow", {}))

    assert outputs == [["a", "b"], ["a", "b"]]


def without_types(city) -> str:  # type: ignore[no-untyped-def]  # that is what is tested
    return str(city)


def many(*cities: str) -> str:
    return str(cities)


def by_position(city: str, /) -> str:
    return city


def unknown(city: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821  # that is what is tested
    return str(city)


def strange(city: threading.Event) -> str:
    return str(city)


@pytest.mark.parametrize("function", [without_types, many, by_position, unknown, strange])
def test_a_function_that_a_model_cannot_call_is_no_tool(function: ToolFunction) -> None:
    with pytest.raises(SchemaInvalid) as error:
        tool(function)
    assert error.value.schema == function.__name__


async def look(context: ToolContext) -> str:
    return "done"


@pytest.mark.parametrize(("effect", "check"), [(Effect.CHECKABLE, None), (Effect.NONE, look)])
def test_only_a_checkable_tool_has_a_check(effect: Effect, check: Any) -> None:
    with pytest.raises(SchemaInvalid):
        tool(effect=effect, check=check)(many)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaInvalid) as error:
        Toolbox([weather, tool(name="weather")(weather_again)])
    assert error.value.field == "weather"


def weather_again(city: str) -> str:
    return city
