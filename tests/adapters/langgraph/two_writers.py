"""Turns on a thread that others write too: the graph, a writer, and what it finds in the end."""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

import clew
from clew.adapters.langgraph import Checkpointer
from tests.adapters.langgraph.samples import config


class Turns(TypedDict):
    """The turns of a thread, each with its answer."""

    turns: Annotated[list[str], operator.add]


TurnGraph = CompiledStateGraph[Turns, None, Turns, Turns]


def say_done(state: Turns) -> Turns:
    """A node that answers."""
    return {"turns": [f"{state['turns'][-1]} done"]}


def turn_graph(saver: BaseCheckpointSaver[Any], node: Callable[[Turns], Turns] = say_done) -> TurnGraph:
    """A graph of one node that answers each turn."""
    builder = StateGraph(Turns)
    builder.add_node("answer", RunnableLambda(node))
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


def turn(text: str) -> Turns:
    """What goes into a turn."""
    return {"turns": [text]}


async def take_turns(saver: Checkpointer, name: str, count: int) -> tuple[list[str], Counter[str]]:
    """The turns that were acknowledged, and the codes of the errors of the others."""
    graph, acknowledged, codes = turn_graph(saver), [], Counter[str]()
    for number in range(count):
        try:
            await graph.ainvoke(turn(f"{name} {number}"), config())
        except clew.ClewError as error:
            codes[error.code] += 1
        else:
            acknowledged.append(f"{name} {number}")
    return acknowledged, codes


def take_turns_at(url: str, name: str, count: int, options: dict[str, Any]) -> tuple[list[str], Counter[str]]:
    """The same, in a process of its own."""

    async def open_and_take_turns() -> tuple[list[str], Counter[str]]:
        async with clew.open(url) as db:
            return await take_turns(Checkpointer(db, **options), name, count)

    return asyncio.run(open_and_take_turns())


async def missing_turns(saver: Checkpointer, acknowledged: Sequence[str]) -> set[str]:
    """The acknowledged turns that the thread's state does not hold, with their answers."""
    state = await turn_graph(saver).aget_state(config())
    turns = set(state.values["turns"])
    return {text for text in acknowledged if not {text, f"{text} done"} <= turns}
