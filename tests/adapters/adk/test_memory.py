"""Our memory service keeps the whole contract on every store; ADK's own keep it, but for what is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from google.adk.agents import LlmAgent
from google.adk.memory import InMemoryMemoryService, SqliteMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.runners import Runner
from google.adk.tools.load_memory_tool import LoadMemoryTool
from google.genai import types

import clew
from clew.adapters.adk import MemoryService, SessionService, memory_thread_id_of
from clew.runtime.person_export import export_person
from tests.adapters.adk.agents import ScriptedLlm, call, text
from tests.adapters.adk.memory_contract import (
    ALICE,
    APP,
    SEA,
    TALK,
    MemoryServiceContract,
    OpenService,
    search_texts,
    session,
    text_event,
)


def opening(url: str, tenant: str = "default") -> OpenService:
    """Each service with a database of its own, as two processes would have."""

    @asynccontextmanager
    async def open_service() -> AsyncIterator[BaseMemoryService]:
        async with clew.open(url) as db:
            yield MemoryService(db.scope(tenant=tenant))

    return open_service


@pytest.mark.promise("B-10")
class TestOnMemory(MemoryServiceContract):
    store_name = "memory"

    @pytest.fixture
    async def open_service(self) -> AsyncIterator[OpenService]:
        async with clew.open("memory://") as db:

            @asynccontextmanager
            async def open_service() -> AsyncIterator[BaseMemoryService]:
                yield MemoryService(db)

            yield open_service


@pytest.mark.promise("B-10")
class TestOnSqlite(MemoryServiceContract):
    store_name = "sqlite"

    @pytest.fixture
    def open_service(self, tmp_path: Path) -> OpenService:
        return opening(f"sqlite:///{tmp_path}/agent.db")


@pytest.mark.postgres
@pytest.mark.promise("B-10")
class TestOnPostgres(MemoryServiceContract):
    store_name = "postgres"

    @pytest.fixture
    def open_service(self, postgres_url: str, tenant: str) -> OpenService:
        return opening(postgres_url, tenant)


class TestInMemoryMemoryService(MemoryServiceContract):
    wrong: ClassVar[dict[str, str]] = {}

    @pytest.fixture
    def open_service(self) -> OpenService:
        service = InMemoryMemoryService()

        @asynccontextmanager
        async def open_service() -> AsyncIterator[BaseMemoryService]:
            yield service

        return open_service


class TestSqliteMemoryService(MemoryServiceContract):
    wrong: ClassVar[dict[str, str]] = {
        "test_it_comes_with_its_id_and_the_moment_it_was_said": "its memories have no id",
        "test_what_is_deleted_is_not_found_and_does_not_come_back": "it cannot delete a memory",
        "test_nobody_deletes_what_is_another_users": "it cannot delete a memory",
    }

    @pytest.fixture
    def open_service(self, tmp_path: Path) -> OpenService:
        @asynccontextmanager
        async def open_service() -> AsyncIterator[BaseMemoryService]:
            yield SqliteMemoryService(tmp_path / "memory.db", max_results=10)

        return open_service


@pytest.fixture
def memory(db: clew.Database) -> MemoryService:
    """A memory service on every store."""
    return MemoryService(db)


@pytest.mark.promise("B-10")
async def test_an_agent_finds_in_a_new_session_what_was_said_in_another(db: clew.Database) -> None:
    memory, sessions = MemoryService(db), SessionService(db)
    await memory.add_session_to_memory(TALK)
    model = ScriptedLlm(answers=[call("load_memory", query="cold sea"), text("It was cold in May.")])
    runner = Runner(
        app_name=APP,
        agent=LlmAgent(name="agent", model=model, tools=[LoadMemoryTool()]),
        session_service=sessions,
        memory_service=memory,
        auto_create_session=True,
    )
    message = types.Content(role="user", parts=[types.Part(text="How was the sea?")])
    events = [event async for event in runner.run_async(user_id=ALICE, session_id="s2", new_message=message)]
    answers = [answer.response for event in events for answer in event.get_function_responses()]

    assert SEA in str(answers)


@pytest.mark.promise("B-10")
async def test_a_memory_says_which_session_it_comes_from(memory: MemoryService) -> None:
    await memory.add_session_to_memory(TALK)
    (entry,) = (await memory.search_memory(app_name=APP, user_id=ALICE, query="cold")).memories

    assert entry.custom_metadata == {"session_id": "s1"}


async def test_an_event_that_changed_is_renewed_and_one_that_did_not_costs_nothing(
    memory: MemoryService, db: clew.Database
) -> None:
    await memory.add_session_to_memory(TALK)
    await memory.add_session_to_memory(TALK)
    await memory.add_session_to_memory(session(text_event("The sea at Lisbon was warm", "e1")))

    assert (await db.thread(memory_thread_id_of(APP, ALICE)).head()).version == 2
    assert await search_texts(memory, "sea") == ["The sea at Lisbon was warm"]


async def test_it_is_out_of_the_way_and_goes_with_its_owner(memory: MemoryService, db: clew.Database) -> None:
    await memory.add_session_to_memory(TALK)
    lines = b"".join([line async for line in export_person(db, ALICE)])

    assert (await db.threads()).threads == ()
    assert SEA.encode() in lines
    assert await search_texts(MemoryService(db.scope(tenant=db.tenant, user=ALICE)), "sea") == [SEA]


@pytest.mark.parametrize("name", ["a/b", "%2F", "ü ~@", "memory"])
async def test_any_name_has_a_memory_of_its_own(memory: MemoryService, name: str) -> None:
    await memory.add_session_to_memory(session(text_event("Lisbon", "e1"), user=name, app=name))

    assert await search_texts(memory, "Lisbon", name, name) == ["Lisbon"]
    assert await search_texts(memory, "Lisbon", ALICE, name) == []
