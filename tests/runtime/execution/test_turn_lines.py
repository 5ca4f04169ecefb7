"""Waiting costs nothing: turns stand in line in memory, in order, and other processes are let in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest

import clew
from clew.core.errors import StoreUnavailable
from clew.core.log.commit import Plan, Planner
from clew.core.log.rows import StoreRead
from clew.core.values import RecordQuery, Scope
from clew.database.database import Database
from clew.runtime import attempts
from clew.runtime.execution import turn_lines
from clew.runtime.execution.safe_reply import gate
from clew.runtime.records.runs import KIND, run_of
from clew.runtime.runtime import Runtime
from clew.testing.faults import FailingStore
from tests.runtime.execution.busy_turns import Hold, reply, run_until_signal
from tests.support.child_process import ChildProcess, pipe

T = TypeVar("T")
TURNS = 12
COMMITS = 2
"""The commits of a turn whose one stage asks no model: its start and its end."""
SOON = 20.0


class CountedStore(FailingStore):
    """A store that never fails and counts the calls."""

    def __init__(self, db: Database) -> None:
        super().__init__(db.store, fail_at=0)


@pytest.fixture
def counting_db(db: Database) -> Database:
    """The database, with a store that counts the calls."""
    return Database(CountedStore(db))


def calls(db: Database) -> int:
    assert isinstance(db.store, CountedStore)
    return db.store.calls


def runtime_of(db: Database, hold: Hold | None = None) -> Runtime:
    """A runtime without a sweeper, so that all calls of its store are its turns'."""
    return Runtime(db, stages=[hold.stage if hold is not None else reply])


async def questions(db: Database, thread: str = "a") -> list[str]:
    """What people said on a thread, in order."""
    return [item.body["content"] for item in await db.thread(thread).items() if item.role == "user"]


async def is_awaited(db: Database) -> bool:
    """Whether a turn of another process waits for one that is at work."""
    return any(run_of(record).awaited for record in await db.records.find(RecordQuery(kind=KIND)))


