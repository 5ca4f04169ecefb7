"""A lease is renewed while its turn lasts: none takes anything back, and one that fails is not the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

import clew
from clew.core.errors import RecordNotFound, RevisionConflict, StoreUnavailable
from clew.core.values import Record
from clew.database.database import Database
from clew.database.records import Records
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import KIND, Run, record_of
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.lease import Lease

BRIEF = 0.03
"""Seconds of a lease in these tests."""
SOON = 10.0


class Journal(ThreadJournal):
    """A journal whose renewals wait until they are let go, and fail as often as they are told."""

    def __init__(self, db: Database, run: Run) -> None:
        super().__init__(db, run, version=0, owner=None, clock=lambda: 0)
        self.starts: asyncio.Queue[None] = asyncio.Queue()
        self.go = asyncio.Event()
        self.go.set()
        self.conflicts = 0
        self.failures: list[Exception] = []
        self.end_count = 0

    async def renew_lease(self, until: int) -> Run:
        self.starts.put_nowait(None)
        await self.go.wait()
        if self.conflicts:
            self.conflicts -= 1
            raise RevisionConflict(kind=KIND, id=self.run.id, expected=1, actual=2)
        self.end_count += 1
        return await super().renew_lease(until)

    async def reload_run(self) -> Run:
        if self.failures:
            raise self.failures.pop()
        return await super().reload_run()


@pytest.fixture
async def journal() -> AsyncIterator[Journal]:
    """The journal of a run that is on record."""
    async with clew.open("memory://") as db:
        run = Run(id="r", thread="a", started=0)
        record = await db.records.put(record_of(run, None))
        yield Journal(db, msgspec.structs.replace(run, revision=record.revision))


def lease_of(journal: Journal, stop: asyncio.Event | None = None) -> Lease:
    return Lease(journal, BRIEF, lambda: 0, (stop or asyncio.Event()).set)


async def renewals(journal: Journal, count: int) -> None:
    async with asyncio.timeout(SOON):
        for _ in range(count):
            await journal.starts.get()


@pytest.mark.promise("T-17")
async def test_what_a_model_costs_during_a_renewal_is_counted(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go = asyncio.Event(), asyncio.Event()
    put_record = Records.put

    async def slow(self: Records, record: Record, *, expect: int | None = None) -> Record:
        writing.set()
        await go.wait()
        return await put_record(self, record, expect=expect)

    monkeypatch.setattr(Records, "put", slow)
    renewing = asyncio.create_task(journal.renew_lease(1_000))
    await writing.wait()
    journal.run = msgspec.structs.replace(journal.run, usage=Usage(calls=1, input_tokens=7))
    go.set()
    await renewing

    assert (journal.run.usage.input_tokens, journal.run.until) == (7, 1_000)


async def test_a_renewal_under_way_ends_before_the_lease_does(journal: Journal) -> None:
    journal.go.clear()
    lease = lease_of(journal)
    lease.start()
    await renewals(journal, 1)
    ending = asyncio.create_task(lease.end())
    await asyncio.sleep(0)
    journal.go.set()
    await ending

    assert journal.end_count == 1


async def test_a_store_that_fails_for_a_moment_does_not_end_the_renewals(journal: Journal) -> None:
    journal.conflicts = 1
    journal.failures = [StoreUnavailable(problem="it is away")]
    lease = lease_of(journal)
    lease.start()
    await renewals(journal, 3)
    await lease.end()

    assert journal.end_count >= 1


async def test_a_run_whose_record_is_gone_is_stopped(journal: Journal) -> None:
    journal.conflicts = 1
    journal.failures = [RecordNotFound(kind=KIND, id="r")]
    stop = asyncio.Event()
    lease = lease_of(journal, stop)
    lease.start()
    async with asyncio.timeout(SOON):
        await stop.wait()
    await lease.end()

    assert journal.end_count == 0
