"""Whatever tries again or waits gives up in the end, with the error that kept it from going on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import pytest

import clew
from clew.core.errors import RevisionConflict, TurnBusy
from clew.core.values import Drop, Record, Write, WriteResult
from clew.database.database import Database
from clew.database.records import Records
from clew.runtime.attempts import ATTEMPTS, cancel_tasks
from clew.runtime.execution import queue
from clew.runtime.execution.resume import resume_run
from clew.runtime.execution.start import TurnRequest, turn_request
from clew.runtime.maintenance.cancel import cancel_elsewhere
from clew.runtime.model.call import Deadlines
from clew.runtime.records.episodes import ACTIVE_EPISODE, request_end
from clew.runtime.records.runs import KIND, RUNNING
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.voice import keep_call_alive
from clew.runtime.settings import RuntimeConfig
from clew.testing.scripted_model import ScriptedModel

pytestmark = pytest.mark.promise("F-10")
LONG = 1 << 60


class ContestedDatabase(Database):
    """A database in which somebody else is always quicker with the records of one kind."""

    kind = ACTIVE_EPISODE
    commits = 0

    async def commit(self, writes: Sequence[Write]) -> list[WriteResult]:
        """Refuse it."""
        self.commits += 1
        raise RevisionConflict(kind=self.kind, id="t", expected=1, actual=2)


class ContestedRecords(Records):
    """Records that somebody else has always just changed."""

    async def put(self, record: Record, *, expect: int | None = None) -> Record:
        """Refuse it."""
        raise RevisionConflict(kind=record.kind, id=record.id, expected=1, actual=2)


@pytest.fixture
async def db() -> Database:
    """A database in which a thread is in an episode, and its run waits to be taken up."""
    database = await clew.open("memory://")
    runtime = runtime_of(database)
    await runtime.run_turn("t", "Hello")
    run = (await database.thread("t").head()).state["$run"]["id"]
    await database.thread("t").append(patches=[clew.merge(["$run"], {"status": "interrupted"})])
    record = await database.records.get(KIND, run)
    await database.records.put(Record(kind=KIND, id=run, body=record.body, tags=record.tags))
    return database


def runtime_of(db: Database, **options: Any) -> Runtime[clew.State, object]:
    return Runtime(db, model=ScriptedModel(*["Hello"] * 9), **options)


async def end(db: Database) -> object:
    return await request_end(db, "t", by="api", now=1)


async def live(db: Database) -> object:
    return await keep_call_alive(db, "t", now=1, seconds=1)


async def take_up(db: Database) -> object:
    return await resume_run(db, "t", {}, runtime_of(db)._settings)


async def cancel(db: Database) -> object:
    return await cancel_elsewhere(db, "t", runtime_of(db)._settings)


async def turn(db: Database) -> object:
    return await runtime_of(db).run_turn("t", "Again")


Loop: TypeAlias = Callable[[Database], Awaitable[object]]
LOOPS: dict[str, Loop] = {"end": end, "keep alive": live, "resume": take_up, "cancel": cancel, "turn": turn}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
async def test_what_never_fits_is_given_up(db: Database, loop: Loop) -> None:
    database = ContestedDatabase(db.store)
    with pytest.raises(RevisionConflict):
        await loop(database)

    assert database.commits == ATTEMPTS


async def test_a_turn_waits_for_another_only_so_long(db: Database) -> None:
    run = (await db.thread("t").head()).state["$run"]["id"]
    record = await db.records.get(KIND, run)
    body = {**record.body, "status": RUNNING, "until": LONG}
    await db.records.put(Record(kind=KIND, id=run, body=body))
    await db.thread("t").append(patches=[clew.merge(["$run"], {"status": RUNNING})])
    runtime = runtime_of(db, config=RuntimeConfig(deadlines=Deadlines(turn_seconds=0.01)))

    with pytest.raises(TurnBusy) as error:
        await runtime.run_turn("t", "Again")
    assert error.value.run == run


async def test_a_repeated_request_waits_for_its_queued_turn_only_so_long(db: Database) -> None:
    request = turn_request(runtime_of(db).schema, "t", "Again", key="k")
    await queue.enqueue_turn(db, "q", request, 1)

    with pytest.raises(TurnBusy):
        await queue.wait_until_dequeued(db, "t", "q", seconds=0)


CONFLICT = RevisionConflict(kind=KIND, id="r", expected=1, actual=2)


@pytest.mark.parametrize("error", [ValueError("a bug"), CONFLICT], ids=["a bug", "a conflict"])
async def test_a_queued_turn_that_cannot_begin_is_tried_once(db: Database, error: Exception) -> None:
    tries: list[TurnRequest] = []

    async def begin(request: TurnRequest, leave: Drop) -> None:
        tries.append(request)
        raise error

    request = turn_request(runtime_of(db).schema, "t", "Again", key="k")
    await queue.enqueue_turn(db, "q", request, 1)
    await queue.run_queued_turns(db, "t", begin)

    assert len(tries) == 1
    assert await queue.is_queued(db, "q")


async def test_a_task_that_loses_a_cancel_is_cancelled_again() -> None:
    cancels: list[int] = []

    async def lose_first_cancel() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancels.append(1)
        await asyncio.Event().wait()

    task = asyncio.ensure_future(lose_first_cancel())
    await asyncio.sleep(0)
    await cancel_tasks([task])

    assert (len(cancels), task.cancelled()) == (1, True)
