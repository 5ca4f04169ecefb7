"""Checkpoints, configurations and chat graphs to test with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph

TEXT = "It was a quiet morning at the harbour, and nobody was in a hurry. "


class Chat(TypedDict):
    """The state of a chat."""

    messages: Annotated[list[AnyMessage], add_messages]


def config(thread: str = "t", id: str | None = None, namespace: str = "") -> RunnableConfig:
    """What names a thread, or one of its checkpoints."""
    fields: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": fields if id is None else {**fields, "checkpoint_id": id}}


def checkpoint(values: Mapping[str, Any], versions: Mapping[str, Any], number: int = 0) -> Checkpoint:
    """A checkpoint with some values."""
    snapshot = empty_checkpoint()
    snapshot["id"] = str(uuid6(clock_seq=number))
    snapshot["channel_values"] = dict(values)
    snapshot["channel_versions"] = dict(versions)
    return snapshot


async def put(
    saver: BaseCheckpointSaver[Any], parent: RunnableConfig, values: Mapping[str, Any], version: int = 1
) -> RunnableConfig:
    """Put a checkpoint in which every channel has changed."""
    versions: ChannelVersions = dict.fromkeys(values, version)
    snapshot = checkpoint(values, versions, version)
    return await saver.aput(parent, snapshot, {"source": "loop", "step": version, "parents": {}}, versions)


async def values_at(saver: BaseCheckpointSaver[Any], at: RunnableConfig) -> dict[str, Any]:
    """The values of a checkpoint."""
    entry = await saver.aget_tuple(at)
    assert entry is not None
    return entry.checkpoint["channel_values"]


def answer(state: Chat) -> dict[str, Sequence[AnyMessage]]:
    """A node that answers."""
    return {"messages": [AIMessage(f"{TEXT}{len(state['messages'])}")]}


def chat(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Chat, None, Chat, Chat]:
    """A graph of one node that answers."""
    builder = StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def say(text: str) -> Chat:
    """What goes into a chat."""
    return {"messages": [HumanMessage(text)]}
