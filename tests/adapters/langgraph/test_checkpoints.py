"""A checkpoint stores what has changed since its parent, found by comparing encoded values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

import clew
from clew.adapters.langgraph import Checkpointer
from clew.core.messages.projection import plain_messages
from clew.core.values import Window
from tests.adapters.langgraph.samples import TEXT, chat, config, put, say, values_at


async def count_bytes(db: clew.Database, thread: str, after: int = 0) -> int:
    """How many bytes the items of a thread have that came after a version."""
    changes = await db.thread(thread).changesets(after=after, limit=10_000)
    return sum(len(item.body) for change in changes for item in change.items)


async def history(db: clew.Database) -> Window:
    """The items that the messages of a chat are kept in."""
    return await db.thread("t").items()


@pytest.mark.promise("B-10")
async def test_the_bytes_of_a_step_do_not_grow_with_the_thread(
    db: clew.Database, saver: Checkpointer
) -> None:
    graph, sizes = chat(saver), []
    for number in range(60):
        before = (await db.thread("t").head()).version if number else 0
        await graph.ainvoke(say(f"{TEXT}{number}"), config())
        sizes.append(await count_bytes(db, "t", before))

    assert max(sizes[50:]) <= max(sizes[5:15]) * 1.05


@pytest.mark.promise("B-10")
async def test_a_message_is_stored_once(db: clew.Database, saver: Checkpointer) -> None:
    graph = chat(saver)
    for number in range(20):
        await graph.ainvoke(say(f"Hello {number}"), config())

    assert len(await history(db)) == 40


async def test_a_new_process_goes_on_without_writing_old_messages_again(
    db: clew.Database, saver: Checkpointer
) -> None:
    for number in range(5):
        await chat(saver).ainvoke(say(f"Hello {number}"), config())

    await chat(Checkpointer(db)).ainvoke(say("Hello again"), config())

    assert len(await history(db)) == 12


@pytest.mark.promise("B-10")
async def test_a_message_edited_in_place_is_seen(db: clew.Database, saver: Checkpointer) -> None:
    messages = [HumanMessage(f"{TEXT}{number}", id=str(number)) for number in range(10)]
    first = await put(saver, config(), {"messages": messages})
    messages[4].content = "Something else."

    second = await put(saver, first, {"messages": messages}, 2)

    assert (await values_at(saver, second))["messages"][4].content == "Something else."
    assert (await values_at(saver, first))["messages"][4].content == f"{TEXT}4"
    assert len(await history(db)) == 11


async def test_what_is_deep_within_a_message_is_seen(db: clew.Database, saver: Checkpointer) -> None:
    call = {"name": "look", "args": {"where": ["a", "b"]}, "id": "c1", "type": "tool_call"}
    messages: list[Any] = [AIMessage(TEXT, tool_calls=[call], id="1"), ToolMessage(TEXT, tool_call_id="c1")]
    first = await put(saver, config(), {"messages": messages})
    messages[0].tool_calls[0]["args"]["where"].append("c")

    second = await put(saver, first, {"messages": messages}, 2)

    assert (await values_at(saver, second))["messages"] == messages
    assert (await values_at(saver, first))["messages"][0].tool_calls[0]["args"] == {"where": ["a", "b"]}


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0, False), ("1", 1)])
async def test_values_that_are_only_equal_are_not_the_same(
    saver: Checkpointer, before: object, after: object
) -> None:
    message = AIMessage(TEXT, additional_kwargs={"flag": before}, id="1")
    first = await put(saver, config(), {"messages": [message], "plain": [TEXT, before]})
    message.additional_kwargs["flag"] = after

    second = await put(saver, first, {"messages": [message], "plain": [TEXT, after]}, 2)

    values = await values_at(saver, second)
    assert repr(values["messages"][0].additional_kwargs["flag"]) == repr(after)
    assert repr(values["plain"][1]) == repr(after)


async def test_removed_messages_are_gone_and_cost_nothing(db: clew.Database, saver: Checkpointer) -> None:
    graph = chat(saver)
    for number in range(5):
        await graph.ainvoke(say(f"Hello {number}"), config())
    messages = (await graph.aget_state(config())).values["messages"]
    removals = [RemoveMessage(id=message.id) for message in messages[2:6]]

    await graph.aupdate_state(config(), {"messages": removals}, as_node="answer")

    assert (await graph.aget_state(config())).values["messages"] == messages[:2] + messages[6:]
    assert len(await history(db)) == 10


async def test_a_growing_dictionary_stores_its_new_entries(db: clew.Database, saver: Checkpointer) -> None:
    at: RunnableConfig = config()
    facts: dict[Any, str] = {}
    for number in range(1, 41):
        facts[number if number % 2 else str(number)] = f"{TEXT}{number}"
        at = await put(saver, at, {"facts": facts}, number)

    assert await values_at(saver, at) == {"facts": facts}
    assert await count_bytes(db, "t") < 40 * (len(TEXT) + 450)


async def test_a_value_that_did_not_change_is_not_stored_again(
    db: clew.Database, saver: Checkpointer
) -> None:
    at = await put(saver, config(), {"prompt": TEXT * 100})

    await put(saver, at, {"prompt": TEXT * 100}, 2)

    assert len(await db.thread("t").items(log="channel prompt")) == 1


@pytest.mark.promise("B-10")
async def test_a_branch_shares_what_both_have(db: clew.Database, saver: Checkpointer) -> None:
    messages = [HumanMessage(f"{TEXT}{number}", id=str(number)) for number in range(20)]
    trunk = await put(saver, config(), {"messages": messages})
    left = await put(saver, trunk, {"messages": [*messages, HumanMessage("left", id="l")]}, 2)
    right = await put(saver, trunk, {"messages": [*messages, HumanMessage("right", id="r")]}, 2)

    both = [(await values_at(Checkpointer(db), at))["messages"][-1].content for at in (left, right)]

    assert both == ["left", "right"]
    assert len(await history(db)) == 22


@pytest.mark.promise("B-10")
async def test_the_thread_can_be_verified_and_read_at_any_version(
    db: clew.Database, saver: Checkpointer
) -> None:
    graph = chat(saver)
    for number in range(3):
        await graph.ainvoke(say(f"Hello {number}"), config())

    verdict = await db.thread("t").verify()

    assert verdict.problems == ()
    assert [item.role for item in await history(db)] == ["user", "assistant"] * 3
    assert {item.format for item in await history(db)} == {"langchain"}


async def test_the_history_reads_as_plain_messages(db: clew.Database, saver: Checkpointer) -> None:
    call = {"name": "look", "args": {"where": "here"}, "id": "c1", "type": "tool_call"}
    messages = [
        HumanMessage("Where?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("a box", tool_call_id="c1"),
    ]

    await put(saver, config(), {"messages": messages})

    question, tool_call, answer = plain_messages(await history(db))
    assert (question.role, question.text) == ("user", "Where?")
    assert [(tool.name, tool.arguments) for tool in tool_call.calls] == [("look", {"where": "here"})]
    assert [(tool.name, tool.output) for tool in answer.results] == [("look", "a box")]


async def test_a_thread_can_be_exported_and_imported(tmp_path: Path) -> None:
    from clew.database.archive import export_threads, import_threads

    async with clew.open("memory://") as source, clew.open(f"sqlite:///{tmp_path}/copy.db") as target:
        graph = chat(Checkpointer(source))
        await graph.ainvoke(say("Hello"), config())
        await Checkpointer(source).aprune(["t"])
        await graph.ainvoke(say("Hello again"), config())
        await import_threads(target.store, clew.Scope(), export_threads(source.store, clew.Scope()))

        count = await Checkpointer(target).areindex("t")

        state = await chat(Checkpointer(target)).aget_state(config())
        assert state == await graph.aget_state(config())
        assert count == 4
