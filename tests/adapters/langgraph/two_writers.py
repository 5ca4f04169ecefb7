"""Turns on a thread that others write too: the graph, a writer, and what it finds in the end."""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

import clew
from clew.adapters.langgraph import Checkpointer
from tests.adapters.langgraph.samples import config


def add_marks(marks: str, more: str) -> str:
    """The bits of both."""
    return f"{int(marks or '0', 16) | int(more, 16):x}"


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


class Marks(TypedDict):
    """The turns of a long thread: a bit for each, so that the last turn costs what the first did."""

    number: int
    marks: Annotated[str, add_marks]


def mark_done(state: Marks) -> dict[str, str]:
    """A node that answers with a bit."""
    return {"marks": f"{1 << state['number']:x}"}


def mark_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """A graph that marks each turn."""
    builder = StateGraph(Marks)
    builder.add_node("answer", mark_done)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


async def take_turns(
    graph: Any, inputs: Mapping[str, Any], durability: str = "async"
) -> tuple[list[str], Counter[str]]:
    """The turns that were acknowledged, and the codes of the errors of the others."""
    acknowledged, codes = [], Counter[str]()
    for name, given in inputs.items():
        try:
            await graph.ainvoke(given, config(), durability=durability)
        except clew.ClewError as error:
            codes[error.code] += 1
        else:
            acknowledged.append(name)
    return acknowledged, codes


def short_turns(writer: str, count: int) -> dict[str, Turns]:
    """The inputs of some turns of a writer."""
    return {text: turn(text) for text in (f"{writer} {number}" for number in range(count))}


def long_turns(first: int, count: int) -> dict[str, Any]:
    """The inputs of many turns of a writer, by number."""
    return {str(number): {"number": number, "marks": "0"} for number in range(first, first + count)}


def take_turns_at(
    url: str, inputs: Mapping[str, Any], options: dict[str, Any], *, is_long: bool
) -> tuple[list[str], Counter[str]]:
    """The same, in a process of its own."""

    async def open_and_take_turns() -> tuple[list[str], Counter[str]]:
        async with clew.open(url) as db:
            saver = Checkpointer(db, **options)
            if is_long:
                return await take_turns(mark_graph(saver), inputs, "exit")
            return await take_turns(turn_graph(saver), inputs)

    return asyncio.run(open_and_take_turns())


async def missing_turns(saver: Checkpointer, acknowledged: Sequence[str]) -> set[str]:
    """The acknowledged turns that the thread's state does not hold, with their answers."""
    state = await turn_graph(saver).aget_state(config())
    turns = set(state.values["turns"])
    return {text for text in acknowledged if not {text, f"{text} done"} <= turns}


async def missing_marks(saver: Checkpointer, acknowledged: Sequence[str]) -> set[str]:
    """The acknowledged turns of a long thread that its state has no bit for."""
    state = await mark_graph(saver).aget_state(config())
    marks = int(state.values["marks"], 16)
    return {number for number in acknowledged if not marks >> int(number) & 1}
