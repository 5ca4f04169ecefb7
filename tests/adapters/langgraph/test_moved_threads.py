"""Threads that were copied from LangGraph's own savers go on here."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

import clew
from clew.adapters.langgraph import Checkpointer
from tests.adapters.langgraph.samples import chat, config, say


async def copy_thread(source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any]) -> None:
    """Put every checkpoint of a thread into another saver, the oldest first."""
    for entry in reversed([entry async for entry in source.alist(config())]):
        await target.aput(
            entry.parent_config or config(),
            entry.checkpoint,
            entry.metadata,
            entry.checkpoint["channel_versions"],
        )
        for task, channel, value in entry.pending_writes or []:
            await target.aput_writes(entry.config, [(channel, value)], task)


async def moved_chat(saver: Checkpointer) -> Any:
    """A chat of two turns that began in LangGraph's memory."""
    source = InMemorySaver()
    for text in ("one", "two"):
        await chat(source).ainvoke(say(text), config())
    await copy_thread(source, saver)
    return chat(saver)


def texts(state: Any) -> list[str]:
    """What a person said."""
    return [message.content for message in state["messages"] if message.type == "human"]


@pytest.mark.promise("B-10")
async def test_a_moved_thread_goes_on(saver: Checkpointer) -> None:
    graph = await moved_chat(saver)
    await graph.ainvoke(say("three"), config())
    state = await graph.ainvoke(say("four"), config())

    assert texts(state) == ["one", "two", "three", "four"]
    assert len(state["messages"]) == 8


@pytest.mark.promise("B-10")
async def test_a_moved_thread_goes_on_from_its_past(db: clew.Database, saver: Checkpointer) -> None:
    graph = await moved_chat(saver)
    await graph.ainvoke(say("three"), config())
    history = [state async for state in graph.aget_state_history(config())]
    past = next(state for state in history if texts(state.values) == ["one"] and not state.next)
    state = await graph.ainvoke(say("instead"), past.config)

    assert [texts(state.values) for state in history if not state.next] == [
        ["one", "two", "three"],
        ["one", "two"],
        ["one"],
    ]
    assert texts(state) == ["one", "instead"]
    assert texts((await graph.aget_state(config())).values) == ["one", "instead"]
    assert (await db.thread("t").verify()).ok
