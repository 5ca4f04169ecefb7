"""A history as messages of AG-UI."""

from __future__ import annotations

from clew.core.items import assistant, call, repair, result, system, user
from clew.core.values import Item
from clew.runtime.model.messages import Message
from clew.server.protocols.ag_ui.transcript import Transcript


def in_run(item: Item, run: str, step: int | None = None) -> Item:
    """An item of a run and a step."""
    return Item(
        body=item.body, role=item.role, kind=item.kind, id=item.id, call=item.call, run=run, step=step
    )


def test_messages_keep_their_ids_and_others_are_numbered_in_their_run() -> None:
    transcript = Transcript([user("hi", id="m1", run="r"), assistant("hello", run="r"), assistant("more")])

    assert [message.id for message in transcript.messages] == ["m1", "r-2", "thread-1"]


def test_the_next_id_is_the_one_that_the_next_message_gets() -> None:
    transcript = Transcript([user("hi", id="m1", run="r")])
    predicted_id = transcript.next_id("r")
    transcript.add(Message(role="assistant", content="hello", run="r"))

    assert transcript.messages[-1].id == predicted_id


def test_calls_of_one_answer_are_parts_of_its_text() -> None:
    items = [assistant("I look."), call("c1", "find", {"q": 1}), call("c2", "find", None)]
    transcript = Transcript(in_run(item, "r", 1) for item in items)

    (message,) = transcript.messages
    assert message.content == "I look."
    assert [(each.id, each.function.arguments) for each in message.tool_calls or ()] == [
        ("r:c1", '{"q":1}'),
        ("r:c2", "{}"),
    ]


def test_calls_of_another_answer_have_a_message_of_their_own() -> None:
    items = [in_run(call("c1", "find", {}), "r", 1), in_run(call("c2", "find", {}), "r", 2)]

    assert [len(message.tool_calls or ()) for message in Transcript(items).messages] == [1, 1]


def test_results_come_behind_the_message_with_their_call() -> None:
    items = [call("c1", "find", {}), call("c2", "find", {}), user("wait"), result("c2", 2), result("c1", 1)]
    transcript = Transcript(items)

    assert [(message.role, message.content) for message in transcript.messages] == [
        ("assistant", None),
        ("tool", "2"),
        ("tool", "1"),
        ("user", "wait"),
    ]


def test_a_repair_answers_every_call_that_is_open() -> None:
    items = [
        call("c1", "find", {}),
        call("c2", "find", {}),
        result("c1", 1),
        repair({"c2": None}, "It ended."),
    ]
    transcript = Transcript(items)

    assert [(message.tool_call_id, message.content) for message in transcript.messages[1:]] == [
        ("c1", "1"),
        ("c2", "It ended."),
    ]


def test_the_same_call_id_in_two_runs_is_two_calls() -> None:
    items = [in_run(call("c1", "find", {}), run, 1) for run in ("r", "s")]
    calls = [each.id for message in Transcript(items).messages for each in message.tool_calls or ()]

    assert calls == ["r:c1", "s:c1"]


def test_hidden_items_are_left_out() -> None:
    items = [system("Be kind."), Item(role="system", body={"content": "secret"}, visibility="model")]

    assert [message.content for message in Transcript(items).messages] == ["Be kind."]


def test_an_id_that_is_used_twice_names_one_message() -> None:
    transcript = Transcript([user("a", id="m"), user("b", id="m")])

    assert [message.id for message in transcript.messages] == ["m", "thread-2"]
