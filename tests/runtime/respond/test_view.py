"""What the model sees is made apart from what is kept: nothing that is done to the one reaches the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import patch
from clew.core.errors import InvalidArgument, StoreUnavailable
from clew.core.items import assistant, user
from clew.core.items import call as call_item
from clew.core.items import result as result_item
from clew.core.patch import append
from clew.core.values import Item, Window
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.messages import CALL, REPAIR, RESULT, Message, message_of
from clew.runtime.respond.respond import respond
from clew.runtime.respond.view import open_calls, pair_calls
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.runtime.state.log import StateLog
from clew.runtime.state.schema import State, input
from clew.runtime.tools.tool import Effect, tool
from clew.runtime.turn.draft import Delta
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.dead_store import DeadStore


@tool(effect=Effect.NONE)
async def weather(city: str) -> dict[str, str]:
    """Say what the weather is like."""
    return {"sky": f"sunny in {city}"}


def copy_messages(messages: list[Message], ctx: Context) -> list[Message]:
    return [msgspec.convert(msgspec.to_builtins(message), Message) for message in messages]


def reorder(messages: list[Message], ctx: Context) -> list[Message]:
    return list(reversed(messages))


def drop_some(messages: list[Message], ctx: Context) -> list[Message]:
    return messages[-1:]


def duplicate(messages: list[Message], ctx: Context) -> list[Message]:
    return [*messages, *messages]


def rebuild(messages: list[Message], ctx: Context) -> list[Message]:
    return [Message(role=message.role, content="something else") for message in messages]


async def rebuilt_later(messages: list[Message], ctx: Context) -> list[Message]:
    return [Message(role="system", content="Be brief."), *messages]


def change_in_place(messages: list[Message], ctx: Context) -> list[Message]:
    for message in messages:
        if isinstance(message.content, dict):
            message.content["sky"] = "altered"
    messages.clear()
    return [Message(role="user", content="only this")]


CALLBACKS = [copy_messages, reorder, drop_some, duplicate, rebuild, rebuilt_later, change_in_place]


async def contents(db: Database, at: int | None = None) -> list[object]:
    items = await db.thread("a").items(at=at)
    return [item.body if item.kind != "message" else item.body["content"] for item in items]


ALL_CONTENTS = [
    "Weather?",
    {"name": "weather", "arguments": {"city": "Oslo"}},
    {"output": {"sky": "sunny in Oslo"}},
    "Sunny.",
    "Thanks",
    "You are welcome.",
]


@pytest.mark.promise("S-09")
@pytest.mark.parametrize("prepare", CALLBACKS)
async def test_whatever_a_callback_does_history_is_appended_once(
    db: Database, prepare: Callable[[list[Message], Context], Sequence[Message]]
) -> None:
    model = ScriptedModel(calls(("c1", "weather", {"city": "Oslo"})), "Sunny.", "You are welcome.")
    stages = [respond(tools=[weather], prepare=prepare)]
    async with Runtime(db, model=model, stages=stages) as runtime:
        await runtime.run_turn("a", "Weather?")
        await runtime.run_turn("a", "Thanks")

    assert await contents(db) == ALL_CONTENTS


@pytest.mark.promise("S-09")
async def test_the_model_sees_what_the_callback_gives(db: Database) -> None:
    model = ScriptedModel("One.", "Two.")
    async with Runtime(db, model=model, stages=[respond(prepare=rebuilt_later)]) as runtime:
        await runtime.run_turn("a", "Hi")
        await runtime.run_turn("a", "Again")

    assert [message.text for message in model.requests[1].messages] == ["Be brief.", "Hi", "One.", "Again"]


@pytest.mark.promise("S-09")
async def test_a_filter_hides_from_the_model_and_not_from_the_history(db: Database) -> None:
    model = ScriptedModel("One.", "Two.")
    shows = lambda message: "secret" not in message.text  # noqa: E731  # it is what a caller would write
    async with Runtime(db, model=model, stages=[respond(shows=shows)]) as runtime:
        await runtime.run_turn("a", "My secret word is plum.")
        await runtime.run_turn("a", "Go on")

    assert [message.text for message in model.requests[1].messages] == ["One.", "Go on"]
    assert await contents(db) == ["My secret word is plum.", "One.", "Go on", "Two."]


@pytest.mark.promise("S-09")
async def test_a_call_whose_result_is_hidden_is_hidden_too(db: Database) -> None:
    model = ScriptedModel(calls(("c1", "weather", {"city": "Oslo"})), "Sunny.")
    stages = [respond(tools=[weather], shows=lambda message: message.kind != RESULT)]
    async with Runtime(db, model=model, stages=stages) as runtime:
        await runtime.run_turn("a", "Weather?")

    assert [message.kind for message in model.requests[1].messages] == ["message"]


@pytest.mark.promise("R-04", "S-09")
async def test_a_window_never_parts_a_call_from_its_result(db: Database) -> None:
    thread = await db.create("a")
    await thread.append(items=[user("Weather?", run="r"), call_item("c1", "weather", {}, run="r")])
    await thread.append(items=[result_item("c1", "sunny", run="r"), assistant("Sunny.", run="r")])
    model = ScriptedModel("Bye.")
    async with Runtime(db, model=model, stages=[respond(window=3)]) as runtime:
        await runtime.run_turn("a", "Thanks")

    assert [message.content for message in model.requests[0].messages] == ["Thanks"]


def turn_items(run: str | None, *, tools: int, questions: int = 1) -> list[Item]:
    """A turn: what a person asked, so many calls with their results, one by one, and an answer."""
    asked = [user(f"question {run}", run=run) for _ in range(questions)]
    pairs = (
        (call_item(f"c{n}", "weather", {}, run=run), result_item(f"c{n}", "sunny", run=run))
        for n in range(tools)
    )
    return [*asked, *(item for pair in pairs for item in pair), assistant(f"answer {run}", run=run)]


HISTORIES = {
    "tools": [turn_items(f"r{number}", tools=number % 3) for number in range(4)],
    "a long turn": [turn_items("r0", tools=1), turn_items("r1", tools=4), turn_items("r2", tools=0)],
    "more said meanwhile": [turn_items(f"r{number}", tools=1, questions=2) for number in range(3)],
    "without runs": [turn_items(None, tools=0) for _ in range(4)],
    "the agent speaks first": [[assistant("Hello!", run="r0")], turn_items("r1", tools=2)],
}


@pytest.mark.promise("B-05", "R-04")
@pytest.mark.parametrize("history", HISTORIES)
async def test_a_window_of_any_size_holds_whole_turns(db: Database, history: str) -> None:
    thread = await db.create("a")
    for items in HISTORIES[history]:
        await thread.append(items=items)
    turns = [[message_of(item).content for item in items] for items in HISTORIES[history]]
    total = sum(map(len, turns))
    for window in range(1, total + 3):
        await thread.fork(f"a{window}")
        model = ScriptedModel("Bye.")
        async with Runtime(db, model=model, stages=[respond(window=window)]) as runtime:
            await runtime.run_turn(f"a{window}", "Thanks")
        shown = [message.content for message in model.requests[0].messages]
        whole_turns = [turns[-count:] if count else [] for count in range(len(turns) + 1)]
        fitting = [tail for tail in whole_turns if sum(map(len, tail)) < window]
        expected = [content for turn in fitting[-1] for content in turn]

        assert (window, shown) == (window, [*expected, "Thanks"])


async def test_more_calls_than_the_window_holds_are_all_answered(db: Database) -> None:
    requests = [(f"c{number}", "weather", {"city": f"city {number}"}) for number in range(9)]
    model = ScriptedModel(calls(*requests), "Sunny everywhere.")
    async with Runtime(db, model=model, stages=[respond(tools=[weather], window=4)]) as runtime:
        result = await runtime.run_turn("a", "Weather?")

    items = await db.thread("a").items()
    assert [item.call for item in items if item.kind == RESULT] == [f"c{number}" for number in range(9)]
    assert (result.text, len(model.requests)) == ("Sunny everywhere.", 2)


@pytest.mark.promise("S-09")
async def test_a_model_is_always_shown_the_whole_turn_it_is_in(db: Database) -> None:
    steps = [calls((f"c{number}", "weather", {"city": f"city {number}"})) for number in range(4)]
    model = ScriptedModel(*steps, "Sunny everywhere.")
    async with Runtime(db, model=model, stages=[respond(tools=[weather], window=3)]) as runtime:
        await runtime.run_turn("a", "Weather?")

    assert [message.kind for message in model.requests[-1].messages] == ["message", *[CALL, RESULT] * 4]


async def test_a_model_that_uses_a_call_id_again_gets_each_call_answered(db: Database) -> None:
    model = ScriptedModel(
        calls(("c1", "weather", {"city": "Oslo"})), calls(("c1", "weather", {"city": "Bergen"})), "Sunny."
    )
    async with Runtime(db, model=model, stages=[respond(tools=[weather])]) as runtime:
        result = await runtime.run_turn("a", "Weather?")

    items = await db.thread("a").items()
    assert [item.body["output"]["sky"] for item in items if item.kind == RESULT] == [
        "sunny in Oslo",
        "sunny in Bergen",
    ]
    assert result.text == "Sunny."


def message(kind: str, call: str | None = None, run: str = "r") -> Message:
    role = {CALL: "assistant", RESULT: "tool", REPAIR: "tool"}.get(kind, "user")
    return Message(role=role, kind=kind, call=call, run=run)


def test_a_repaired_call_is_shown_with_the_reason_as_its_result() -> None:
    repair = msgspec.structs.replace(message(REPAIR), content="The run ended.")

    view = pair_calls([message(CALL, "c1"), repair, message("message")])

    assert [(m.kind, m.call, m.content) for m in view[:2]] == [
        (CALL, "c1", ""),
        (RESULT, "c1", "The run ended."),
    ]


def test_call_ids_of_two_runs_are_not_mixed_up() -> None:
    messages = [
        message(CALL, "c1", "one"),
        message(REPAIR),
        message(CALL, "c1", "two"),
        message(RESULT, "c1", "two"),
    ]

    assert [(m.kind, m.run) for m in pair_calls(messages)] == [
        (CALL, "one"),
        (RESULT, "one"),
        (CALL, "two"),
        (RESULT, "two"),
    ]


def test_a_call_is_open_until_something_after_it_answers() -> None:
    messages = [message(CALL, "c1"), message(RESULT, "c1"), message(CALL, "c1"), message(CALL, "c2")]

    assert [call.id for call in open_calls(messages)] == ["c1", "c2"]


kinds = st.sampled_from([CALL, RESULT, "message", REPAIR])
messages_of = st.lists(st.builds(message, kinds, st.sampled_from(["c1", "c2"]), st.sampled_from(["r", "s"])))


@given(messages_of, st.randoms())
def test_in_every_view_each_call_has_exactly_one_result_behind_it(
    messages: list[Message], chance: random.Random
) -> None:
    messages_in_disorder = list(messages)
    chance.shuffle(messages_in_disorder)

    view = pair_calls(messages_in_disorder)

    open: list[tuple[str | None, str | None]] = []
    for each in view:
        if each.kind == CALL:
            open.append((each.run, each.call))
        elif each.kind == RESULT:
            open.remove((each.run, each.call))
        else:
            assert open == []
            assert each.kind != REPAIR
    assert open == []


@given(messages_of)
def test_a_view_of_a_view_is_the_same(messages: list[Message]) -> None:
    view = pair_calls(messages)

    assert pair_calls(view) == view


class Plan(State):
    message: Annotated[str, input]
    history: Annotated[StateLog[Message], append]
    plan: str = ""
    reply: str = ""


@pytest.mark.promise("S-11")
async def test_two_stages_that_answer_each_ask_for_an_answer_of_their_own(db: Database) -> None:
    stages = [respond(field="plan", name="plan"), respond(field="reply")]
    async with Runtime(
        db, schema=Plan, model=ScriptedModel("First this.", "Done."), stages=stages
    ) as runtime:
        result = await runtime.run_turn("a", "Go")

    assert result.output == {"plan": "First this.", "reply": "Done."}
    assert await contents(db) == ["Go", "First this.", "Done."]


@pytest.mark.promise("S-11")
@pytest.mark.parametrize("number", [2, 3, 4])
async def test_two_stages_that_answer_are_resumed_where_they_were(db: Database, number: int) -> None:
    stages = [respond(field="plan", name="plan"), respond(field="reply")]
    script = ["First this.", "Done."]
    dead = DeadStore(db.store, fail_at=number)
    with pytest.raises(StoreUnavailable):
        await Runtime(Database(dead), schema=Plan, model=ScriptedModel(*script), stages=stages).run_turn(
            "a", "Go"
        )
    model = ScriptedModel(*script[len(await contents(db)) - 1 :])
    async with Runtime(
        db, schema=Plan, model=model, stages=stages, config=RuntimeConfig(clock=lambda: 1 << 50)
    ) as later:
        result = await later.resume("a")

    assert result.output == {"plan": "First this.", "reply": "Done."}
    assert await contents(db) == ["Go", "First this.", "Done."]


async def test_a_callback_cannot_change_what_an_earlier_stage_has_added(db: Database) -> None:
    async def note(state: Plan, ctx: Context) -> Delta:
        return {"history": [Message(role="system", content={"sky": "sunny"})]}

    stages = [note, respond(prepare=change_in_place)]
    async with Runtime(db, schema=Plan, model=ScriptedModel("Hi."), stages=stages) as runtime:
        await runtime.run_turn("a", "Go")

    assert await contents(db) == ["Go", {"sky": "sunny"}, "Hi."]


async def test_a_callback_that_gives_no_messages_is_told_so(db: Database) -> None:
    def wrong(messages: list[Message], ctx: Context) -> list[Message]:
        return [{"role": "user"}]  # type: ignore[list-item]  # what a caller may get wrong

    async with Runtime(db, model=ScriptedModel("Hi."), stages=[respond(prepare=wrong)]) as runtime:
        with pytest.raises(InvalidArgument, match="not dict"):
            await runtime.run_turn("a", "Go")

    assert await contents(db) == ["Go"]


async def test_two_calls_with_one_id_in_one_reply_are_both_answered(db: Database) -> None:
    model = ScriptedModel(
        calls(("c", "weather", {"city": "Oslo"}), ("c", "weather", {"city": "Bergen"})), "Sunny."
    )
    async with Runtime(db, model=model, tools=[weather]) as runtime:
        await runtime.run_turn("a", "Weather?")

    items = await db.thread("a").items()
    assert [item.body["output"]["sky"] for item in items if item.kind == RESULT] == [
        "sunny in Oslo",
        "sunny in Bergen",
    ]


@pytest.mark.promise("R-04")
async def test_a_plain_turn_reads_the_window_once(db: Database) -> None:
    thread = await db.create("a")
    items = [user(f"message {number}") for number in range(200)]
    await thread.append(items=items, patches=[patch.set(["$thread", "agent"], "default")])
    sizes: list[int] = []

    class Counting(FailingStore):
        async def read(self, scope, asking):  # type: ignore[no-untyped-def]  # as in the store behind
            answer = await super().read(scope, asking)
            sizes.extend([len(answer)] if isinstance(answer, Window) else [])
            return answer

    store = Counting(db.store, fail_at=0)
    await Runtime(Database(store), model=ScriptedModel("Hi."), stages=[respond(window=10)]).run_turn(
        "a", "Hi"
    )

    assert sizes == [11]
