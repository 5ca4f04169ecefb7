"""Sessions of ADK's own databases become threads, and go on as such."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import clew
from clew.adapters.adk import SessionService, thread_id_of
from clew.adapters.adk.transfer import count_threads, transfer_threads
from clew.adapters.source import open_source
from clew.core.errors import Forbidden, InvalidArgument, SourceUnreadable
from clew.database.transfer import ThreadTransfer, TransferOptions
from tests.adapters.adk.agents import ScriptedLlm, call, text, weather_agent
from tests.adapters.adk.contract import ALICE, APP, BOB, NOON, begin_session, load_session, text_event, texts
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.promise("B-10")

OLD_EVENTS = """
CREATE TABLE sessions (app_name, user_id, id, state, create_time, update_time);
CREATE TABLE app_states (app_name, state, update_time);
CREATE TABLE user_states (app_name, user_id, state, update_time);
CREATE TABLE events (id, app_name, user_id, session_id, invocation_id, author, timestamp, actions, content);
"""


class Source:
    """A database of ADK's own, and where it is."""

    def __init__(self, kind: str, location: str) -> None:
        self.kind = kind
        self.location = location

    @asynccontextmanager
    async def service(self) -> AsyncIterator[BaseSessionService]:
        """ADK's own service on it."""
        if self.kind == "SqliteSessionService":
            yield SqliteSessionService(self.location)
            return
        scheme = "postgresql+asyncpg" if "postgres" in self.location else "sqlite+aiosqlite"
        url = self.location.replace("postgresql", scheme)
        async with DatabaseSessionService(url if "://" in url else f"{scheme}:///{url}") as service:
            yield service


@pytest.fixture(params=["SqliteSessionService", "DatabaseSessionService", "on PostgreSQL"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    """An empty database for each of ADK's services that keep one."""
    if request.param == "on PostgreSQL":
        database: PostgresDatabase = request.getfixturevalue("postgres_database")
        return Source(request.param, database.url)
    return Source(request.param, f"{tmp_path}/adk.db")


async def transfer(db: clew.Database, location: str, **options: Any) -> dict[str, ThreadTransfer]:
    """What came of each thread of a database."""
    async with open_source(location) as database:
        transfers = transfer_threads(database, db, TransferOptions(**options))
        return {each.thread: each async for each in transfers}


async def say(service: BaseSessionService, agent: Any, words: str) -> None:
    runner = Runner(app_name=APP, agent=agent, session_service=service, auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text=words)])
    async for _ in runner.run_async(user_id=ALICE, session_id="s1", new_message=message):
        pass


async def test_a_session_of_adk_goes_on_as_a_thread(
    db: clew.Database, service: SessionService, source: Source
) -> None:
    async with source.service() as theirs:
        await say(
            theirs, weather_agent(call("weather", city="Lisbon"), text("It is blue.")), "How is Lisbon?"
        )
        before = await load_session(theirs)
    await transfer(db, source.location)
    moved = await load_session(service)
    agent = weather_agent(text("You asked for Lisbon."))
    await say(service, agent, "What did I ask?")
    assert isinstance(agent.model, ScriptedLlm)

    assert moved.events == before.events
    assert moved.state == before.state
    assert moved.state == {"last_city": "Lisbon", "user:asked": 1, "app:cities": ["Lisbon"]}
    assert agent.model.prompts[0] == ["How is Lisbon?", "It is blue.", "What did I ask?"]


async def test_state_is_that_of_the_session_the_user_and_the_app(
    db: clew.Database, service: SessionService, source: Source
) -> None:
    async with source.service() as theirs:
        session = await begin_session(theirs, mood="calm", app__unit="C", user__name="Alice")
        await theirs.append_event(session, text_event("Hi", mood="wild", temp__key="x", user__seen=[1, None]))
        await begin_session(theirs, "s2", user=BOB, user__name="Bob")
    transfers = await transfer(db, source.location)
    expected = {"app:unit": "C", "user:name": "Alice", "user:seen": [1, None], "mood": "wild"}

    assert {each.outcome for each in transfers.values()} == {"imported"}
    assert len(transfers) == 5
    assert (await load_session(service)).state == expected
    assert (await load_session(service, "s2", user=BOB)).state == {"app:unit": "C", "user:name": "Bob"}
    assert (await db.thread(thread_id_of(APP, ALICE)).head()).owner == ALICE


