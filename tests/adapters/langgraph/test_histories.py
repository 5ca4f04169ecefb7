"""Random histories and random graphs: the checkpointer always says what LangGraph's in-memory saver says."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import clew
from clew.adapters.langgraph import Checkpointer
from tests.adapters.langgraph.samples import TEXT, checkpoint, config

QUICK = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
SLOW = settings(QUICK, max_examples=12)

WORDS = st.sampled_from(["", "a", TEXT, TEXT * 4, "\x00", "grüße"])
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    WORDS,
    st.binary(max_size=40),
    st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    st.lists(WORDS, max_size=3),
    st.dictionaries(st.one_of(WORDS, st.integers(0, 5)), WORDS, max_size=3),
)
MESSAGES = st.builds(
    lambda kind, text, id: kind(text, id=id),
    st.sampled_from([HumanMessage, AIMessage]),
    WORDS,
    st.sampled_from(["1", "2", "3"]),
)
CHANNELS = ("messages", "notes", "facts", "plain")


def next_list(data: st.DataObject, old: list[Any], parts: st.SearchStrategy[Any]) -> list[Any]:
    """A list after one of the things that happen to lists."""
    new = list(old)
    at = data.draw(st.integers(0, max(len(new) - 1, 0)))
    match data.draw(st.sampled_from(["append", "append", "append", "edit", "drop", "insert", "turn", "new"])):
        case "append":
            new += data.draw(st.lists(parts, min_size=1, max_size=3))
        case "edit" if new:
            new[at] = data.draw(parts)
        case "drop" if new:
            del new[at : at + data.draw(st.integers(1, 3))]
        case "insert":
            new.insert(at, data.draw(parts))
        case "turn":
            new.reverse()
        case _:
            new = data.draw(st.lists(parts, max_size=8))
    return new


def next_value(data: st.DataObject, channel: str, old: Any) -> Any:
    """The next value of a channel."""
    if channel == "messages":
        return next_list(data, old or [], MESSAGES)
    if channel == "notes":
        return next_list(data, old or [], PLAIN)
    if channel == "facts":
        return (old or {}) | data.draw(st.dictionaries(WORDS, PLAIN, max_size=3))
    return data.draw(PLAIN)


class Both:
    """One history, told to our checkpointer and to LangGraph's."""

    def __init__(self, db: clew.Database, data: st.DataObject) -> None:
        self.thread = uuid4().hex
        self._db = db
        self._data = data
        self._theirs = InMemorySaver()
        self._ours = Checkpointer(db)
        self._configs: list[RunnableConfig] = []

    async def step(self) -> None:
        """Do one of the things that a graph does with a saver, or start as a new process."""
        do: Callable[[], Awaitable[None]] = self._data.draw(
            st.sampled_from([self.put, self.put, self.put, self.write, self.hide, self.restart])
        )
        await (do() if self._configs else self.put())

    async def put(self) -> None:
        namespace = self._data.draw(st.sampled_from(["", "", "sub:1"]))
        parent = self._parent(namespace)
        before = await self._theirs.aget_tuple(parent) if "checkpoint_id" in parent["configurable"] else None
        values = dict(before.checkpoint["channel_values"]) if before else {}
        versions = dict(before.checkpoint["channel_versions"]) if before else {}
        names = self._data.draw(st.lists(st.sampled_from(CHANNELS), unique=True))
        for name in names:
            values[name] = next_value(self._data, name, values.get(name))
            versions[name] = uuid4().hex
        if self._data.draw(st.integers(0, 9)) == 0:
            channel = self._data.draw(st.sampled_from(CHANNELS))
            values.pop(channel, None)
            versions.pop(channel, None)
            names = [name for name in names if name != channel]
        snapshot = checkpoint(values, versions, len(self._configs))
        new = {name: versions[name] for name in names}
        run = self._data.draw(st.sampled_from(["r1", "r2"]))
        about: CheckpointMetadata = {
            "source": "loop",
            "step": len(self._configs),
            "parents": {},
            "run_id": run,
        }
        after = await self._theirs.aput(parent, snapshot, about, new)
        assert await self._ours.aput(parent, snapshot, about, new) == after
        self._configs.append(after)

    def _parent(self, namespace: str) -> RunnableConfig:
        configs = [at for at in self._configs if at["configurable"]["checkpoint_ns"] == namespace]
        if not configs or self._data.draw(st.integers(0, 9)) == 0:
            return config(self.thread, namespace=namespace)
        newest = self._data.draw(st.booleans())
        return configs[-1] if newest else self._data.draw(st.sampled_from(configs))

    async def write(self) -> None:
        at = self._data.draw(st.sampled_from(self._configs))
        channels = st.sampled_from([*CHANNELS, "__error__", "__interrupt__"])
        writes = self._data.draw(st.lists(st.tuples(channels, PLAIN), min_size=1, max_size=3))
        task, path = self._data.draw(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "x"])))
        for saver in (self._ours, self._theirs):
            await saver.aput_writes(at, writes, task, path)

    async def hide(self) -> None:
        """Delete a run in the middle; the in-memory saver cannot, so it is done to its dictionaries."""
        run = self._data.draw(st.sampled_from(["r1", "r2"]))
        await self._ours.adelete_for_runs([run])
        for namespace, entries in self._theirs.storage[self.thread].items():
            for id, (_, metadata, _) in list(entries.items()):
                if self._theirs.serde.loads_typed(metadata)["run_id"] == run:
                    del entries[id]
                    self._theirs.writes.pop((self.thread, namespace, id), None)
        deletions = [at for at in self._configs if await self._theirs.aget_tuple(at) is None]
        self._configs = [at for at in self._configs if at not in deletions]

    async def restart(self) -> None:
        self._ours = Checkpointer(self._db)

    async def compare(self) -> None:
        """Both say the same of every checkpoint, of the newest ones, and of all together."""
        for saver in (self._ours, Checkpointer(self._db)):
            for namespace in ("", "sub:1"):
                latest = config(self.thread, namespace=namespace)
                assert plain(await saver.aget_tuple(latest)) == plain(await self._theirs.aget_tuple(latest))
                assert [plain(entry) async for entry in saver.alist(latest)] == [
                    plain(entry) async for entry in self._theirs.alist(latest)
                ]
            for at in self._configs:
                assert plain(await saver.aget_tuple(at)) == plain(await self._theirs.aget_tuple(at))
        if self._configs:
            assert (await self._db.thread(self.thread).verify()).ok


