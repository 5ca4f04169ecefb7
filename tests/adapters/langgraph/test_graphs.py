"""What graphs do with a checkpointer: subgraphs, interrupts, time travel, forks, failures, delta channels."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

import clew
from clew.adapters.langgraph import Checkpointer
from tests.adapters.langgraph.samples import TEXT, chat, config, put, say, values_at


class Count(TypedDict):
    """A state with a list of what was done."""

    done: Annotated[list[str], operator.add]


def join_writes(state: list[str], writes: Any) -> list[str]:
    """The reducer of a delta channel."""
    return [*state, *(part for write in writes for part in write)]


class Delta(TypedDict):
    """A state with a delta channel."""

    done: Annotated[list[str], DeltaChannel(join_writes, snapshot_frequency=4)]


@pytest.mark.promise("B-10")
async def test_an_interrupted_graph_goes_on_in_another_process(
    db: clew.Database, saver: Checkpointer
) -> None:
    def ask(state: Count) -> Count:
        return {"done": [interrupt({"question": "Go on?"})]}

    def compile_graph(saver: Checkpointer) -> Any:
        builder = StateGraph(Count)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        return builder.compile(checkpointer=saver)

    waiting = await compile_graph(saver).ainvoke({"done": ["started"]}, config())
    assert waiting["__interrupt__"][0].value == {"question": "Go on?"}

    result = await compile_graph(Checkpointer(db)).ainvoke(Command(resume="yes"), config())

    assert result == {"done": ["started", "yes"]}


async def wait_for_writes(db: clew.Database, saver: Checkpointer) -> None:
    """Return once a task of the newest checkpoint has finished."""
    async for _ in db.thread("t").watch(after=0):
        entry = await saver.aget_tuple(config())
        if entry is not None and entry.pending_writes:
            return


@pytest.mark.promise("B-10")
async def test_what_a_sibling_did_before_a_failure_is_not_done_twice(
    db: clew.Database, saver: Checkpointer
) -> None:
    runs: list[str] = []

    async def good(state: Count) -> Count:
        runs.append("good")
        return {"done": ["good"]}

    async def bad(state: Count) -> Count:
        runs.append("bad")
        if runs.count("bad") == 1:
            await wait_for_writes(db, saver)
            raise OSError("the network is down")
        return {"done": ["bad"]}

    builder = StateGraph(Count)
    builder.add_node("good", good)
    builder.add_node("bad", bad)
    builder.add_edge(START, "good")
    builder.add_edge(START, "bad")
    with pytest.raises(OSError, match="network"):
        await builder.compile(checkpointer=saver).ainvoke({"done": []}, config(), durability="sync")

    result = await builder.compile(checkpointer=Checkpointer(db)).ainvoke(None, config())

    assert sorted(result["done"]) == ["bad", "good"]
    assert runs.count("good") == 1


@pytest.mark.promise("B-10")
async def test_a_graph_goes_on_from_any_of_its_checkpoints(saver: Checkpointer) -> None:
    graph = chat(saver)
    for text in ("one", "two", "three"):
        await graph.ainvoke(say(text), config())
    history = [state async for state in graph.aget_state_history(config())]
    past = next(state for state in history if len(state.values["messages"]) == 2)

    await graph.ainvoke(say("instead"), past.config)

    heads = [message.content for message in (await graph.aget_state(config())).values["messages"]]
    assert heads[0::2] == ["one", "instead"]
    assert len([state async for state in graph.aget_state_history(config())]) == len(history) + 3


async def run_subgraphs(saver: BaseCheckpointSaver[Any]) -> list[tuple[str, list[str]]]:
    """What the namespaces of a graph hold after two turns; one of its subgraphs is kept, one made anew."""
    inner = StateGraph(Count)
    inner.add_node("inner", lambda state: {"done": ["inner"]})
    inner.add_edge(START, "inner")
    outer = StateGraph(Count)
    outer.add_node("kept", inner.compile(checkpointer=True))
    outer.add_node("fresh", inner.compile())
    outer.add_edge(START, "kept")
    outer.add_edge("kept", "fresh")
    graph = outer.compile(checkpointer=saver)
    for _ in range(2):
        await graph.ainvoke({"done": ["outer"]}, config())
    everything: RunnableConfig = {"configurable": {"thread_id": "t"}}
    spaces = {entry.config["configurable"]["checkpoint_ns"] async for entry in saver.alist(everything)}
    return sorted([(space.partition(":")[0], await results_in(saver, space)) for space in spaces])


async def results_in(saver: BaseCheckpointSaver[Any], namespace: str) -> list[str]:
    results: list[str] = (await values_at(saver, config(namespace=namespace)))["done"]
    return results


async def test_subgraphs_keep_their_own_checkpoints(saver: Checkpointer) -> None:
    ours = await run_subgraphs(saver)

    assert ours == await run_subgraphs(InMemorySaver())
    assert [name for name, _ in ours] == ["", "fresh", "fresh", "kept"]


async def test_tasks_that_are_sent_come_back_in_order(saver: Checkpointer) -> None:
    builder = StateGraph(Count)
    builder.add_node("one", lambda state: {"done": [state["done"][0]]})
    builder.add_conditional_edges(START, lambda state: [Send("one", {"done": [name]}) for name in "abcdef"])
    builder.add_edge("one", END)

    result = await builder.compile(checkpointer=saver).ainvoke({"done": []}, config())

    assert result["done"] == list("abcdef")


def delta_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    builder = StateGraph(Delta)
    builder.add_node("work", lambda state: {"done": [f"{TEXT}{len(state['done'])}"]})
    builder.add_edge(START, "work")
    return builder.compile(checkpointer=saver)


async def run_turns(saver: BaseCheckpointSaver[Any]) -> list[Any]:
    """A delta channel's life: some turns, and one more from a checkpoint in the middle."""
    graph = delta_graph(saver)
    for number in range(6):
        await graph.ainvoke({"done": [f"in {number}"]}, config())
    history = [state async for state in graph.aget_state_history(config())]
    await graph.ainvoke({"done": ["instead"]}, history[7].config)
    return [state.values async for state in graph.aget_state_history(config())]