async def test_a_second_import_adds_nothing_even_if_a_session_went_on(
    db: clew.Database, service: SessionService, source: Source
) -> None:
    async with source.service() as theirs:
        await theirs.append_event(await begin_session(theirs, app__unit="C"), text_event("one"))
    await transfer(db, source.location)
    await service.append_event(await load_session(service), text_event("two", app__unit="F"))
    again = await transfer(db, source.location)
    session = await load_session(service)

    assert {each.outcome for each in again.values()} == {"present"}
    assert (texts(session), session.state) == (["one", "two"], {"app:unit": "F"})


async def test_threads_are_counted_before_they_are_read(source: Source) -> None:
    async with source.service() as theirs:
        await begin_session(theirs, user__name="Alice")
        await begin_session(theirs, "s2", user=BOB)
    async with open_source(source.location) as database:
        count = await count_threads(database)

    assert count == 3


async def test_a_state_that_its_events_do_not_lead_to_is_kept(
    db: clew.Database, service: SessionService, tmp_path: Path
) -> None:
    async with Source("SqliteSessionService", f"{tmp_path}/adk.db").service() as theirs:
        await theirs.append_event(await begin_session(theirs), text_event("Hi", mood="calm", city="Lisbon"))
    with sqlite3.connect(tmp_path / "adk.db") as file:
        file.execute("""UPDATE sessions SET state = '{"mood": "wild"}'""")
    file.close()
    await transfer(db, f"{tmp_path}/adk.db")

    assert (await load_session(service)).state == {"mood": "wild"}
    assert await db.thread(thread_id_of(APP, ALICE, "s1")).state(at=2) == {
        "adk": {"mood": "calm", "city": "Lisbon"}
    }


async def test_an_event_that_cannot_be_read_is_named_and_hides_no_other(
    db: clew.Database, service: SessionService, tmp_path: Path
) -> None:
    async with Source("SqliteSessionService", f"{tmp_path}/adk.db").service() as theirs:
        session = await begin_session(theirs)
        for number in range(3):
            await theirs.append_event(session, text_event(str(number), id=f"e{number}", at=NOON + number))
    with sqlite3.connect(tmp_path / "adk.db") as file:
        file.execute("UPDATE events SET event_data = '{\"author\": ' WHERE id = 'e1'")
    file.close()
    transfers = await transfer(db, f"{tmp_path}/adk.db")

    assert texts(await load_session(service)) == ["0", "2"]
    assert transfers[thread_id_of(APP, ALICE, "s1")].left_out == ("event 'e1': it is not JSON",)


async def test_space_around_the_ids_of_sessions_goes_and_a_blank_one_is_named(
    db: clew.Database, service: SessionService, tmp_path: Path
) -> None:
    async with Source("DatabaseSessionService", f"{tmp_path}/adk.db").service() as theirs:
        await begin_session(theirs, "s1\n", mood="calm")
        await begin_session(theirs, " ")
    transfers = await transfer(db, f"{tmp_path}/adk.db")

    assert (await load_session(service, "s1")).state == {"mood": "calm"}
    assert [each.left_out for each in transfers.values() if each.outcome == "refused"] == [
        ("a session with a blank id",)
    ]


async def test_a_database_with_pickled_objects_is_refused(db: clew.Database, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "adk.db") as file:
        file.executescript(OLD_EVENTS)
    file.close()

    with pytest.raises(SourceUnreadable, match="adk migrate session"):
        await transfer(db, f"{tmp_path}/adk.db")


@pytest.mark.parametrize("options", [{"prefix": "old/"}, {"owner": "carol"}], ids=str)
async def test_names_of_adk_cannot_be_changed(
    db: clew.Database, tmp_path: Path, options: dict[str, str]
) -> None:
    async with Source("SqliteSessionService", f"{tmp_path}/adk.db").service() as theirs:
        await begin_session(theirs)

    with pytest.raises(InvalidArgument, match="names its app and its user"):
        await transfer(db, f"{tmp_path}/adk.db", **options)


async def test_a_user_cannot_take_in_what_all_users_share(db: clew.Database, tmp_path: Path) -> None:
    async with Source("SqliteSessionService", f"{tmp_path}/adk.db").service() as theirs:
        await begin_session(theirs, app__unit="C")

    with pytest.raises(Forbidden):
        await transfer(db.scope(tenant=db.tenant, user=ALICE), f"{tmp_path}/adk.db")
