"""Two writers on one thread: what was acknowledged is in the state, and the slower one is told."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import clew
from clew.adapters.langgraph import Checkpointer
from clew.adapters.langgraph.leases import LEASE_KIND, LeaseName, ThreadLeases
from clew.core.errors import CheckpointStale, InvalidArgument, LeaseLost, StateConflict, TurnBusy
from clew.core.values import RecordQuery
from tests.adapters.langgraph.samples import chat, config, say, values_at
from tests.adapters.langgraph.two_writers import (
    Turns,
    long_turns,
    mark_graph,
    missing_marks,
    missing_turns,
    say_done,
    short_turns,
    take_turns,
    take_turns_at,
    turn,
    turn_graph,
)
from tests.support.child_process import ChildProcess, pipe
from tests.support.shared_postgres import PostgresDatabase

MODES = ["refuse", "wait", "rebase"]


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is that several processes can open."""
    if request.param == "postgres":
        database: PostgresDatabase = request.getfixturevalue("postgres_database")
        return database.url
    return f"sqlite:///{tmp_path}/agent.db"


async def run_processes(
    url: str, inputs: Sequence[Mapping[str, Any]], mode: str, *, is_long: bool = False
) -> tuple[list[str], Counter[str]]:
    """The turns of two processes that were acknowledged, and the codes of their errors."""
    async with clew.open(url):
        options = {"on_conflict": mode, "wait_seconds": 300}
        children = [
            ChildProcess(functools.partial(take_turns_at, is_long=is_long), url, each, options)
            for each in inputs
        ]
        results = [await asyncio.to_thread(child.result, 300) for child in children]
    return [name for acknowledged, _ in results for name in acknowledged], results[0][1] + results[1][1]


async def run_tasks(
    graph: Any, inputs: Sequence[Mapping[str, Any]], durability: str = "async"
) -> tuple[list[str], Counter[str]]:
    """The same, of two tasks that share a checkpointer."""
    results = await asyncio.gather(*(take_turns(graph, each, durability) for each in inputs))
    return [name for acknowledged, _ in results for name in acknowledged], results[0][1] + results[1][1]


@pytest.mark.race
@pytest.mark.promise("B-14")
@pytest.mark.parametrize("mode", MODES)
async def test_two_tasks_lose_no_turn(db: clew.Database, mode: Any) -> None:
    saver = Checkpointer(db, on_conflict=mode)
    acknowledged, codes = await run_tasks(turn_graph(saver), [short_turns("a", 10), short_turns("b", 10)])

    assert await missing_turns(Checkpointer(db), acknowledged) == set()
    assert len(acknowledged) + codes.total() == 20
    assert len(acknowledged) >= (20 if mode == "wait" else 10)
    assert (await db.thread("t").verify()).ok


@pytest.mark.race
@pytest.mark.promise("B-14")
@pytest.mark.parametrize("mode", MODES)
async def test_two_processes_lose_no_turn(shared_url: str, mode: str) -> None:
    acknowledged, codes = await run_processes(shared_url, [short_turns("a", 10), short_turns("b", 10)], mode)

    async with clew.open(shared_url) as db:
        assert await missing_turns(Checkpointer(db), acknowledged) == set()
    assert len(acknowledged) + codes.total() == 20
    assert len(acknowledged) >= (20 if mode == "wait" else 10)


@pytest.mark.slow
@pytest.mark.race
@pytest.mark.promise("B-14")
@pytest.mark.parametrize("mode", ["refuse", "wait"])
async def test_two_processes_lose_no_turn_of_two_thousand(shared_url: str, mode: str) -> None:
    acknowledged, _ = await run_processes(
        shared_url, [long_turns(0, 1000), long_turns(1000, 1000)], mode, is_long=True
    )

    async with clew.open(shared_url) as db:
        assert await missing_marks(Checkpointer(db), acknowledged) == set()
    assert len(acknowledged) >= (2000 if mode == "wait" else 1000)


@pytest.mark.slow
@pytest.mark.race
@pytest.mark.promise("B-14")
@pytest.mark.parametrize("mode", ["refuse", "wait"])
async def test_two_tasks_lose_no_turn_of_two_thousand(shared_url: str, mode: Any) -> None:
    async with clew.open(shared_url) as db:
        graph = mark_graph(Checkpointer(db, on_conflict=mode, wait_seconds=300))
        acknowledged, _ = await run_tasks(graph, [long_turns(0, 1000), long_turns(1000, 1000)], "exit")

        assert await missing_marks(Checkpointer(db), acknowledged) == set()
    assert len(acknowledged) >= (2000 if mode == "wait" else 1000)


