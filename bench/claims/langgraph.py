"""LangGraph: a chat of one node, on its SQLite saver and on ours: bytes, puts and whole steps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

import clew
from bench.clock import Act, Contestant, Pace, turn_by_turn
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict, of_latency
from clew.adapters.langgraph import Checkpointer

OURS, THEIRS = "Clew Checkpointer", "LangGraph AsyncSqliteSaver"
BYTES = Bound(
    what="LangGraph: bytes on disk after 800 turns, against its SQLite saver", sign="≤", target=0.01
)
PUT = Bound(what="LangGraph: a put after 800 turns, against its SQLite saver", sign="≤", target=0.35)
STEP = Bound(what="LangGraph: a turn of 800, against its SQLite saver", sign="≤", target=0.7)
GROWTH = Bound(what="LangGraph: bytes of a turn, the last 100 against turns 100 to 200", sign="≤", target=1.1)
PUTS = 60
LETTERS = "It was a quiet morning at the harbour, and nobody was in a hurry. "


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def text(number: int) -> str:
    """Four hundred letters that no other message has."""
    return (f"{number} " + LETTERS * 7)[:400]


def answer(state: Chat) -> Chat:
    return {"messages": [AIMessage(text(len(state["messages"])))]}


async def measure(ground: Ground) -> Section:
    """The two take turns, turn by turn; then put by put, each in a file of its own."""
    turns, folder = ground.count(800, 100), ground.folder()
    marks = dict.fromkeys((turns // 8, turns // 4, turns - turns // 8, turns), 0)
    async with _both(folder, "turns") as (ours, theirs, db):
        steps = await turn_by_turn(
            (_turns(ours, OURS, marks, db), _turns(theirs, THEIRS)), Pace(rounds=1, block=turns, warmup=0)
        )
    mine, other = (_bytes(folder / f"{name}-turns.db") for name in ("ours", "theirs"))
    async with _both(folder, "puts") as (ours, theirs, _):
        puts = await turn_by_turn(
            (_puts(ours, OURS, 2 * turns), _puts(theirs, THEIRS, 2 * turns)),
            Pace(rounds=1, block=PUTS, warmup=5),
        )
    first, second, third, fourth = marks.values()
    return Section(
        title="LangGraph: a chat",
        timings=[*steps, *puts],
        verdicts=[
            Verdict(bound=BYTES, value=mine / other),
            *of_latency(PUT, puts, OURS, THEIRS),
            *of_latency(STEP, steps, OURS, THEIRS),
            Verdict(bound=GROWTH, value=(fourth - third) / (second - first)),
        ],
        notes=(f"{turns} turns of two messages: {mine / 1e6:,.1f} MB, against {other / 1e6:,.1f} MB.",),
    )


@asynccontextmanager
async def _both(
    folder: Path, name: str
) -> AsyncIterator[tuple[Checkpointer, AsyncSqliteSaver, clew.Database]]:
    async with (
        clew.open(f"sqlite:///{folder}/ours-{name}.db") as db,
        AsyncSqliteSaver.from_conn_string(str(folder / f"theirs-{name}.db")) as theirs,
    ):
        yield Checkpointer(db), theirs, db


def _turns(
    saver: BaseCheckpointSaver[Any],
    name: str,
    marks: dict[int, int] | None = None,
    db: clew.Database | None = None,
) -> Contestant:
    builder = StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=saver)
    config: RunnableConfig = {"configurable": {"thread_id": "chat"}}

    def ready(number: int) -> Act:
        async def act() -> None:
            await graph.ainvoke({"messages": [HumanMessage(text(number))]}, config)
            if marks and db is not None and number + 1 in marks:
                marks[number + 1] = int(str((await db.report()).facts["bytes"]))

        return act

    return Contestant(name=name, detail=f"langgraph {version('langgraph')}, a whole turn", ready=ready)


def _puts(saver: BaseCheckpointSaver[Any], name: str, length: int) -> Contestant:
    messages: list[AnyMessage] = [HumanMessage(text(number), id=str(number)) for number in range(length)]
    config: RunnableConfig = {"configurable": {"thread_id": "puts", "checkpoint_ns": ""}}

    def ready(number: int) -> Act:
        nonlocal messages
        messages = [*messages, HumanMessage(text(length + number), id=str(length + number))]
        checkpoint = empty_checkpoint()
        versions: ChannelVersions = {"messages": number + 1}
        checkpoint |= {
            "id": str(uuid6(clock_seq=number)),
            "channel_values": {"messages": messages},
            "channel_versions": versions,
        }

        async def act() -> None:
            nonlocal config
            config = await saver.aput(config, checkpoint, {"source": "loop", "step": number}, versions)

        return act

    return Contestant(name=name, detail=f"a put of {length:,} messages and one more", ready=ready)


def _bytes(path: Path) -> int:
    files = [path, path.with_name(path.name + "-wal")]
    return sum(file.stat().st_size for file in files if file.exists())
