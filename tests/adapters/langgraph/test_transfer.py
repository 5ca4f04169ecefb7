"""The databases of LangGraph's own savers become threads, and their graphs go on."""

from __future__ import annotations

import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import clew
from clew.adapters.langgraph import Checkpointer
from clew.adapters.langgraph.transfer import count_threads, transfer_threads
from clew.adapters.source import open_source
from clew.database.transfer import ThreadTransfer, TransferOptions, TransferOutcome
from tests.adapters.langgraph.samples import chat, config, say
from tests.adapters.langgraph.saver_tables import write_tables
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.promise("B-10")


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database for a saver is."""
    if request.param == "postgres":
        database: PostgresDatabase = request.getfixturevalue("postgres_database")
        return database.url
    return f"{tmp_path}/langgraph.db"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the threads go."""
    return f"sqlite:///{tmp_path}/agent.db"


async def transfer(db: clew.Database, location: str, **options: Any) -> dict[str, ThreadTransfer]:
    """What came of each thread of a database."""
    async with open_source(location) as source:
        transfers = transfer_threads(source, db, TransferOptions(**options))
        return {each.thread: each async for each in transfers}


def texts(values: Any) -> list[str]:
    """What a person said."""
    return [message.content for message in values.get("messages", []) if message.type == "human"]


async def write_chats(location: str) -> InMemorySaver:
    """A database with two threads; and what it was made of."""
    saver = InMemorySaver()
    for thread, said in (("alice", ("one", "two")), ("bob", ("three",))):
        for text in said:
            await chat(saver).ainvoke(say(text), config(thread))
    write_tables(location, saver)
    return saver


async def test_every_checkpoint_is_there_and_reads_the_same(db: clew.Database, location: str) -> None:
    theirs = await write_chats(location)
    async with open_source(location) as source:
        count = await count_threads(source)
    transfers = await transfer(db, location)

    assert count == 2
    assert {each.outcome for each in transfers.values()} == {TransferOutcome.IMPORTED}
    for thread in ("alice", "bob"):
        ours = [entry async for entry in Checkpointer(db).alist(config(thread))]
        assert ours == [entry async for entry in theirs.alist(config(thread))]
        assert (await db.thread(thread).verify()).ok


async def test_a_graph_goes_on_and_back(db: clew.Database, location: str) -> None:
    await write_chats(location)
    await transfer(db, location)
    graph = chat(Checkpointer(db))
    state = await graph.ainvoke(say("more"), config("alice"))
    history = [each async for each in graph.aget_state_history(config("alice"))]
    past = next(each for each in history if texts(each.values) == ["one"] and not each.next)

    assert texts(state) == ["one", "two", "more"]
    assert texts(await graph.ainvoke(say("instead"), past.config)) == ["one", "instead"]


async def test_the_chat_is_the_threads_history_and_each_message_is_stored_once(
    db: clew.Database, location: str
) -> None:
    await write_chats(location)
    await transfer(db, location)

    items = await db.thread("alice").items()
    assert [item.role for item in items] == ["user", "assistant", "user", "assistant"]


async def test_a_second_import_adds_nothing(db: clew.Database, location: str) -> None:
    await write_chats(location)
    await transfer(db, location)
    await chat(Checkpointer(db)).ainvoke(say("more"), config("alice"))
    transfers = await transfer(db, location)

    assert {each.outcome for each in transfers.values()} == {TransferOutcome.PRESENT}
    assert texts((await chat(Checkpointer(db)).aget_state(config("alice"))).values) == ["one", "two", "more"]


async def test_an_owner_and_a_prefix_are_given(db: clew.Database, location: str) -> None:
    await write_chats(location)
    await transfer(db, location, prefix="old-", owner="carol")
    carols = Checkpointer(db.scope(tenant="default", user="carol"))

    state = await chat(carols).ainvoke(say("more"), config("old-alice"))
    assert texts(state) == ["one", "two", "more"]


class Question(TypedDict, total=False):
    """A state with an answer."""

    answer: str


async def test_an_interrupted_run_goes_on(db: clew.Database, location: str) -> None:
    builder = StateGraph(Question)
    builder.add_node("ask", lambda state: {"answer": interrupt("How?")})
    builder.add_edge(START, "ask")
    saver = InMemorySaver()
    await builder.compile(checkpointer=saver).ainvoke({}, config())
    write_tables(location, saver)
    await transfer(db, location)
    graph: Any = builder.compile(checkpointer=Checkpointer(db))

    assert [each.value for each in (await graph.aget_state(config())).interrupts] == ["How?"]
    assert await graph.ainvoke(Command(resume="So."), config()) == {"answer": "So."}


@dataclass
class Tripwire:
    """A type that must not be made."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise AssertionError("It was made.")


async def test_no_type_is_made(db: clew.Database, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    saver, order = InMemorySaver(), Tripwire(7)
    builder = StateGraph(Question)
    builder.add_node("order", lambda state: {"answer": [order]})
    builder.add_edge(START, "order")
    await builder.compile(checkpointer=saver).ainvoke({"answer": ""}, config())
    write_tables(location, saver)
    with monkeypatch.context() as patch:
        patch.setattr(Tripwire, "__init__", lambda *args, **kwargs: pytest.fail("It was made."))
        patch.delattr(sys.modules[__name__], "Tripwire")
        transfers = await transfer(db, location)

    assert transfers["t"].left_out == ()
    state = await builder.compile(checkpointer=Checkpointer(db, types=[Tripwire])).aget_state(config())
    assert state.values == {"answer": [Tripwire(7)]}


async def test_what_is_pickled_is_left_out_and_named(db: clew.Database, tmp_path: Path) -> None:
    path = tmp_path / "langgraph.db"
    await write_chats(str(path))
    with sqlite3.connect(path) as file:
        newest = file.execute("SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'alice'")
        (id,) = newest.fetchone()
        file.execute("UPDATE checkpoints SET type = 'pickle' WHERE checkpoint_id = ?", (id,))
        file.execute("UPDATE writes SET type = 'msgpack+aes' WHERE thread_id = 'bob'")
    file.close()
    transfers = await transfer(db, str(path))

    (problem,) = transfers["alice"].left_out
    assert id in problem
    assert "never unpickles" in problem
    assert "msgpack+aes" in transfers["bob"].left_out[0]
    assert texts((await chat(Checkpointer(db)).aget_state(config("alice"))).values) == ["one", "two"]


async def test_json_of_an_early_release_is_left_out_if_it_holds_objects(
    db: clew.Database, tmp_path: Path
) -> None:
    path = tmp_path / "langgraph.db"
    await write_chats(str(path))
    with sqlite3.connect(path) as file:
        body = b'{"channel_versions": {}, "channel_values": {"a": {"lc": 2, "type": "constructor"}}}'
        file.execute("UPDATE checkpoints SET type = 'json', checkpoint = ?", (body,))
    file.close()
    transfers = await transfer(db, str(path))

    assert {each.outcome for each in transfers.values()} == {TransferOutcome.REFUSED}
    assert all("early release" in problem for each in transfers.values() for problem in each.left_out)


async def test_a_dry_run_writes_nothing(db: clew.Database, location: str) -> None:
    await write_chats(location)
    transfers = await transfer(db, location, dry_run=True)

    assert {each.outcome for each in transfers.values()} == {TransferOutcome.IMPORTED}
    assert (await db.threads()).threads == ()