class Gate:
    """A node that waits within a run until it is let through."""

    def __init__(self) -> None:
        self.is_reached = asyncio.Event()
        self.is_open = asyncio.Event()

    async def __call__(self, state: Turns) -> Turns:
        self.is_reached.set()
        await self.is_open.wait()
        return say_done(state)


def gated_graph(saver: BaseCheckpointSaver[Any], gate: Gate) -> Any:
    """A graph whose only node is a gate."""
    builder = StateGraph(Turns)
    builder.add_node("answer", gate)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


@pytest.mark.promise("B-14")
async def test_a_run_is_refused_while_another_is_at_work(db: clew.Database) -> None:
    gate = Gate()
    first = asyncio.create_task(gated_graph(Checkpointer(db), gate).ainvoke(turn("a"), config()))
    await gate.is_reached.wait()

    with pytest.raises(TurnBusy) as caught:
        await turn_graph(Checkpointer(db)).ainvoke(turn("b"), config())
    assert (caught.value.thread, caught.value.code) == ("t", "turn_busy")
    assert 0 < caught.value.retry_after_ms <= 15_000
    gate.is_open.set()
    assert (await first)["turns"] == ["a", "a done"]


@pytest.mark.promise("B-14")
async def test_a_run_that_waits_goes_on_from_what_the_other_left(
    db: clew.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_waiting, wait_for_release = asyncio.Event(), ThreadLeases._wait_for_release

    async def report_wait(self: ThreadLeases, name: LeaseName, seconds: float) -> None:
        is_waiting.set()
        await wait_for_release(self, name, seconds)

    monkeypatch.setattr(ThreadLeases, "_wait_for_release", report_wait)
    gate = Gate()
    first = asyncio.create_task(gated_graph(Checkpointer(db), gate).ainvoke(turn("a"), config()))
    await gate.is_reached.wait()
    second = asyncio.create_task(
        turn_graph(Checkpointer(db, on_conflict="wait")).ainvoke(turn("b"), config())
    )
    await is_waiting.wait()
    gate.is_open.set()

    assert (await first)["turns"] == ["a", "a done"]
    assert (await second)["turns"] == ["a", "a done", "b", "b done"]


async def test_a_run_does_not_wait_for_ever(db: clew.Database) -> None:
    gate = Gate()
    first = asyncio.create_task(gated_graph(Checkpointer(db), gate).ainvoke(turn("a"), config()))
    await gate.is_reached.wait()

    with pytest.raises(TurnBusy):
        await turn_graph(Checkpointer(db, on_conflict="wait", wait_seconds=0.05)).ainvoke(turn("b"), config())
    gate.is_open.set()
    await first


@pytest.mark.promise("B-14")
async def test_a_run_that_is_rebased_stands_behind_the_other_as_a_whole(db: clew.Database) -> None:
    gate, late_gate = Gate(), Gate()
    first = asyncio.create_task(gated_graph(Checkpointer(db), gate).ainvoke(turn("a"), config()))
    await gate.is_reached.wait()
    second = asyncio.create_task(
        gated_graph(Checkpointer(db, on_conflict="rebase"), late_gate).ainvoke(turn("b"), config())
    )
    await late_gate.is_reached.wait()
    late_gate.is_open.set()
    gate.is_open.set()
    await asyncio.gather(first, second)

    state = await turn_graph(Checkpointer(db)).aget_state(config())
    assert state.values["turns"] == ["a", "a done", "b", "b done"]
    assert state.next == ()


class Mood(TypedDict, total=False):
    """A state with a field that the last write decides."""

    mood: str
    notes: dict[str, str]


def mood_graph(saver: BaseCheckpointSaver[Any], gate: Gate, update: Mood) -> Any:
    """A graph that waits, and then writes."""

    async def write(state: Mood) -> Mood:
        gate.is_reached.set()
        await gate.is_open.wait()
        return update

    builder = StateGraph(Mood)
    builder.add_node("write", write)
    builder.add_edge(START, "write")
    return builder.compile(checkpointer=saver)


async def run_both(db: clew.Database, ours: Mood, theirs: Mood) -> Any:
    """The state after two runs at once, the second of which is rebased."""
    gate, late_gate = Gate(), Gate()
    gate.is_open.set()
    await mood_graph(Checkpointer(db), gate, {}).ainvoke({"mood": "calm"}, config())
    gate = Gate()
    first = asyncio.create_task(mood_graph(Checkpointer(db), gate, theirs).ainvoke({"notes": {}}, config()))
    await gate.is_reached.wait()
    saver = Checkpointer(db, on_conflict="rebase")
    second = asyncio.create_task(mood_graph(saver, late_gate, ours).ainvoke({"notes": {}}, config()))
    await late_gate.is_reached.wait()
    gate.is_open.set()
    await first
    late_gate.is_open.set()
    await second
    return (await mood_graph(Checkpointer(db), gate, {}).aget_state(config())).values


async def test_a_rebase_keeps_what_only_one_of_them_changed(db: clew.Database) -> None:
    values = await run_both(db, {"notes": {"b": "pears"}}, {"mood": "merry"})

    assert values == {"mood": "merry", "notes": {"b": "pears"}}


async def test_a_rebase_merges_different_keys(db: clew.Database) -> None:
    values = await run_both(db, {"notes": {"b": "pears"}}, {"notes": {"a": "plums"}})

    assert values["notes"] == {"a": "plums", "b": "pears"}


@pytest.mark.promise("B-14")
async def test_a_rebase_that_does_not_commute_is_refused_and_named(db: clew.Database) -> None:
    with pytest.raises(StateConflict) as caught:
        await run_both(db, {"mood": "sad"}, {"mood": "merry"})

    assert caught.value.path == ["mood"]
    assert (await values_at(Checkpointer(db), config()))["mood"] == "merry"


def take_one_turn(url: str, messages: Connection) -> str:
    """Begin a turn, and say what became of it: its code, or that it was acknowledged."""

    def wait(state: Turns) -> Turns:
        messages.send("at work")
        messages.recv()
        return say_done(state)

    with Checkpointer(url, lease_seconds=2) as saver:
        try:
            turn_graph(saver, wait).invoke(turn("a"), config(), durability="sync")
        except clew.ClewError as error:
            return error.code
    return "acknowledged"


@pytest.mark.race
@pytest.mark.promise("B-14")
async def test_a_writer_that_was_stopped_and_thawed_is_refused(shared_url: str) -> None:
    async with clew.open(shared_url) as db:
        ours, theirs = pipe()
        child = ChildProcess(take_one_turn, shared_url, theirs)
        assert await asyncio.to_thread(ours.recv) == "at work"
        pid = child.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            saver = Checkpointer(db, on_conflict="wait")
            await turn_graph(saver).ainvoke(turn("b"), config())
        finally:
            os.kill(pid, signal.SIGCONT)
        ours.send("go on")

        assert await asyncio.to_thread(child.result) == "lease_lost"
        assert await missing_turns(saver, ["b"]) == set()


@pytest.mark.promise("B-14")
async def test_a_writer_whose_lease_ran_out_goes_on_if_nobody_wanted_it(db: clew.Database) -> None:
    def stand_still(state: Turns) -> Turns:
        time.sleep(0.01)
        return say_done(state)

    result = await turn_graph(Checkpointer(db, lease_seconds=0.001), stand_still).ainvoke(turn("a"), config())

    assert result["turns"] == ["a", "a done"]


async def test_a_long_run_keeps_its_lease(db: clew.Database) -> None:
    gate = Gate()
    saver = Checkpointer(db, lease_seconds=0.3)
    first = asyncio.create_task(gated_graph(saver, gate).ainvoke(turn("a"), config()))
    await gate.is_reached.wait()

    for _ in range(3):
        with pytest.raises(TurnBusy):
            await turn_graph(Checkpointer(db)).ainvoke(turn("b"), config())
    gate.is_open.set()
    await first


@pytest.mark.promise("B-14")
async def test_a_failed_run_frees_its_thread(db: clew.Database) -> None:
    def fail(state: Turns) -> Turns:
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer") as caught:
        await turn_graph(Checkpointer(db), fail).ainvoke(turn("a"), config())
    result = await turn_graph(Checkpointer(db)).ainvoke(turn("b"), config())

    assert str(caught.value) == "no answer"  # whoever holds on to the error does not hold on to the thread
    assert result["turns"] == ["a", "b", "b done"]


async def test_a_stream_that_is_given_up_frees_its_thread(url: str) -> None:
    with Checkpointer(url) as saver:
        stream = turn_graph(saver).stream(turn("a"), config(), stream_mode="updates")
        next(stream)
        del stream

        assert turn_graph(saver).invoke(turn("b"), config())["turns"][-1] == "b done"


async def test_a_run_that_is_cancelled_frees_its_thread(db: clew.Database) -> None:
    gate = Gate()
    first = asyncio.create_task(gated_graph(Checkpointer(db), gate).ainvoke(turn("a"), config()))
    await gate.is_reached.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert (await turn_graph(Checkpointer(db)).ainvoke(turn("b"), config()))["turns"][-1] == "b done"


async def test_an_interrupted_run_frees_its_thread_and_goes_on_anywhere(db: clew.Database) -> None:
    def ask(state: Turns) -> Turns:
        return {"turns": [interrupt("how?")]}

    await turn_graph(Checkpointer(db), ask).ainvoke(turn("a"), config())
    result = await turn_graph(Checkpointer(db), ask).ainvoke(Command(resume="so"), config())

    assert result["turns"] == ["a", "so"]


@pytest.mark.promise("B-14")
async def test_an_update_of_the_state_is_refused_while_a_run_is_at_work(db: clew.Database) -> None:
    gate = Gate()
    graph = gated_graph(Checkpointer(db), gate)
    first = asyncio.create_task(graph.ainvoke(turn("a"), config(), durability="sync"))
    await gate.is_reached.wait()

    with pytest.raises(TurnBusy):
        await turn_graph(Checkpointer(db)).aupdate_state(config(), turn("b"))
    gate.is_open.set()
    assert (await first)["turns"] == ["a", "a done"]


class LateSaver(Checkpointer):
    """A checkpointer between whose read and put another writer comes first."""

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        db = self._database_loop._database
        assert db is not None
        await turn_graph(Checkpointer(db)).ainvoke(turn("first"), config())
        return await super().aput(*args, **kwargs)


@pytest.mark.promise("B-14")
@pytest.mark.parametrize("before", [0, 1])
async def test_an_update_of_a_state_that_moved_on_is_refused(db: clew.Database, before: int) -> None:
    await take_turns(turn_graph(Checkpointer(db)), short_turns("a", before))

    with pytest.raises(CheckpointStale) as caught:
        await turn_graph(LateSaver(db)).aupdate_state(config(), turn("late"))

    assert caught.value.code == "checkpoint_stale"
    state = await turn_graph(Checkpointer(db)).aget_state(config())
    assert state.values["turns"][-1] == "first done"


async def test_an_update_of_a_checkpoint_that_is_named_is_a_fork(db: clew.Database) -> None:
    graph = turn_graph(Checkpointer(db))
    await graph.ainvoke(turn("a"), config())
    named = (await graph.aget_state(config())).config
    await graph.ainvoke(turn("b"), config())
    await graph.aupdate_state(named, turn("c"))

    state = await graph.aget_state(config())
    assert state.values["turns"] == ["a", "a done", "c"]


async def test_a_run_that_travels_back_in_time_is_no_conflict(db: clew.Database) -> None:
    graph = turn_graph(Checkpointer(db))
    await graph.ainvoke(turn("a"), config())
    past = (await graph.aget_state(config())).config
    await graph.ainvoke(turn("b"), config())

    assert (await graph.ainvoke(turn("c"), past))["turns"] == ["a", "a done", "c", "c done"]
    assert (await graph.aget_state(config())).values["turns"] == ["a", "a done", "c", "c done"]


@pytest.mark.promise("B-14")
async def test_a_deleted_thread_is_not_brought_back_by_a_run_that_was_at_work(db: clew.Database) -> None:
    gate = Gate()
    saver = Checkpointer(db)
    graph = gated_graph(saver, gate)
    first = asyncio.create_task(graph.ainvoke(turn("a"), config(), durability="sync"))
    await gate.is_reached.wait()
    await saver.adelete_thread("t")
    gate.is_open.set()

    with pytest.raises(LeaseLost):
        await first
    assert await saver.aget_tuple(config()) is None


@pytest.mark.promise("B-14")
async def test_a_clock_that_is_behind_loses_nothing(
    db: clew.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await take_turns(turn_graph(Checkpointer(db)), short_turns("a", 1))
    monkeypatch.setattr("langgraph.checkpoint.base.id._last_v6_timestamp", None)
    monkeypatch.setattr("langgraph.checkpoint.base.id.time.time_ns", lambda: 1_600_000_000_000_000_000)
    acknowledged, _ = await take_turns(turn_graph(Checkpointer(db)), short_turns("b", 2))
    monkeypatch.undo()
    more, _ = await take_turns(turn_graph(Checkpointer(db)), short_turns("c", 1))

    assert await missing_turns(Checkpointer(db), ["a 0", *acknowledged, *more]) == set()
    steps = [state async for state in turn_graph(Checkpointer(db)).aget_state_history(config())]
    assert [len(state.values.get("turns", [])) for state in steps if not state.next] == [8, 6, 4, 2]


def test_an_unknown_way_to_meet_a_conflict_is_refused() -> None:
    mode: Any = "hope"
    with pytest.raises(InvalidArgument, match="on_conflict"):
        Checkpointer("memory://", on_conflict=mode)


async def test_the_lease_of_a_thread_is_free_when_a_run_is_over(url: str) -> None:
    async with clew.open(url) as db:
        await chat(Checkpointer(db)).ainvoke(say("Hello."), config())

        (lease,) = await db.records.find(RecordQuery(kind=LEASE_KIND))
    assert "run" not in lease.body