def plain(entry: CheckpointTuple | None) -> Any:
    """A checkpoint as something to compare, types and order included."""
    if entry is None:
        return None
    return [repr(entry.checkpoint["channel_values"].get(name)) for name in CHANNELS], entry._replace(
        config=config_only(entry.config)
    )


def config_only(at: RunnableConfig) -> RunnableConfig:
    return {"configurable": dict(at["configurable"])}


async def compare_histories(url: str, data: st.DataObject) -> None:
    async with clew.open(url) as db:
        both = Both(db, data)
        for _ in range(data.draw(st.integers(1, 12))):
            await both.step()
        await both.compare()


@pytest.mark.promise("B-10")
@pytest.mark.parametrize("store_name", ["memory"])
@QUICK
@given(data=st.data())
def test_a_random_history_reads_as_in_memory(store_name: str, data: st.DataObject) -> None:
    asyncio.run(compare_histories("memory://", data))


@pytest.mark.promise("B-10")
@pytest.mark.parametrize("store_name", ["sqlite"])
@SLOW
@given(data=st.data())
def test_a_random_history_reads_as_in_memory_on_sqlite(
    store_name: str, data: st.DataObject, tmp_path: Path
) -> None:
    asyncio.run(compare_histories(f"sqlite:///{tmp_path}/agent.db", data))


