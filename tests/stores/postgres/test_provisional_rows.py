"""Texts of running answers on PostgreSQL: no write waits for a disk, and a crash of the server drops all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

import clew
from clew.core.errors import StoreFailed
from clew.core.values import Scope
from clew.database.provisional import provisional_texts
from clew.runtime.records.events import MessageAdded, RunFinished, TextDelta
from clew.runtime.runtime import Runtime
from clew.stores.postgres.errors import ConnectionLost
from clew.stores.postgres.store import PostgresStore
from clew.testing.contracts.provisional import provisional_text
from clew.testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from clew.stores.postgres.answers import Row, Values
    from tests.support.postgres import PostgresServer
    from tests.support.shared_postgres import PostgresDatabase

pytestmark = [pytest.mark.postgres]
SCOPE = Scope()
MANY = 100
FLUSHED = "SELECT pg_current_wal_flush_lsn()::text"
"""The place up to which the server has synced its log."""


class TestProvisionalRows:
    store_name = "postgres"

    @pytest.mark.promise("B-17")
    async def test_a_write_flushes_no_log(self, private_postgres: PostgresServer) -> None:
        await asyncio.to_thread(private_postgres.start)
        await asyncio.to_thread(private_postgres.create_database, "mine")
        store = await PostgresStore.open(private_postgres.url("mine"))
        with psycopg.connect(private_postgres.url("mine"), autocommit=True) as admin:
            # The server's own writer flushes now and then what others left, so it is told not to.
            admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("CHECKPOINT")
            text = provisional_text(b"Hel")
            await store.provisional.begin(SCOPE, text, MANY)
            before = admin.execute(FLUSHED).fetchone()
            for _ in range(20):
                await store.provisional.extend(SCOPE, text, b"lo")
            await store.provisional.drop(SCOPE, "thread")
            after = admin.execute(FLUSHED).fetchone()
        await store.close()

        assert before == after

    @pytest.mark.promise("B-17")
    async def test_a_part_whose_answer_is_lost_is_not_sent_again(
        self, postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await PostgresStore.open(postgres_database.url)
        text = provisional_text(b"Hel")
        await store.provisional.begin(SCOPE, text, MANY)
        fetch = store._connections.fetch

        async def forgetful(name: str, values: Values = ()) -> list[Row]:
            rows = await fetch(name, values)
            if name == "extend_provisional":
                raise ConnectionLost("the answer is lost")
            return rows

        monkeypatch.setattr(store._connections, "fetch", forgetful)
        with pytest.raises(StoreFailed):
            await store.provisional.extend(SCOPE, text, b"lo")
        stored = await store.provisional.read(SCOPE, "thread")
        await store.close()

        assert stored is not None
        assert stored.parts == (b"Hel", b"lo")

    @pytest.mark.crash
    @pytest.mark.slow
    @pytest.mark.promise("B-09", "B-17")
    async def test_after_a_crash_of_the_server_the_message_comes_whole(
        self, private_postgres: PostgresServer
    ) -> None:
        await asyncio.to_thread(private_postgres.start)
        await asyncio.to_thread(private_postgres.create_database, "mine")
        url, go_on = private_postgres.url("mine"), asyncio.Event()
        model = ScriptedModel(["Hel", go_on, "lo."])
        async with clew.open(url) as db, Runtime(db, model=model) as runtime:
            turn = asyncio.create_task(runtime.run_turn("a", "Hi"))
            texts = provisional_texts(db.store)
            assert texts is not None
            async with asyncio.timeout(20):
                while await texts.read(SCOPE, "a") is None:  # noqa: ASYNC110  # another task writes it
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(private_postgres.kill)
            await asyncio.to_thread(private_postgres.start)
            text_after_crash = await _read_again(url)
            await db.thread(
                "a"
            ).head()  # a read gets a new connection, where a commit would have to be repeated
            go_on.set()
            await turn
            async with clew.open(url) as other_db:
                events = []
                async for event in Runtime(other_db).events("a", after=(0, 0), live=True):
                    events.append(event)
                    if isinstance(event, RunFinished):
                        break

        assert text_after_crash is None
        assert not any(isinstance(event, TextDelta) for event in events)
        assert [e.message.text for e in events if isinstance(e, MessageAdded)] == ["Hi", "Hello."]


async def _read_again(url: str) -> object:
    """The text of the thread by a new connection, once the server is up."""
    async with asyncio.timeout(30):
        while True:
            try:
                async with clew.open(url) as db:
                    texts = provisional_texts(db.store)
                    assert texts is not None
                    return await texts.read(SCOPE, "a")
            except StoreFailed:
                await asyncio.sleep(0.1)
