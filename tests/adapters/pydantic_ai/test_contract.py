"""Pydantic AI's own store keeps the contract; so does ours, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic_ai.conversation_store import ConversationStore, InMemoryConversationStore

import clew
from clew.adapters.pydantic_ai import Conversations
from tests.adapters.pydantic_ai.contract import ConversationStoreContract, Opened


def opening(url: str, tenant: str = "default") -> Opened:
    """Each store with a database of its own, as two processes would have."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[ConversationStore]:
        async with clew.open(url) as db:
            yield Conversations(db.scope(tenant=tenant))

    return opened


@pytest.mark.promise("B-10")
class TestTheirsInMemory(ConversationStoreContract):
    @pytest.fixture
    def opened(self) -> Opened:
        store = InMemoryConversationStore()

        @asynccontextmanager
        async def opened() -> AsyncIterator[ConversationStore]:
            yield store

        return opened


@pytest.mark.promise("B-10")
class TestOnMemory(ConversationStoreContract):
    store_name = "memory"

    @pytest.fixture
    async def opened(self) -> AsyncIterator[Opened]:
        async with clew.open("memory://") as db:

            @asynccontextmanager
            async def opened() -> AsyncIterator[ConversationStore]:
                yield Conversations(db)

            yield opened


@pytest.mark.promise("B-10")
class TestOnSqlite(ConversationStoreContract):
    store_name = "sqlite"

    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opened:
        return opening(f"sqlite:///{tmp_path}/agent.db")


@pytest.mark.postgres
@pytest.mark.promise("B-10")
class TestOnPostgres(ConversationStoreContract):
    store_name = "postgres"

    @pytest.fixture
    def opened(self, postgres_url: str, tenant: str) -> Opened:
        return opening(postgres_url, tenant)