@pytest.mark.promise("B-10")
@pytest.mark.parametrize("store_name", ["postgres"])
@SLOW
@given(data=st.data())
def test_a_random_history_reads_as_in_memory_on_postgres(
    store_name: str, data: st.DataObject, postgres_database: Any
) -> None:
    asyncio.run(compare_histories(postgres_database.url, data))


def newer(old: str, new: str) -> str:
    """The reducer of a channel that several nodes may write at once."""
    return new


class Notebook(TypedDict):
    """A state with the channels that graphs have."""

    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[Any], operator.add]
    facts: Annotated[dict[str, Any], operator.or_]
    mood: Annotated[str, newer]


def node(number: int, acts: list[str]) -> RunnableLambda[Notebook, dict[str, Any]]:
    """A node that does some of the things that nodes do."""

    async def act(state: Notebook) -> dict[str, Any]:
        update: dict[str, Any] = {}
        for what in acts:
            count = len(state.get("messages", []))
            match what:
                case "answer":
                    update["messages"] = [AIMessage(f"{TEXT}{number} {count}", id=f"{number}-{count}")]
                case "edit" if count:
                    state["messages"][count // 2].content = f"edited by {number}"
                case "forget" if count and number == 0:  # two nodes may not remove one message
                    update["messages"] = [RemoveMessage(id=state["messages"][0].id or "")]
                case "note":
                    update["notes"] = [{"by": number, "text": TEXT}, number]
                case "learn":
                    update["facts"] = {f"{number}": [TEXT, number], f"{count}": None}
                case "feel":
                    update["mood"] = TEXT * number
        return update

    return RunnableLambda(act)


ACTS = st.lists(
    st.sampled_from(["answer", "edit", "forget", "note", "learn", "feel"]), max_size=3, unique=True
)
GRAPHS = st.lists(ACTS, min_size=1, max_size=3)
MOVES = st.lists(st.tuples(st.sampled_from(["say", "say", "fork", "update"]), st.integers(0, 40)), max_size=5)


async def run_graph(
    saver: BaseCheckpointSaver[Any], graph: list[list[str]], moves: list[tuple[str, int]], *, fan: bool
) -> list[Any]:
    """The whole history of a graph: what each checkpoint says, the newest first."""
    builder = StateGraph(Notebook)
    for number, acts in enumerate(graph):
        builder.add_node(f"n{number}", node(number, acts))
        builder.add_edge(START if number == 0 else "n0" if fan else f"n{number - 1}", f"n{number}")
    builder.add_edge(f"n{len(graph) - 1}", END)
    app = builder.compile(checkpointer=saver)
    await app.ainvoke(inputs(0), config())
    for kind, number in moves:
        history = [state async for state in app.aget_state_history(config())]
        past = history[number % len(history)]
        if kind == "say":
            await app.ainvoke(inputs(number), config())
        elif kind == "fork":
            await app.ainvoke(None, past.config)
        else:
            await app.aupdate_state(past.config, inputs(number), as_node="n0")
    return [
        (state.values, state.next, (state.metadata or {}).get("step"), (state.metadata or {}).get("source"))
        async for state in app.aget_state_history(config())
    ]


def inputs(number: int) -> Any:
    return {
        "messages": [HumanMessage(f"{TEXT}{number}", id=f"h{number}")],
        "mood": "",
        "notes": [],
        "facts": {},
    }


async def compare_graphs(graph: list[list[str]], moves: list[tuple[str, int]], *, fan: bool) -> None:
    theirs = await run_graph(InMemorySaver(), graph, moves, fan=fan)
    async with clew.open("memory://") as db:
        assert await run_graph(Checkpointer(db), graph, moves, fan=fan) == theirs
        assert (await db.thread("t").verify()).ok


@pytest.mark.promise("B-10")
@settings(QUICK, max_examples=25)
@given(graph=GRAPHS, moves=MOVES, fan=st.booleans())
def test_a_random_graph_lives_as_in_memory(
    graph: list[list[str]], moves: list[tuple[str, int]], *, fan: bool
) -> None:
    asyncio.run(compare_graphs(graph, moves, fan=fan))
