"""ADK's own session services keep the contract, but for what is named here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService

from tests.adapters.adk.contract import OpenService, SessionServiceContract


@pytest.mark.promise("B-10")
class TestInMemorySessionService(SessionServiceContract):
    wrong: ClassVar[dict[str, str]] = dict.fromkeys(
        (
            "test_a_stale_session_is_refused",
            "test_a_stale_session_is_refused_whatever_the_clock_says",
            "test_a_session_that_was_deleted_and_made_anew_is_another",
            "test_a_refused_event_leaves_the_session_as_it_was",
            "test_a_refused_writer_reads_again_and_goes_on",
            "test_a_session_made_elsewhere_must_know_the_newest_event",
        ),
        "it takes whatever comes and never refuses a stale session",
    )

    @pytest.fixture
    def open_service(self) -> OpenService:
        service = InMemorySessionService()

        @asynccontextmanager
        async def open_service() -> AsyncIterator[BaseSessionService]:
            yield service

        return open_service


@pytest.mark.promise("B-10")
class TestDatabaseSessionService(SessionServiceContract):
    wrong: ClassVar[dict[str, str]] = {
        "test_events_keep_the_order_in_which_they_were_appended": (
            "it orders events by the time they carry, and those of one time by their ids"
        ),
        "test_space_around_an_id_does_not_count": "it takes ids as they are",
        "test_a_session_made_with_space_around_its_id_is_found_without": "it takes ids as they are",
        "test_a_blank_id_is_none": "it takes ids as they are, blank ones too",
        "test_an_event_that_comes_twice_is_there_once": "it fails with the database's own error",
        "test_a_stale_session_is_refused_whatever_the_clock_says": (
            "it tells versions apart by the time of the last event, which need not differ"
        ),
        "test_a_refused_event_leaves_the_session_as_it_was": (
            "it puts temporary state into the session before it knows whether the event is taken"
        ),
    }

    @pytest.fixture
    def open_service(self, tmp_path: Path) -> OpenService:
        @asynccontextmanager
        async def open_service() -> AsyncIterator[BaseSessionService]:
            async with DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path}/adk.db") as service:
                yield service

        return open_service
