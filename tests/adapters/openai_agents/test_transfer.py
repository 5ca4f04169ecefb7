"""Sessions of the SDK's own databases become threads, and go on as such."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest
from agents import SQLiteSession, function_tool
from agents.extensions.memory import AdvancedSQLiteSession, EncryptedSession, SQLAlchemySession
from agents.memory import Session as Protocol
from agents.memory import SessionABC
from agents.testing import ScriptedModel

import clew
from clew.adapters.openai_agents import Session
from clew.adapters.openai_agents.transfer import count_threads, transfer_threads
from clew.adapters.source import open_source
from clew.database.transfer import ThreadTransfer, TransferOptions
from tests.adapters.openai_agents.samples import agent, calls, item, run, says, texts, user
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.promise("B-10")


@function_tool
def look() -> str:
    """Look for the parcel."""
    return "found it"


async def transfer(db: clew.Database, location: str | Path, **options: Any) -> dict[str, ThreadTransfer]:
    """What came of each session of a database."""
    async with open_source(str(location)) as source:
        transfers = transfer_threads(source, db, TransferOptions(**options))
        return {each.thread: each async for each in transfers}


async def ask_twice(session: Protocol) -> list[Any]:
    """The items of a session after two turns, the first of them with a tool."""
    who = agent(calls("look"), says("It is in Bremen."), says("You are welcome."), tools=[look])
    await run(who, "Where is it?", session=session)
    await run(who, "Thanks.", session=session)
    return await session.get_items()


async def test_a_session_of_the_sdk_goes_on_as_a_thread(db: clew.Database, tmp_path: Path) -> None:
    theirs = SQLiteSession("parcel-7", tmp_path / "sdk.db")
    items = await ask_twice(theirs)
    theirs.close()
    transfers = await transfer(db, tmp_path / "sdk.db")
    session = Session("parcel-7", db)
    who = agent(says("Bremen, as I said."))
    await run(who, "Where was it?", session=session)
    assert isinstance(who.model, ScriptedModel)

    assert transfers["parcel-7"].outcome == "imported"
    assert (await session.get_items())[: len(items)] == items
    assert who.model.calls[0].input == [*items, user("Where was it?")]


async def test_turns_keep_their_times_and_can_be_branched_from(db: clew.Database, tmp_path: Path) -> None:
    theirs = SQLiteSession("parcel-7", tmp_path / "sdk.db")
    await ask_twice(theirs)
    theirs.close()
    with sqlite3.connect(tmp_path / "sdk.db") as file:
        file.execute("UPDATE agent_messages SET created_at = '2025-06-15 15:06:40'")
    file.close()
    await transfer(db, tmp_path / "sdk.db")
    session = Session("parcel-7", db)
    turns = await session.turns()

    assert [turn.text for turn in turns] == ["Where is it?", "Thanks."]
    assert texts(await session.items_at(turns[1].version - 1))[-1] == "It is in Bremen."
    assert {entry.time for entry in await db.thread("parcel-7").items()} == {1_750_000_000_000}


async def test_all_sessions_of_a_file_are_taken_in_with_owner_and_prefix(
    db: clew.Database, tmp_path: Path
) -> None:
    for name in ("b", "a", "c"):
        theirs = SQLiteSession(name, tmp_path / "sdk.db")
        await theirs.add_items([user(name)])
        theirs.close()
    async with open_source(str(tmp_path / "sdk.db")) as source:
        count = await count_threads(source)
    transfers = await transfer(db, tmp_path / "sdk.db", prefix="old/", owner="alice")

    assert (count, sorted(transfers)) == (3, ["old/a", "old/b", "old/c"])
    assert texts(await Session("old/b", db).get_items()) == ["b"]
    assert (await db.thread("old/b").head()).owner == "alice"


async def test_a_row_that_cannot_be_read_is_named_and_hides_no_other(
    db: clew.Database, tmp_path: Path
) -> None:
    theirs = SQLiteSession("a", tmp_path / "sdk.db")
    await theirs.add_items([user("one"), user("two"), user("three")])
    theirs.close()
    with sqlite3.connect(tmp_path / "sdk.db") as file:
        file.execute("UPDATE agent_messages SET message_data = '{\"role\"' WHERE id = 2")
    file.close()
    transfers = await transfer(db, tmp_path / "sdk.db")

    assert texts(await Session("a", db).get_items()) == ["one", "three"]
    assert [part.partition(":")[0] for part in transfers["a"].left_out] == ["row 2 of agent_messages"]


async def test_items_are_stored_as_given_whatever_they_are(db: clew.Database, tmp_path: Path) -> None:
    odd = [
        item(type="reasoning", id="rs_1", summary=[], encrypted_content="…"),
        item(type="mcp_approval_response", approval_request_id="m1", approve=True, note=None),
        item(type="something_new", value=[1, 1.5, {"deep": True}]),
        item(type="function_call_output", call_id="orphan", output="naïve \u2028 \U0001f600"),
    ]
    theirs = SQLiteSession("a", tmp_path / "sdk.db")
    await theirs.add_items(odd)
    theirs.close()
    await transfer(db, tmp_path / "sdk.db")

    assert await Session("a", db).get_items() == odd


async def test_an_encrypted_session_is_read_with_its_key(db: clew.Database, tmp_path: Path) -> None:
    file = SQLiteSession("a", tmp_path / "sdk.db")
    await EncryptedSession("a", file, encryption_key="k" * 32).add_items([user("secret")])
    file.close()
    await transfer(db, tmp_path / "sdk.db")
    session = Session("a", db)
    with_key = EncryptedSession("a", cast(SessionABC, session), encryption_key="k" * 32)

    assert texts(await with_key.get_items()) == ["secret"]
    assert "secret" not in str(await session.get_items())


async def test_the_main_branch_of_an_advanced_session_is_taken_in_and_the_others_are_named(
    db: clew.Database, tmp_path: Path
) -> None:
    theirs = AdvancedSQLiteSession(session_id="a", db_path=tmp_path / "sdk.db", create_tables=True)
    await theirs.add_items([user("one"), user("two")])
    await theirs.create_branch_from_turn(2, "detour")
    await theirs.add_items([user("elsewhere")])
    theirs.close()
    transfers = await transfer(db, tmp_path / "sdk.db")

    assert texts(await Session("a", db).get_items()) == ["one", "two"]
    assert transfers["a"].left_out == ("branch 'detour'",)


async def test_sessions_on_postgresql_are_taken_in(
    db: clew.Database, postgres_database: PostgresDatabase
) -> None:
    url = postgres_database.url.replace("postgresql://", "postgresql+asyncpg://")
    theirs = SQLAlchemySession.from_url("a", url=url, create_tables=True)
    items = await ask_twice(theirs)
    await theirs.engine.dispose()
    first = await transfer(db, url)
    second = await transfer(db, postgres_database.url)

    assert (first["a"].outcome, second["a"].outcome) == ("imported", "present")
    assert await Session("a", db).get_items() == items
