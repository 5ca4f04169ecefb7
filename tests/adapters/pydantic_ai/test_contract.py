"""Pydantic AI's own store keeps the contract; so does ours, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic_ai.conversation_store import ConversationStore, InMemoryConversationStore

import clew
from clew.adapters.pydantic_ai import Conversations
from tests.adapters.pydantic_ai.contract import ConversationStoreContract, OpenStore


def opening(url: str, tenant: str = "default") -> OpenStore:
    """Each store with a database of its own, as two processes would have."""

    @asynccontextmanager
    async def open_store() -> AsyncIterator[ConversationStore]:
        async with clew.open(url) as db:
            yield Conversations(db.scope(tenant=tenant))

    return open_store


@pytest.mark.promise("B-10")
class TestTheirsInMemory(ConversationStoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        store = InMemoryConversationStore()

        @asynccontextmanager
        async def open_store() -> AsyncIterator[ConversationStore]:
            yield store

        return open_store


@pytest.mark.promise("B-10")
class TestOnMemory(ConversationStoreContract):
    store_name = "memory"

    @pytest.fixture
    async def open_store(self) -> AsyncIterator[OpenStore]:
        async with clew.open("memory://") as db:

            @asynccontextmanager
            async def open_store() -> AsyncIterator[ConversationStore]:
                yield Conversations(db)

            yield open_store


@pytest.mark.promise("B-10")
class TestOnSqlite(ConversationStoreContract):
    store_name = "sqlite"

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return opening(f"sqlite:///{tmp_path}/agent.db")


@pytest.mark.postgres
@pytest.mark.promise("B-10")
class TestOnPostgres(ConversationStoreContract):
    store_name = "postgres"

    @pytest.fixture
    def open_store(self, postgres_url: str, tenant: str) -> OpenStore:
        return opening(postgres_url, tenant)