@pytest.mark.promise("B-10")
async def test_delta_channels_live_as_in_memory(db: clew.Database, saver: Checkpointer) -> None:
    ours = await run_turns(saver)

    assert ours == await run_turns(InMemorySaver())
    assert ours[0] == (await delta_graph(Checkpointer(db)).aget_state(config())).values


@pytest.mark.promise("B-10")
async def test_delta_channels_survive_pruning(db: clew.Database, saver: Checkpointer) -> None:
    await run_turns(saver)
    before = (await delta_graph(saver).aget_state(config())).values

    await saver.aprune(["t"])

    assert (await delta_graph(Checkpointer(db)).aget_state(config())).values == before
    assert len([entry async for entry in saver.alist(config())]) == 1


async def test_pruning_from_the_middle_leaves_the_rest_whole(db: clew.Database, saver: Checkpointer) -> None:
    graph = chat(saver)
    for number in range(4):
        await graph.ainvoke(say(f"{TEXT}{number}"), {**config(), "metadata": {"run_id": f"r{number}"}})
    before = [state async for state in graph.aget_state_history(config())]

    await saver.adelete_for_runs(["r1", "r2"])

    after = [state async for state in chat(Checkpointer(db)).aget_state_history(config())]
    assert after == [state for state in before if (state.metadata or {}).get("run_id") in ("r0", "r3")]


async def test_a_copied_thread_goes_its_own_way(saver: Checkpointer) -> None:
    graph = chat(saver)
    await graph.ainvoke(say("Hello"), config())
    await saver.acopy_thread("t", "u")

    await graph.ainvoke(say("Only here"), config("u"))

    lengths = [len((await graph.aget_state(config(name))).values["messages"]) for name in "tu"]
    assert lengths == [2, 4]


async def test_a_copy_outlives_its_source(saver: Checkpointer) -> None:
    graph = chat(saver)
    await graph.ainvoke(say("Hello"), config())
    await saver.acopy_thread("t", "u")

    await saver.adelete_thread("t")

    assert await saver.aget_tuple(config("t")) is None
    assert len((await graph.aget_state(config("u"))).values["messages"]) == 2


async def test_a_deleted_thread_can_begin_anew(saver: Checkpointer, db: clew.Database) -> None:
    graph = chat(saver)
    await graph.ainvoke(say("Hello"), config())
    await Checkpointer(db).adelete_thread("t")

    await graph.ainvoke(say("Hello again"), config())

    assert len((await graph.aget_state(config())).values["messages"]) == 2


async def test_a_checkpoint_whose_parent_was_deleted_elsewhere_is_stored_whole(
    saver: Checkpointer, db: clew.Database
) -> None:
    messages = [HumanMessage(f"{TEXT}{number}", id=str(number)) for number in range(5)]
    first = await put(saver, config(), {"messages": messages})
    other = Checkpointer(db)
    await other.adelete_thread("t")
    await put(other, config(), {"messages": messages[:1]})

    second = await put(saver, first, {"messages": messages}, 2)

    assert (await values_at(Checkpointer(db), second))["messages"] == messages


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_every_durability_ends_in_the_same_state(saver: Checkpointer, durability: Any) -> None:
    graph = chat(saver)
    for text in ("one", "two"):
        await graph.ainvoke(say(text), config(), durability=durability)

    assert len((await graph.aget_state(config())).values["messages"]) == 4


def test_a_graph_that_is_invoked_works_like_one_that_is_awaited(url: str) -> None:
    with Checkpointer(url) as saver:
        graph = chat(saver)
        for text in ("one", "two", "three"):
            graph.invoke(say(text), config())
        latest = graph.get_state(config())
        history = list(graph.get_state_history(config(), limit=5))
        saver.copy_thread("t", "u")
        saver.delete_for_runs(["none"])
        saver.prune(["t"])
        saver.delete_thread("t")

        assert len(latest.values["messages"]) == 6
        assert history[0] == latest
        assert len(history) == 5
        assert graph.get_state(config()).values == {}
        assert graph.get_state(config("u")).values == latest.values


async def test_a_url_serves_graphs_on_any_event_loop(url: str) -> None:
    async with Checkpointer(url) as saver:
        await chat(saver).ainvoke(say("Hello"), config())

        assert len((await chat(saver).aget_state(config())).values["messages"]) == 2


async def test_two_users_never_see_each_others_threads(db: clew.Database) -> None:
    alice, bob = (Checkpointer(db.scope(tenant="acme", user=name)) for name in ("alice", "bob"))
    await chat(alice).ainvoke(say("Hello"), config())

    assert await bob.aget_tuple(config()) is None
    assert [entry async for entry in bob.alist(None)] == []
