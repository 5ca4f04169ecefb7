"""What a memory service of ADK's must do: ADK ships no tests, so this is what its interface says, tested.

A service that is known to be wrong somewhere says so in ``wrong``; the test must then fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import ClassVar

import pytest
from google.adk.events import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

OpenService = Callable[[], AbstractAsyncContextManager[BaseMemoryService]]
"""Opens a service on the storage of the test; a second call opens another one on the same."""

APP, ALICE, BOB = "weather", "alice", "bob"
NOON = 1_750_000_000.0


def text_event(text: str, id: str, author: str = "user") -> Event:
    """An event with some text."""
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(id=id, author=author, invocation_id="turn-1", content=content, timestamp=NOON)


def session(*events: Event, id: str = "s1", user: str = ALICE, app: str = APP) -> Session:
    """A session with these events."""
    return Session(id=id, app_name=app, user_id=user, events=list(events))


SEA, OFFER, BEACH = (
    "The sea at Lisbon was cold in May",
    "Shall I look for a warmer beach?",
    "Yes, a warm beach near Lisbon",
)
TALK = session(text_event(SEA, "e1"), text_event(OFFER, "e2", "agent"), text_event(BEACH, "e3"))


def texts(memories: Sequence[MemoryEntry]) -> list[str]:
    """What memories say."""
    return ["".join(part.text or "" for part in memory.content.parts or ()) for memory in memories]


async def search_texts(
    service: BaseMemoryService, query: str, user: str = ALICE, app: str = APP
) -> list[str]:
    """What the memories say that a query finds."""
    response = await service.search_memory(app_name=app, user_id=user, query=query)
    return texts(response.memories)


class MemoryServiceContract:
    """Subclass it and give it a fixture ``open_service``."""

    wrong: ClassVar[dict[str, str]] = {}

    @pytest.fixture(autouse=True)
    def _known_to_be_wrong(self, request: pytest.FixtureRequest) -> None:
        name = request.function.__name__
        if name in self.wrong:
            request.applymarker(pytest.mark.xfail(reason=self.wrong[name], strict=True))

    async def test_a_memory_is_found_by_any_of_its_words(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            response = await service.search_memory(app_name=APP, user_id=ALICE, query="Was the SEA rough?")

        assert texts(response.memories)[0] == SEA
        assert response.memories[0].author == "user"

    async def test_it_comes_with_its_id_and_the_moment_it_was_said(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            (memory,) = (await service.search_memory(app_name=APP, user_id=ALICE, query="cold")).memories

        assert memory.id == "e1"
        assert datetime.fromisoformat(memory.timestamp or "").timestamp() == NOON

    async def test_what_shares_more_words_comes_first(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            memories = await search_texts(service, "warm beach Lisbon")

        assert memories[0] == BEACH
        assert set(memories) == {SEA, OFFER, BEACH}

    async def test_nothing_is_found_by_words_that_were_not_said(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)

            assert await search_texts(service, "mountains") == []

    @pytest.mark.parametrize("query", ["", "   ", "?!"])
    async def test_nothing_is_found_by_nothing(self, open_service: OpenService, query: str) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)

            assert await search_texts(service, query) == []

    async def test_where_nothing_was_added_nothing_is_found(self, open_service: OpenService) -> None:
        async with open_service() as service:
            assert await search_texts(service, "Lisbon") == []

    @pytest.mark.parametrize(("user", "app"), [(BOB, APP), (ALICE, "travel")])
    async def test_another_user_and_another_app_find_nothing(
        self, open_service: OpenService, user: str, app: str
    ) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)

            assert await search_texts(service, "Lisbon", user, app) == []

    async def test_a_session_added_again_is_there_once_with_what_is_new(
        self, open_service: OpenService
    ) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            await service.add_session_to_memory(
                session(*TALK.events, text_event("Lisbon in June then", "e4"))
            )

            assert sorted(await search_texts(service, "Lisbon")) == sorted(
                [SEA, BEACH, "Lisbon in June then"]
            )

    async def test_all_sessions_of_a_user_are_searched(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            await service.add_session_to_memory(session(text_event("Lisbon again", "e9"), id="s2"))

            assert sorted(await search_texts(service, "Lisbon")) == sorted([SEA, BEACH, "Lisbon again"])

    async def test_single_events_are_added_to_what_is_known(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            late = [text_event("Lisbon by train", "e5"), TALK.events[0]]
            await service.add_events_to_memory(app_name=APP, user_id=ALICE, events=late, session_id="s1")

            assert sorted(await search_texts(service, "Lisbon")) == sorted([SEA, BEACH, "Lisbon by train"])

    async def test_events_without_words_are_left_out(self, open_service: OpenService) -> None:
        call = types.Part(function_call=types.FunctionCall(name="Lisbon", args={}))
        silent = Event(id="e6", author="agent", content=types.Content(role="model", parts=[call]))
        async with open_service() as service:
            await service.add_session_to_memory(session(silent, Event(id="e7", author="agent")))

            assert await search_texts(service, "Lisbon") == []

    async def test_at_most_so_many_are_found(self, open_service: OpenService) -> None:
        many = [text_event(f"Lisbon, day {number}", f"d{number}") for number in range(30)]
        async with open_service() as service:
            await service.add_session_to_memory(session(*many))

            assert len(await search_texts(service, "Lisbon")) == 10

    async def test_a_latin_word_is_found_inside_another_script(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(session(text_event("私はPythonを使う", "e8")))

            assert await search_texts(service, "python") == ["私はPythonを使う"]
            assert await search_texts(service, "thon") == []

    async def test_what_is_deleted_is_not_found_and_does_not_come_back(
        self, open_service: OpenService
    ) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            await service.delete_memory(app_name=APP, user_id=ALICE, memory_id="e1")
            await service.add_session_to_memory(TALK)

            assert await search_texts(service, "Lisbon") == [BEACH]

    async def test_nobody_deletes_what_is_another_users(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            await service.delete_memory(app_name=APP, user_id=BOB, memory_id="e1")
            await service.delete_memory(app_name=APP, user_id=ALICE, memory_id="unknown")
            await service.delete_memory(app_name=APP, user_id=ALICE, memory_id=None)

            assert sorted(await search_texts(service, "Lisbon")) == sorted([SEA, BEACH])

    async def test_what_was_found_can_be_changed_without_changing_what_is_kept(
        self, open_service: OpenService
    ) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
            (memory,) = (await service.search_memory(app_name=APP, user_id=ALICE, query="cold")).memories
            memory.content.parts = []

            assert await search_texts(service, "cold") == [SEA]

    async def test_another_service_on_the_same_storage_finds_it(self, open_service: OpenService) -> None:
        async with open_service() as service:
            await service.add_session_to_memory(TALK)
        async with open_service() as service:
            assert sorted(await search_texts(service, "Lisbon")) == sorted([SEA, BEACH])

    async def test_sessions_added_at_once_are_all_kept(self, open_service: OpenService) -> None:
        sessions = [session(text_event("Lisbon", f"x{number}"), id=f"s{number}") for number in range(6)]
        async with open_service() as service:
            await asyncio.gather(*(service.add_session_to_memory(each) for each in sessions))

            assert len(await search_texts(service, "Lisbon")) == 6
