"""PostgreSQL killed under load and started again: the same client goes on, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pytest

import clew
from clew.core.errors import OutcomeUnknown, StoreFailed, StoreUnavailable
from clew.stores.postgres.errors import ConnectionLost
from clew.stores.postgres.store import PostgresStore
from tests.stores.killed_writer import Answer, read_answers
from tests.stores.workload import make_changeset

if TYPE_CHECKING:
    from clew.stores.postgres.answers import Row, Values
    from tests.support.postgres import PostgresServer
    from tests.support.shared_postgres import PostgresDatabase

pytestmark = [pytest.mark.crash, pytest.mark.postgres, pytest.mark.slow]

TASKS = 12
ROUNDS = 4
THREADS = ("a", "b", "c", "d", "e")
PATIENCE = 60.0


class Client:
    """Tasks that append without end; with keys, each repeats what was not answered."""

    def __init__(self, db: clew.Database, *, keys: bool) -> None:
        self.keys = keys
        self.answers: dict[int, Answer] = {}
        self.failures: list[StoreFailed] = []
        self._db = db
        self._numbers: Iterator[int] = itertools.count(1)
        self._stop = False

    async def work(self) -> None:
        """Append until told to stop; what was begun is brought to its end."""
        while not self._stop:
            await self._append(next(self._numbers))

    def stop(self) -> None:
        """Begin nothing more."""
        self._stop = True

    async def progress(self) -> None:
        """Return when a good many more were answered."""
        goal = len(self.answers) + 5 * TASKS
        while len(self.answers) < goal:  # noqa: ASYNC110 - simpler than an event that every task sets
            await asyncio.sleep(0.01)

    async def _append(self, number: int) -> None:
        change = make_changeset(number, items=1 + number % 3)
        if self.keys:
            change = msgspec.structs.replace(change, key=f"number {number}")
        thread = self._db.thread(THREADS[number % len(THREADS)])
        while number not in self.answers:
            try:
                commit = await thread.append(change)
                self.answers[number] = (number, commit.thread, commit.version, commit.hash.hex())
            except (StoreUnavailable, OutcomeUnknown) as failure:
                self.failures.append(failure)
                await asyncio.sleep(0.02)
                if not self.keys:
                    return


class TestPostgresKilled:
    store_name = "postgres"

    @pytest.mark.promise("T-02", "S-02", "S-04", "B-02")
    @pytest.mark.parametrize("how", ["immediate", "killed"])
    async def test_a_client_that_repeats_under_its_keys_loses_and_doubles_nothing(
        self, private_postgres: PostgresServer, how: str
    ) -> None:
        client, answers = await _survive(private_postgres, how, keys=True)

        assert client.failures, "nobody noticed that the server had died"
        assert sorted(answers) == sorted(client.answers.values())

    @pytest.mark.promise("T-02", "S-02")
    async def test_without_keys_what_was_answered_is_there_once_and_the_rest_at_most_once(
        self, private_postgres: PostgresServer
    ) -> None:
        client, answers = await _survive(private_postgres, "killed", keys=False)
        numbers = [number for number, *_ in answers]

        assert set(client.answers.values()) <= set(answers)
        assert len(numbers) == len(set(numbers))

    @pytest.mark.promise("T-02", "S-02")
    async def test_an_answer_lost_for_several_appends_doubles_none(
        self, postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await PostgresStore.open(postgres_database.url)
        db = clew.Database(store)
        names = [f"thread-{n}" for n in range(12)]
        for name in names:
            await db.create(name)
        fetch, losses = store._connections.fetch, list[str]()

        async def forgetful(name: str, values: Values = ()) -> list[Row]:
            rows = await fetch(name, values)
            if name == "advance_many" and not losses:
                losses.append(name)
                raise ConnectionLost("the answer is lost")
            return rows

        monkeypatch.setattr(store._connections, "fetch", forgetful)
        appends = (db.thread(name).append(items=[clew.user("once")]) for name in names)
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        lengths = [len(await db.thread(name).items()) for name in names]
        await store.close()

        assert any(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
        assert lengths == [1] * len(names)


async def _survive(server: PostgresServer, how: str, *, keys: bool) -> tuple[Client, list[Answer]]:
    """A client after the server has died under it a few times, and what is stored then."""
    await asyncio.to_thread(server.start)
    await asyncio.to_thread(server.create_database, "mine")
    store = await PostgresStore.open(server.url("mine"))
    db = clew.Database(store)
    for name in THREADS:
        await db.create(name)
    client = Client(db, keys=keys)
    tasks = [asyncio.create_task(client.work()) for _ in range(TASKS)]
    async with asyncio.timeout(PATIENCE):
        for _ in range(ROUNDS):
            await client.progress()
            await asyncio.to_thread(server.kill if how == "killed" else lambda: server.stop("immediate"))
            await asyncio.sleep(0.1)
            await asyncio.to_thread(server.start)
        await client.progress()
        client.stop()
        await asyncio.gather(*tasks)
    await store.close()
    by_thread = await read_answers(server.url("mine"), THREADS)
    return client, list(itertools.chain(*by_thread.values()))
