"""The session inside the SDK's own runner, streamed and not."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    HandoffInputData,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    ModelRetrySettings,
    ModelSettings,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    UserError,
    function_tool,
    handoff,
    retry_policies,
)
from agents.items import TResponseInputItem
from agents.testing import ScriptedModel
from openai import APIConnectionError

import clew
from clew.adapters.openai_agents import Session
from tests.adapters.openai_agents.samples import QUIET, agent, calls, run, sample_items, says, texts, user

pytestmark = pytest.mark.parametrize("way", ["whole", "streamed"])


@function_tool
def look() -> str:
    """Look for the parcel."""
    return "found it"


def script(who: Agent[Any]) -> ScriptedModel:
    """The model of an agent."""
    assert isinstance(who.model, ScriptedModel)
    return who.model


def model_input(who: Agent[Any], call: int = -1) -> list[str]:
    """What the model was shown at a call."""
    items = script(who).calls[call].input
    return texts(items) if isinstance(items, list) else [items]


def trips(guardrail: type[InputGuardrail[Any]] | type[OutputGuardrail[Any]], **more: Any) -> Any:
    """A guardrail that always trips."""

    async def always(*_: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    return guardrail(guardrail_function=always, **more)


@pytest.mark.promise("S-09", "S-11", "B-10")
async def test_a_conversation_goes_on_and_nothing_is_saved_twice(session: Session, way: str) -> None:
    helper = agent(says("In Bremen."), says("Tomorrow."))
    await run(helper, "Where is it?", session, way=way)
    await run(helper, "And when will it come?", session, way=way)

    assert model_input(helper) == ["Where is it?", "In Bremen.", "And when will it come?"]
    assert texts(await session.get_items()) == [*model_input(helper), "Tomorrow."]


@pytest.mark.promise("S-10")
async def test_every_turn_is_saved_when_it_is_done(session: Session, db: clew.Database, way: str) -> None:
    helper = agent(calls("look", "c1"), calls("look", "c2"), says("Done."), tools=[look])
    await run(helper, "Look.", session, way=way)

    changes = await db.thread("alice").changesets()
    assert [[entry.kind for entry in change.items] for change in changes] == [
        ["message"],
        ["call", "result"],
        ["call", "result"],
        ["message"],
    ]


@pytest.mark.promise("S-10")
async def test_tool_outputs_survive_a_later_error(session: Session, way: str) -> None:
    helper = agent(calls("look"), RuntimeError("the model is gone"), tools=[look])

    with pytest.raises(RuntimeError, match="the model is gone"):
        await run(helper, "Look.", session, way=way)
    assert texts(await session.get_items()) == ["Look.", "function_call", "found it"]


@pytest.mark.promise("S-09", "S-10")
async def test_a_hand_off_hides_items_from_the_model_and_history_keeps_all(
    session: Session, way: str
) -> None:
    def only_input(data: HandoffInputData) -> HandoffInputData:
        return data.clone(pre_handoff_items=(), input_items=())

    clerk = agent(says("It is on its way."), name="clerk")
    helper = agent(
        calls("look"),
        calls("transfer_to_clerk", "c2"),
        tools=[look],
        handoffs=[handoff(clerk, input_filter=only_input)],
    )
    await run(helper, "Where is it?", session, way=way)
    history = texts(await session.get_items())

    assert model_input(clerk) == ["Where is it?"]
    assert (history[:3], len(history), history[-1]) == (
        ["Where is it?", "function_call", "found it"],
        6,
        "It is on its way.",
    )


Items = list[TResponseInputItem]


def reverse(history: Items, new: Items) -> Items:
    """A callback that copies and turns around."""
    return [*reversed(copy.deepcopy(history)), *copy.deepcopy(new)]


def repeat(history: Items, new: Items) -> Items:
    """A callback that shows the history twice."""
    return [*history, *history, *new]


def drop(history: Items, new: Items) -> Items:
    """A callback that shows nothing of the history."""
    return new


def rebuild(history: Items, new: Items) -> Items:
    """A callback that makes every item anew."""
    return [user(text) for text in texts([*history, *new])]


@pytest.mark.promise("S-09")
@pytest.mark.parametrize("callback", [reverse, repeat, drop, rebuild])
async def test_history_is_never_appended_again(session: Session, callback: Any, way: str) -> None:
    await session.add_items(sample_items(2))
    config = RunConfig(tracing_disabled=True, session_input_callback=callback)
    await run(agent(says("Yes.")), "Really?", session, way=way, config=config)

    assert texts(await session.get_items()) == ["message 0", "message 1", "Really?", "Yes."]


def shorten(history: Items, new: Items) -> Items:
    """A callback that shows less of what tools and the model said."""
    bodies = cast(list[dict[str, Any]], copy.deepcopy(history))
    short = [{**body, "output": "…"} if "output" in body else body for body in bodies]
    return [*cast(Items, short), *new]


def repeat_copies(history: Items, new: Items) -> Items:
    """A callback that shows copies of the history, twice."""
    return [*copy.deepcopy(history), *copy.deepcopy(history), *new]


@pytest.mark.promise("S-09")
@pytest.mark.parametrize("callback", [shorten, repeat_copies])
async def test_copies_are_recognised_by_their_call_or_id_whatever_was_changed(
    session: Session, callback: Any, way: str
) -> None:
    await run(agent(calls("look"), says("In Bremen."), tools=[look]), "Where is it?", session, way=way)
    before = [body for body in await session.get_items() if body.get("role") != "user"]
    config = RunConfig(tracing_disabled=True, session_input_callback=callback)
    await run(agent(says("Yes.")), "Really?", session, way=way, config=config)
    after = [body for body in await session.get_items() if body.get("role") != "user"]

    assert after[:-1] == before
    assert [texts(after)[-1], len(before)] == ["Yes.", 3]


@pytest.mark.promise("S-09")
async def test_the_same_sentence_said_twice_is_two_items(session: Session, way: str) -> None:
    config = RunConfig(tracing_disabled=True, session_input_callback=reverse)
    for _ in range(2):
        await run(agent(says("Hm.")), "Really?", session, way=way, config=config)

    assert texts(await session.get_items()) == ["Really?", "Hm.", "Really?", "Hm."]


@pytest.mark.promise("S-11")
async def test_a_call_id_that_a_provider_uses_again_is_stored_again(session: Session, way: str) -> None:
    for _ in range(2):
        helper = agent(calls("look", "call_1"), says("Found."), tools=[look])
        await run(helper, "Where is it?", session, way=way)

    assert len([body for body in await session.get_items() if body.get("call_id") == "call_1"]) == 4


@pytest.mark.promise("S-09")
async def test_the_history_given_as_input_again_is_not_stored_again(session: Session, way: str) -> None:
    result = await run(agent(calls("look"), says("In Bremen."), tools=[look]), "Where?", session, way=way)
    answers = [body for body in result.to_input_list() if body.get("role") != "user"]
    await run(agent(says("Yes.")), [*answers, user("Really?")], session, way=way)

    assert texts(await session.get_items()) == [
        "Where?",
        "function_call",
        "found it",
        "In Bremen.",
        "Really?",
        "Yes.",
    ]


@pytest.mark.promise("S-05")
async def test_the_runner_keeps_to_the_limit(db: clew.Database, way: str) -> None:
    session = Session("alice", db, session_settings={"limit": 2})
    await session.add_items(sample_items(6))
    helper = agent(says("Yes."))
    await run(helper, "Really?", session, way=way)

    assert model_input(helper) == ["message 4", "message 5", "Really?"]


@pytest.mark.promise("S-12")
@pytest.mark.parametrize("when", ["parallel", "first"])
async def test_an_input_guardrail_keeps_what_was_said_and_drops_the_answer(
    session: Session, when: str, way: str
) -> None:
    await session.add_items(sample_items(1))
    guard = trips(InputGuardrail, run_in_parallel=when == "parallel")
    helper = agent(says("A secret."), input_guardrails=[guard])

    with pytest.raises(InputGuardrailTripwireTriggered):
        await run(helper, "Tell me.", session, way=way)
    assert texts(await session.get_items()) == ["message 0", "Tell me."]


@pytest.mark.promise("S-12")
async def test_an_output_guardrail_keeps_what_was_said_and_drops_the_answer(
    session: Session, way: str
) -> None:
    helper = agent(says("A secret."), output_guardrails=[trips(OutputGuardrail)])

    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(helper, "Tell me.", session, way=way)
    assert texts(await session.get_items()) == ["Tell me."]


@pytest.mark.promise("S-11")
async def test_a_retry_of_the_model_saves_nothing_twice(session: Session, way: str) -> None:
    error = APIConnectionError(message="lost", request=cast(Any, None))
    again = ModelRetrySettings(max_retries=1, policy=retry_policies.network_error())
    helper = agent(error, says("Here."), model_settings=ModelSettings(retry=again))
    await run(helper, "Where?", session, way=way)

    assert texts(await session.get_items()) == ["Where?", "Here."]


@pytest.mark.promise("S-14")
async def test_a_session_is_never_a_second_owner_of_a_conversation(session: Session, way: str) -> None:
    start = Runner.run if way == "whole" else Runner.run_streamed

    with pytest.raises(UserError):
        await _finish(start(agent(), "Where?", session=session, conversation_id="conv-1", run_config=QUIET))
    assert await session.get_items() == []


async def _finish(running: Any) -> None:
    """Wait for a run, streamed or not."""
    if not hasattr(running, "stream_events"):
        await running
        return
    async for _ in running.stream_events():
        pass


async def test_what_each_turn_used_is_kept(session: Session, way: str) -> None:
    helper = agent(calls("look"), says("Found."), says("Bye."), tools=[look])
    await run(helper, "Look.", session, way=way)
    await run(helper, "Thanks.", session, way=way)
    turns, usage = await session.turns(), await session.usage()

    assert [(turn.text, turn.usage.requests, turn.usage.total) for turn in turns] == [
        ("Look.", 2, 30),
        ("Thanks.", 1, 15),
    ]
    assert (usage.requests, usage.input, usage.output) == (3, 30, 15)


async def test_two_runs_at_once_are_counted_apart(session: Session, db: clew.Database, way: str) -> None:
    first, second = agent(calls("look"), says("A."), tools=[look]), agent(says("B."))
    await run(first, "One.", session, way=way)
    await run(second, "Two.", Session("alice", db), way=way)

    assert [turn.usage.requests for turn in await session.turns()] == [2, 1]
