"""Taking turns on a thread, and flying together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from clew.core.errors import OutcomeUnknown, StorageError
from clew.core.log.rows import Advance, ChangesetRow, ThreadRow
from clew.core.values import Counters, Scope
from clew.stores.postgres.batches import APPENDS_PER_BATCH, Batches, ThreadLocks

SCOPE = Scope(tenant="acme")


class TestTurns:
    async def test_the_first_does_not_wait_and_the_next_do_in_order(self) -> None:
        turns, order = ThreadLocks(), list[int]()

        async def work(number: int) -> bool:
            has_waited = await turns.acquire("acme", ["thread"])
            await asyncio.sleep(0)
            order.append(number)
            turns.release("acme", ["thread"])
            return has_waited

        waits = await asyncio.gather(*map(work, range(5)))

        assert order == [0, 1, 2, 3, 4]
        assert waits == [False, True, True, True, True]
        assert turns._queues == {}

    async def test_other_threads_and_tenants_are_free(self) -> None:
        turns = ThreadLocks()

        assert not await turns.acquire("acme", ["a", "b"])
        assert not await turns.acquire("acme", ["c"])
        assert not await turns.acquire("other", ["a"])

    @pytest.mark.promise("S-04")
    @pytest.mark.parametrize("has_turn", [False, True])
    async def test_one_who_is_cancelled_leaves_the_line(self, *, has_turn: bool) -> None:
        turns = ThreadLocks()
        await turns.acquire("acme", ["a"])
        waiting = [asyncio.create_task(turns.acquire("acme", ["a"])) for _ in range(2)]
        await asyncio.sleep(0)
        if has_turn:
            turns.release("acme", ["a"])
        waiting[0].cancel()
        if not has_turn:
            turns.release("acme", ["a"])
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 1)
        turns.release("acme", ["a"])

        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert outcomes[1] is True
        assert turns._queues == {}

    @pytest.mark.promise("S-04")
    async def test_one_who_is_cancelled_gives_back_what_it_had(self) -> None:
        turns = ThreadLocks()
        await turns.acquire("acme", ["b"])
        waiting = asyncio.create_task(turns.acquire("acme", ["a", "b"]))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        assert not await asyncio.wait_for(turns.acquire("acme", ["a"]), 1)


def step(number: int) -> Advance:
    """An append to the thread of that number."""
    row = ThreadRow(
        key=UUID(int=number),
        id=f"thread-{number}",
        owner=None,
        created=0,
        updated=0,
        version=0,
        hash=b"",
        counters=Counters(),
    )
    change = ChangesetRow(
        version=1, time=0, envelope=b"", content=None, salt=None, hash=b"", counters=Counters()
    )
    return Advance(before=row, after=row, change=change)


class Sky:
    """Where flights go: takes a moment for each, and may fail."""

    def __init__(self, failure: Exception | None = None, *, bad: int | None = None) -> None:
        self.flights: list[list[int]] = []
        self._failure = failure
        self._bad = bad

    async def send(self, scope: Scope, steps: Sequence[Advance]) -> list[bool]:
        numbers = [one.before.key.int for one in steps]
        self.flights.append(numbers)
        await asyncio.sleep(0.001)
        if self._failure is not None and (self._bad is None or self._bad in numbers):
            raise self._failure
        return [number % 2 == 0 for number in numbers]


class TestFlights:
    async def test_what_waits_goes_together_in_order_of_the_threads(self) -> None:
        sky = Sky()
        flights = Batches(sky.send, 1)
        results = await asyncio.gather(*(flights.append(SCOPE, step(number)) for number in (5, 9, 3, 8)))

        assert sky.flights == [[5], [3, 8, 9]]
        assert results == [False, False, False, True]

    async def test_scopes_do_not_fly_together(self) -> None:
        sky = Sky()
        flights = Batches(sky.send, 1)
        scopes = [
            Scope(tenant="a"),
            Scope(tenant="a", user="x"),
            Scope(tenant="b"),
            Scope(tenant="a", user="x"),
        ]
        await asyncio.gather(*(flights.append(scope, step(number)) for number, scope in enumerate(scopes)))

        assert sky.flights == [[0], [1, 3], [2]]

    async def test_a_flight_has_so_many_seats(self) -> None:
        sky = Sky()
        flights = Batches(sky.send, 1)
        await asyncio.gather(
            *(flights.append(SCOPE, step(number)) for number in range(2 * APPENDS_PER_BATCH + 2))
        )

        assert [len(flight) for flight in sky.flights] == [1, APPENDS_PER_BATCH, APPENDS_PER_BATCH, 1]

    async def test_none_suffers_for_another(self) -> None:
        sky = Sky(StorageError(store="sky", problem="no"), bad=3)
        flights = Batches(sky.send, 1)
        appends = (flights.append(SCOPE, step(number)) for number in (0, 2, 3, 4))
        outcomes = await asyncio.gather(*appends, return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [bool, bool, StorageError, bool]
        assert flights._running_count == 0

    @pytest.mark.promise("B-02")
    async def test_what_may_have_arrived_is_not_sent_again(self) -> None:
        sky = Sky(OutcomeUnknown(problem="no answer"))
        flights = Batches(sky.send, 1)
        appends = (flights.append(SCOPE, step(number)) for number in (0, 2, 4))
        outcomes = await asyncio.gather(*appends, return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 3
        assert sky.flights == [[0], [2, 4]]

    @pytest.mark.promise("S-04")
    async def test_one_who_is_cancelled_does_not_fly_and_holds_up_nobody(self) -> None:
        sky = Sky()
        flights = Batches(sky.send, 1)
        tasks = [asyncio.create_task(flights.append(SCOPE, step(number))) for number in (0, 2, 4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[1].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2 + [bool]
        assert sky.flights == [[0], [4]]
        assert flights._running_count == 0
