"""Pruning frees what only the removed checkpoints needed, and leaves everything else whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from langgraph.graph import START, StateGraph

import clew
from clew.adapters.langgraph import Checkpointer
from clew.core.errors import TurnBusy
from tests.adapters.langgraph.samples import TEXT, chat, config, put, say, values_at
from tests.adapters.langgraph.two_writers import Turns, turn, turn_graph
from tests.support.shared_postgres import PostgresDatabase

PAGES = 40
PAGE_BYTES = 40_000


async def write_pages(saver: Checkpointer, thread: str = "t") -> Any:
    """A thread whose only value is another one at every checkpoint."""
    at = config(thread)
    for number in range(1, PAGES + 1):
        at = await put(saver, at, {"page": random.Random(number).randbytes(PAGE_BYTES)}, number)
        await saver.aput_writes(at, [("page", TEXT * 100)], f"task {number}")
    return at


async def body_bytes(db: clew.Database, thread: str = "t") -> int:
    """The bytes of all bodies that a thread holds."""
    total = 0
    for log in (await db.thread(thread).head()).counters.logs:
        total += sum(
            len(item.body) for item in await db.thread(thread).items(log=log) if isinstance(item.body, bytes)
        )
    return total


@pytest.mark.promise("B-10")
async def test_pruning_frees_what_older_checkpoints_needed(db: clew.Database, saver: Checkpointer) -> None:
    at = await write_pages(saver)
    before = await body_bytes(db)
    await saver.aprune(["t"])

    assert before > PAGES * PAGE_BYTES
    assert await body_bytes(db) < 2 * PAGE_BYTES
    assert (await values_at(saver, config())) == (await values_at(Checkpointer(db), at))
    assert (await db.thread("t").verify()).ok


@pytest.mark.promise("B-10")
async def test_a_file_is_smaller_after_pruning(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with clew.open(f"sqlite:///{path}") as db:
        await write_pages(Checkpointer(db))
        await Checkpointer(db).aprune(["t"])
        with_pages = await body_bytes(db)
    connection = apsw.Connection(str(path))
    connection.execute("VACUUM")
    connection.close()

    assert path.stat().st_size < with_pages + 20 * PAGE_BYTES


@pytest.mark.promise("B-10")
async def test_a_table_is_smaller_after_pruning(postgres_database: PostgresDatabase) -> None:
    async with clew.open(postgres_database.url) as db:
        await write_pages(Checkpointer(db))
        before = table_bytes(postgres_database.url)
        await Checkpointer(db).aprune(["t"])
    most = before - (PAGES - 2) * PAGE_BYTES
    # Rows that the server's own statistics were reading stay until the next time.
    after = next((size for size in sizes_of_tables(postgres_database.url) if size < most), before)

    assert after < most


def sizes_of_tables(url: str) -> Iterator[int]:
    """The size of all tables, taken a few times."""
    for _ in range(50):
        yield table_bytes(url)


def table_bytes(url: str) -> int:
    """The size of all tables without what is free in them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        query = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.relkind = 'r'"
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


async def test_checkpoints_of_a_run_are_freed(db: clew.Database, saver: Checkpointer) -> None:
    graph = turn_graph(saver)
    for run in ("one", "two"):
        await graph.ainvoke(
            {"turns": [run * 5000]}, {**config(), "metadata": {"run_id": run}}, durability="sync"
        )
    before = await body_bytes(db)
    await saver.adelete_for_runs(["one"])

    assert await body_bytes(db) < before
    assert (await graph.aget_state(config())).values["turns"][0] == "one" * 5000
    assert (await db.thread("t").verify()).ok


async def test_a_pruned_thread_goes_on(db: clew.Database, saver: Checkpointer) -> None:
    graph = chat(saver)
    for number in range(3):
        await graph.ainvoke(say(str(number)), config())
    await saver.aprune(["t"])
    await saver.aprune(["t"])
    state = await chat(Checkpointer(db)).ainvoke(say("last"), config())

    assert [message.content for message in state["messages"][::2]] == ["0", "1", "2", "last"]
    assert await Checkpointer(db).areindex("t") == len([entry async for entry in saver.alist(config())])


async def test_a_copy_keeps_what_its_source_prunes(db: clew.Database, saver: Checkpointer) -> None:
    await write_pages(saver)
    await saver.acopy_thread("t", "copy")
    await saver.aprune(["t"])

    entries = [entry async for entry in saver.alist(config("copy"))]
    assert len(entries) == PAGES
    assert all(len(entry.checkpoint["channel_values"]["page"]) == PAGE_BYTES for entry in entries)


async def test_a_thread_that_is_held_keeps_everything(db: clew.Database, saver: Checkpointer) -> None:
    await write_pages(saver)
    await db.retention.hold(thread="t", reason="a case")
    await saver.aprune(["t"])

    assert await body_bytes(db) > PAGES * PAGE_BYTES
    assert len([entry async for entry in saver.alist(config())]) == 1


async def test_a_user_prunes_without_erasing(db: clew.Database) -> None:
    saver = Checkpointer(db.scope(tenant="default", user="alice"))
    await write_pages(saver)
    await saver.aprune(["t"])

    assert await body_bytes(db) > PAGES * PAGE_BYTES
    assert len([entry async for entry in saver.alist(config())]) == 1


async def test_a_thread_at_work_is_not_pruned(db: clew.Database, saver: Checkpointer) -> None:
    refusals: list[str] = []

    async def prune(state: Turns) -> Turns:
        try:
            await Checkpointer(db).aprune(["t"])
        except TurnBusy as error:
            refusals.append(error.thread)
        return {"turns": ["done"]}

    await turn_graph(saver).ainvoke(turn("a"), config())
    builder = StateGraph(Turns)
    builder.add_node("prune", prune)
    builder.add_edge(START, "prune")
    await builder.compile(checkpointer=saver).ainvoke(turn("b"), config())

    assert refusals == ["t"]
    assert len([entry async for entry in saver.alist(config())]) == 6
