"""Mistakes at a runtime and its turns: what is plainly meant works, the rest is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.core.errors import InvalidArgument, InvalidId, SchemaInvalid, ThreadExists, ThreadNotFound
from clew.database.database import Database
from clew.runtime import (
    Compaction,
    Deadlines,
    LeaseConfig,
    RetryPolicy,
    RuntimeConfig,
    SessionConfig,
    StateConfig,
    guardrail,
    respond,
)
from clew.runtime.model.provider import ProviderModel
from clew.stores.memory import MemoryStore
from clew.testing.scripted_model import ScriptedModel, calls

CORRECTIONS = {"usr": "user", "idempotency_key": "key", "mod": "mode"}
WRONG_OPTIONS: dict[str, Any] = {
    "user": 7,
    "key": 7,
    "busy": "never",
    "message_id": 7,
    "messages": ["hi"],
    "replace_state": "calm",
    "origin": 7,
    "parent": 7,
    "mode": "incognito",
}
WRONG_SETTINGS: dict[str, Any] = {
    "schema": "Conversation",
    "stages": ["stage"],
    "model": 7,
    "response_model": object(),
    "tools": ["tool"],
    "agent": "",
    "instructions": 7,
    "output": "text",
    "finalize": "nothing",
    "memory_mode": "local",
    "embedding_provider": "openai",
    "make_context": "plain",
    "config": {"pinned": True},
}
WRONG_CONFIG: list[tuple[Callable[..., object], str, Any]] = [
    (RuntimeConfig, "state", {"version": 2}),
    (RuntimeConfig, "sessions", 60),
    (RuntimeConfig, "leases", 15),
    (RuntimeConfig, "deadlines", RetryPolicy()),
    (RuntimeConfig, "retry_policy", 30),
    (RuntimeConfig, "compaction", True),
    (RuntimeConfig, "prices", {"gpt-5": 3}),
    (RuntimeConfig, "pinned", 1),
    (RuntimeConfig, "clock", 7),
    (RuntimeConfig, "new_id", "run"),
    (StateConfig, "version", True),
    (StateConfig, "upgrades", [1]),
    (StateConfig, "upgrades", {1: "step"}),
    (SessionConfig, "idle_seconds", float("nan")),
    (SessionConfig, "concurrent_ends", 1.5),
    (SessionConfig, "concurrent_ends", 0),
    (SessionConfig, "close_seconds", None),
    (SessionConfig, "finalize_active_sessions_on_close", "no"),
    (LeaseConfig, "seconds", "15"),
    (LeaseConfig, "sweep_seconds", -1),
    (Deadlines, "tool_seconds", "60"),
    (Deadlines, "turn_seconds", -1),
    (RetryPolicy, "call_seconds", []),
    (RetryPolicy, "attempts", []),
]
MISSPELLED_CONFIG: list[tuple[Callable[..., object], str, str]] = [
    (RuntimeConfig, "session", "sessions"),
    (RuntimeConfig, "retry_polcy", "retry_policy"),
    (StateConfig, "schema_version", "version"),
    (SessionConfig, "idle_second", "idle_seconds"),
    (LeaseConfig, "sweep_second", "sweep_seconds"),
    (Deadlines, "tools_seconds", "tool_seconds"),
    (RetryPolicy, "attempt", "attempts"),
]


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


async def answer(state: Any, ctx: clew.Context) -> dict[str, str]:
    """Answer with nothing but a word."""
    return {"reply": "Hello"}


@pytest.mark.promise("B-20")
@pytest.mark.parametrize("option", ["usr", "idempotency_key", "mod"])
async def test_an_unknown_option_of_a_turn_is_answered_by_the_nearest(db: Database, option: str) -> None:
    wrong: dict[str, Any] = {option: "alice"}
    async with clew.Runtime(db, model=ScriptedModel("Hello")) as runtime:
        for turn in (runtime.run_turn, runtime.stream_turn):
            with pytest.raises(TypeError, match=rf"'{option}'.*Did you mean '{CORRECTIONS[option]}'\?"):
                turn("t", "Hi", **wrong)

    with pytest.raises(ThreadNotFound):
        await db.thread("t").head()


@pytest.mark.promise("B-20")
@pytest.mark.parametrize(("option", "value"), WRONG_OPTIONS.items(), ids=WRONG_OPTIONS)
async def test_an_option_of_a_turn_of_another_type_is_named(option: str, value: Any) -> None:
    wrong: dict[str, Any] = {option: value}
    async with clew.open("memory://") as db, clew.Runtime(db, model=ScriptedModel("Hi")) as runtime:
        for turn in (runtime.run_turn, runtime.stream_turn):
            with pytest.raises((InvalidArgument, InvalidId), match=option.replace("_", "[_ ]")):
                turn("t", "Hi", **wrong)

        assert (await db.threads()).threads == ()


@pytest.mark.promise("B-20")
async def test_a_mode_given_as_text_is_answered_by_the_modes() -> None:
    async with clew.open("memory://") as db, clew.Runtime(db, model=ScriptedModel("Hi")) as runtime:
        with pytest.raises(InvalidArgument, match=r"MemoryMode\.INCOGNITO"):
            await runtime.run_turn("t", "Hi", mode="incognito")  # type: ignore[arg-type]  # the mistake


@pytest.mark.promise("B-20")
@pytest.mark.parametrize(("option", "value"), WRONG_SETTINGS.items(), ids=WRONG_SETTINGS)
async def test_a_setting_of_a_runtime_of_another_type_is_named(option: str, value: Any) -> None:
    wrong: dict[str, Any] = {option: value}
    async with clew.open("memory://") as db:
        with pytest.raises((InvalidArgument, InvalidId), match=option.replace("_", "[_ ]")):
            clew.Runtime(db, **wrong)


@pytest.mark.promise("B-20")
@pytest.mark.parametrize(("make", "option", "value"), WRONG_CONFIG)
def test_a_value_of_a_configuration_of_another_type_is_named(
    make: Callable[..., object], option: str, value: Any
) -> None:
    with pytest.raises(InvalidArgument, match=rf"\b{option}\b"):
        make(**{option: value})


@pytest.mark.promise("B-20")
@pytest.mark.parametrize(("make", "option", "nearest"), MISSPELLED_CONFIG)
def test_a_misspelled_option_of_a_configuration_is_answered_by_the_nearest(
    make: Callable[..., object], option: str, nearest: str
) -> None:
    with pytest.raises(TypeError, match=rf"'{option}'.*Did you mean '{nearest}'\?"):
        make(**{option: 1})


@pytest.mark.promise("B-20")
def test_a_configuration_says_what_a_value_must_be_and_not_what_its_default_is() -> None:
    with pytest.raises(InvalidArgument, match=r"upgrades must be a dict, not list"):
        StateConfig(upgrades=[1])  # type: ignore[arg-type]  # the mistake


@pytest.mark.promise("B-20")
def test_a_lease_is_an_hour_at_most() -> None:
    with pytest.raises(InvalidArgument, match="an hour is the most"):
        LeaseConfig(seconds=3601)


def test_a_runtime_has_the_name_of_its_agent() -> None:
    db = Database(MemoryStore())

    assert (clew.Runtime(db).agent, clew.Runtime(db, agent="travel").agent) == ("default", "travel")


@pytest.mark.promise("B-20")
async def test_a_runtime_needs_a_database() -> None:
    with pytest.raises(InvalidArgument, match="db must be a Database, not str"):
        clew.Runtime("sqlite:///agent.db")  # type: ignore[arg-type]  # the mistake


@pytest.mark.promise("B-20")
async def test_a_function_is_taken_as_a_tool(db: Database) -> None:
    model = ScriptedModel(calls(("c1", "weather", {"city": "Bern"})), "Sunny!")
    async with clew.Runtime(db, model=model, tools=[weather]) as runtime:
        result = await runtime.run_turn("t", "How is it in Bern?")

    (spec,) = model.requests[0].tools
    outputs = [item.body["output"] for item in await db.thread("t").items() if item.role == "tool"]
    assert (result.text, outputs) == ("Sunny!", ["It is sunny in Bern."])
    assert (spec.name, spec.description, spec.parameters["properties"]) == (
        "weather",
        "The weather in a city.",
        {"city": {"type": "string"}},
    )


@pytest.mark.promise("B-20")
async def test_a_function_is_taken_as_a_tool_without_a_store() -> None:
    model = ScriptedModel(calls(("c1", "weather", {"city": "Bern"})), "Sunny!")
    result = await clew.run_agent("How is it in Bern?", model=model, tools=[weather])

    assert (result.text, len(model.requests)) == ("Sunny!", 2)


def without_types(city):  # type: ignore[no-untyped-def]  # the mistake
    """Take what nobody knows."""


@pytest.mark.promise("B-20")
@pytest.mark.parametrize("wrong", [without_types, lambda: "sunny"], ids=["without types", "without a name"])
def test_a_function_that_no_tool_can_be_made_of_is_refused(wrong: Any) -> None:
    with pytest.raises(SchemaInvalid):
        respond(tools=[wrong])


@pytest.mark.promise("B-20")
async def test_a_model_may_be_given_by_its_name(db: Database) -> None:
    async with clew.Runtime(db, model="test") as runtime:
        result = await runtime.run_turn("t", "Hi")

    assert result.text
    assert (await clew.run_agent("Hi", model="test")).text == result.text


@pytest.mark.promise("B-20")
async def test_a_model_made_by_its_name_is_closed_with_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    async def close(self: ProviderModel) -> None:
        names.append(self.name)

    monkeypatch.setattr(ProviderModel, "close", close)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    async with clew.open("memory://") as db, clew.Runtime(db, model="openai:gpt-5"):
        before = list(names)

    assert (before, names) == ([], ["openai:gpt-5"])


@pytest.mark.promise("B-20")
async def test_a_model_of_an_unknown_name_is_refused() -> None:
    async with clew.open("memory://") as db:
        with pytest.raises(InvalidArgument, match="opnai:gpt-5"):
            clew.Runtime(db, model="opnai:gpt-5")


def blocking(state: Any, ctx: clew.Context) -> dict[str, str]:
    """Answer at once."""
    return {"reply": "Hello"}


async def with_state_alone(state: Any) -> dict[str, str]:
    """Know nothing of a context."""
    return {"reply": "Hello"}


@pytest.mark.promise("B-20")
async def test_a_blocking_stage_is_refused_when_the_runtime_is_made() -> None:
    async with clew.open("memory://") as db:
        with pytest.raises(InvalidArgument, match=r"'blocking' must be async.*async def blocking"):
            clew.Runtime(db, stages=[blocking])  # type: ignore[list-item]  # the mistake


@pytest.mark.promise("B-20")
async def test_a_blocking_stage_that_does_not_look_like_one_is_named_when_it_runs() -> None:
    with pytest.raises(InvalidArgument, match="must be async"):
        await clew.run_agent("Hi", stages=[lambda state, ctx: {"reply": "Hello"}])  # type: ignore[list-item,return-value]  # the mistake


@pytest.mark.promise("B-20")
async def test_a_stage_that_takes_something_else_is_refused() -> None:
    async with clew.open("memory://") as db:
        with pytest.raises(InvalidArgument, match="'with_state_alone' must take a state and a context"):
            clew.Runtime(db, stages=[with_state_alone])  # type: ignore[list-item]  # the mistake


@pytest.mark.promise("B-20")
def test_a_blocking_check_or_summary_is_refused() -> None:
    mistakes: list[Callable[[], object]] = [
        lambda: guardrail(check_at_once),  # type: ignore[call-overload]  # the mistake
        lambda: Compaction(summarize=check_at_once),  # type: ignore[arg-type]  # the mistake
    ]

    for make in mistakes:
        with pytest.raises(InvalidArgument, match="must be async"):
            make()


def check_at_once(text: str, ctx: Any = None) -> str | None:
    """Look at a text at once."""
    return None


@pytest.mark.promise("B-20")
async def test_a_rewind_takes_a_number_for_the_version_it_expects(db: Database) -> None:
    async with clew.Runtime(db, stages=[answer]) as runtime:
        await runtime.run_turn("t", "Hi")

        with pytest.raises(clew.VersionConflict):
            await runtime.rewind("t", to=0, expect=0)
        with pytest.raises(InvalidArgument, match="expect"):
            await runtime.rewind("t", to=0, expect=True)
        with pytest.raises(ThreadExists):
            await runtime.rewind("t", to=0, expect=clew.Absent())
        await runtime.rewind("t", to=0, expect=(await db.thread("t").head()).version)


@pytest.mark.promise("B-20")
def test_values_that_a_runtime_is_given_are_checked_when_they_are_made() -> None:
    wrong: list[Callable[[Any], object]] = [
        lambda value: Compaction(keep=value),
        lambda value: clew.Limits(body=value),
        lambda value: clew.Scope(tenant=value),
        lambda value: clew.tool(effect=value),
    ]

    for make in wrong:
        with pytest.raises((InvalidArgument, InvalidId)):
            make([])