async def ticks(count: int = 20) -> None:
    """Let every task that can go on do so, a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.promise("B-01", "T-02")
async def test_a_turn_that_waits_for_its_own_process_asks_the_store_nothing(counting_db: Database) -> None:
    hold = Hold()
    runtime = runtime_of(counting_db, hold)
    first = asyncio.create_task(runtime.run_turn("a", "0"))
    await hold.arrival.wait()
    before = calls(counting_db)
    others = [asyncio.create_task(runtime.run_turn("a", str(number))) for number in range(1, TURNS)]
    await ticks()
    waiting = calls(counting_db) - before
    hold.go.set()
    await asyncio.gather(first, *others)

    assert waiting == 0


@pytest.mark.promise("B-01", "T-02")
async def test_turns_at_once_ask_the_store_no_more_than_turns_one_after_another(
    counting_db: Database,
) -> None:
    runtime = runtime_of(counting_db)
    await runtime.run_turn("a", "first")
    before = calls(counting_db)
    for number in range(TURNS):
        await runtime.run_turn("a", str(number))
    between = calls(counting_db)
    await asyncio.gather(*(runtime.run_turn("a", str(number)) for number in range(TURNS)))

    assert calls(counting_db) - between <= between - before


async def calls_of_turn(runtime: Runtime, db: Database, thread: str = "a") -> int:
    """How often a turn asks the store."""
    before = calls(db)
    await runtime.run_turn(thread, "Hello.")
    return calls(db) - before


async def test_a_turn_that_follows_another_of_its_process_reads_nothing(counting_db: Database) -> None:
    runtime = runtime_of(counting_db)
    first, second = [await calls_of_turn(runtime, counting_db) for _ in range(2)]

    assert (second, second < first) == (COMMITS, True)


async def test_a_turn_that_follows_another_writer_reads_the_thread_and_goes_on_behind_it(
    counting_db: Database,
) -> None:
    runtime = runtime_of(counting_db)
    await runtime.run_turn("a", "Hello.")
    await counting_db.thread("a").append(items=[clew.user("From elsewhere.")])
    count = await calls_of_turn(runtime, counting_db)

    assert count > COMMITS
    assert await questions(counting_db) == ["Hello.", "From elsewhere.", "Hello."]


@pytest.mark.parametrize(("limit", "value"), [("MOST_POSITIONS", 1), ("MOST_BYTES", 0)])
async def test_only_a_few_small_threads_are_remembered(
    counting_db: Database, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(turn_lines, limit, value)
    runtime = runtime_of(counting_db)
    for thread in ("a", "b"):
        await runtime.run_turn(thread, "Hello.")

    assert await calls_of_turn(runtime, counting_db, "a") > COMMITS


@pytest.mark.promise("B-01")
@pytest.mark.parametrize("has_key", [False, True], ids=["without keys", "with keys"])
async def test_turns_of_one_thread_run_in_the_order_in_which_they_came(
    db: Database, *, has_key: bool
) -> None:
    runtime = runtime_of(db)
    texts = [str(number) for number in range(TURNS)]
    await asyncio.gather(*(runtime.run_turn("a", text, key=text if has_key else None) for text in texts))

    assert await questions(db) == texts


@pytest.mark.promise("B-01")
async def test_waiting_turns_that_are_cancelled_strand_nobody(db: Database) -> None:
    hold = Hold()
    runtime = runtime_of(db, hold)
    turns = [asyncio.create_task(runtime.run_turn("a", "0"))]
    await hold.arrival.wait()
    turns += [asyncio.create_task(runtime.run_turn("a", str(number))) for number in range(1, 6)]
    await ticks()
    for number in (1, 3, 5):
        turns[number].cancel()
    await ticks()
    hold.go.set()
    async with asyncio.timeout(SOON):
        await asyncio.wait(turns)

    assert await questions(db) == ["0", "2", "4"]
    assert len(await db.records.find(RecordQuery(kind=KIND))) == 3
    assert runtime.is_idle
    assert not runtime._scheduler._lines._lines


@pytest.mark.promise("B-01")
async def test_a_turn_cancelled_just_as_its_place_is_reached_strands_nobody(db: Database) -> None:
    lines = turn_lines.TurnLines()
    thread = db.thread("a")
    numbers: list[int] = []

    async def stand(number: int) -> None:
        with lines.join(db, "a") as place:
            await place.reach(thread)
            numbers.append(number)

    with lines.join(db, "a") as first:
        waiting = [asyncio.create_task(stand(number)) for number in range(3)]
        await ticks()
        first.leave()
        waiting[0].cancel()  # its place was reached, but it has not run since
        await asyncio.wait(waiting)

    assert numbers == [1, 2]


@pytest.mark.promise("B-02")
async def test_a_turn_sent_again_waits_for_its_first_sending_alone(db: Database) -> None:
    first, second = Hold(), Hold()
    runtime = Runtime(db, stages=[Hold.by_message({"1": first, "2": second})])
    turns = [asyncio.create_task(runtime.run_turn("a", "1", key="k"))]
    await first.arrival.wait()
    turns.append(asyncio.create_task(runtime.run_turn("a", "2")))
    await ticks()
    again = asyncio.create_task(runtime.run_turn("a", "1", key="k"))
    await ticks()
    first.go.set()
    async with asyncio.timeout(SOON):
        result = await again
    second.go.set()
    first_result, _ = await asyncio.gather(*turns)

    assert result == first_result


@pytest.mark.promise("B-01", "T-02")
async def test_a_turn_that_waits_for_another_process_does_not_look_at_every_change(
    db: Database, counting_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "LOOK_AGAIN", 60.0)
    hold = Hold()
    turn = asyncio.create_task(runtime_of(db, hold).run_turn("a", "1"))
    await hold.arrival.wait()
    waiting = asyncio.create_task(runtime_of(counting_db).run_turn("a", "2"))
    while not calls(counting_db):  # noqa: ASYNC110 - the count tells nobody of its changes
        await asyncio.sleep(0.001)
    for number in range(TURNS):
        await db.thread("a").append(patches=[clew.set(["noise"], number)])
        await asyncio.sleep(0.02)  # time enough to look, if it did
    looks = calls(counting_db)
    waiting.cancel()
    await asyncio.wait([waiting])
    hold.go.set()
    await turn

    assert looks <= 10, "two looks are a head, an episode, a run, a mark and a wait each"


@pytest.mark.promise("B-01", "T-02")
async def test_a_line_that_has_held_a_thread_for_long_lets_another_process_go_first(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_lines, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(turn_lines, "YIELD_SECONDS", SOON)
    hold = Hold()
    runtime = runtime_of(db, hold)
    ours = [asyncio.create_task(runtime.run_turn("a", "ours 1"))]
    await hold.arrival.wait()
    theirs = asyncio.create_task(runtime_of(db).run_turn("a", "theirs"))
    while not await is_awaited(db):  # noqa: ASYNC110 - a record tells nobody of its changes
        await asyncio.sleep(0.001)
    ours.append(asyncio.create_task(runtime.run_turn("a", "ours 2")))
    await ticks()
    hold.go.set()
    await asyncio.gather(*ours, theirs)

    assert await questions(db) == ["ours 1", "theirs", "ours 2"]


@pytest.mark.promise("B-01", "T-02")
@pytest.mark.race
async def test_a_turn_gets_between_those_of_a_process_whose_line_never_empties(shared_url: str) -> None:
    async with clew.open(shared_url) as db:
        await db.create("a")
        ours, theirs = pipe()
        other = ChildProcess(run_until_signal, shared_url, "a", theirs)
        theirs.close()
        assert await asyncio.to_thread(ours.recv) == "busy"
        async with asyncio.timeout(SOON):
            await runtime_of(db).run_turn("a", "let me in")
        ours.send("enough")
        await asyncio.to_thread(other.result)
        ours.close()
        texts = await questions(db)

    assert 0 < texts.index("let me in") < len(texts) - 1


class AwayStore(FailingStore):
    """A store that is away: each call waits until it is let go, and fails."""

    def __init__(self, db: Database) -> None:
        super().__init__(db.store, fail_at=0)
        self.call_count = 0
        self.some = asyncio.Event()
        self.leave = asyncio.Semaphore(0)

    async def read(self, scope: Scope, asking: StoreRead[T]) -> T:
        self.call_count += 1
        self.some.set()
        await self.leave.acquire()
        raise StoreUnavailable(problem="it is away")

    async def change(self, scope: Scope, planning: Planner) -> Plan:
        return await self.read(scope, planning)  # type: ignore[arg-type]  # it is never asked


@pytest.fixture
async def away() -> AsyncIterator[AwayStore]:
    async with clew.open("memory://") as db:
        yield AwayStore(db)


@pytest.mark.promise("B-01")
async def test_a_store_that_is_away_is_not_waited_for_one_turn_after_another(away: AwayStore) -> None:
    runtime = Runtime(Database(away), stages=[gate(reply)])
    turns = [asyncio.create_task(runtime.run_turn("a", str(number))) for number in range(5)]
    await away.some.wait()
    asked_before = away.call_count
    away.leave.release()
    async with asyncio.timeout(SOON):
        while away.call_count < 5:  # noqa: ASYNC110 - the count tells nobody of its changes
            await asyncio.sleep(0.001)
    for _ in range(100):
        away.leave.release()
    await asyncio.wait(turns)

    assert asked_before == 1
