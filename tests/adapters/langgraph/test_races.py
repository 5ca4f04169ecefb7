"""Checkpoints put by hand on several branches of a thread at once: none is lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

import clew
from clew.adapters.langgraph import Checkpointer
from tests.adapters.langgraph.samples import TEXT, chat, config, put, say

RUNS, PUTS = 4, 8


async def run(saver: Checkpointer, name: str) -> list[str]:
    """One run's checkpoints, each on the one before."""
    at, messages, ids = config(), [], []
    for number in range(1, PUTS + 1):
        messages.append(HumanMessage(f"{TEXT}{name} {number}", id=f"{name}-{number}"))
        at = await put(saver, at, {"messages": messages}, number)
        await saver.aput_writes(at, [("messages", messages[-1:])], name)
        ids.append(at["configurable"]["checkpoint_id"])
    return ids


async def check(db: clew.Database, runs: list[list[str]]) -> None:
    """Every checkpoint of every run is there, with what its run put into it."""
    saver = Checkpointer(db)
    for name, ids in enumerate(runs):
        for number, id in enumerate(ids, start=1):
            entry = await saver.aget_tuple(config(id=id))
            assert entry is not None
            texts = [message.content for message in entry.checkpoint["channel_values"]["messages"]]
            assert texts == [f"{TEXT}{name} {before}" for before in range(1, number + 1)]
            assert len(entry.pending_writes or []) == 1
    assert len([entry async for entry in saver.alist(config())]) == sum(map(len, runs))
    assert (await db.thread("t").verify()).ok


@pytest.mark.race
@pytest.mark.promise("B-10")
async def test_runs_of_one_checkpointer_lose_nothing(db: clew.Database, saver: Checkpointer) -> None:
    runs = await asyncio.gather(*(run(saver, str(name)) for name in range(RUNS)))

    await check(db, runs)


@pytest.mark.race
@pytest.mark.promise("B-10")
async def test_runs_of_checkpointers_that_know_nothing_of_each_other_lose_nothing(db: clew.Database) -> None:
    runs = await asyncio.gather(*(run(Checkpointer(db), str(name)) for name in range(RUNS)))

    await check(db, runs)


@pytest.mark.race
def test_threads_may_share_a_checkpointer(url: str) -> None:
    with Checkpointer(url) as saver:
        graph: Any = chat(saver)

        def talk(name: str) -> None:
            for number in range(3):
                graph.invoke(say(f"{name} {number}"), config(name))

        threads = [threading.Thread(target=talk, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [len(graph.get_state(config(name)).values["messages"]) for name in "abcd"] == [6] * 4
