"""Those who wait for a thread: woken by what this process commits, and by looking around for others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from clew.core.errors import StoreBusy
from clew.core.values import Scope
from clew.stores.watch import THREADS_PER_POLL, ChangeWaiters, ScopedThread

ANN, BOB = Scope(tenant="acme", user="ann"), Scope(tenant="acme", user="bob")
SOON = 0.001


class Elsewhere:
    """What other processes have committed, as a test says."""

    def __init__(self) -> None:
        self.commits = 0
        self.threads: dict[tuple[Scope, str], int | None] = {}
        self.signs = 0
        self.requests: list[Sequence[ScopedThread]] = []
        self.error: StoreBusy | None = None

    def commit(self, scope: Scope, thread: str, version: int | None) -> None:
        self.commits += 1
        self.threads[scope, thread] = version

    async def change_token(self) -> object:
        self.signs += 1
        if self.error is not None:
            raise self.error
        return self.commits

    async def versions(self, threads: Sequence[ScopedThread]) -> list[int | None]:
        self.requests.append(threads)
        return [self.threads.get((each.scope, each.thread), 0) for each in threads]

    async def wait_for_looks(self, times: int = 3) -> None:
        """Wait for a few more looks."""
        until = self.signs + times
        while self.signs < until:  # noqa: ASYNC110 - a look tells nobody
            await asyncio.sleep(SOON)


async def wait_for_change(wakes: ChangeWaiters, scope: Scope, thread: str, after: int = 0) -> bool:
    with wakes.waiter_for(scope, thread, after) as woken:
        ready, _ = await asyncio.wait([woken], timeout=10)
    return bool(ready)


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
def wakes(elsewhere: Elsewhere) -> ChangeWaiters:
    return ChangeWaiters(elsewhere, seconds=SOON)


async def start_waiting(wakes: ChangeWaiters, *threads: tuple[Scope, str]) -> list[asyncio.Task[bool]]:
    """Tasks that wait for some threads."""
    tasks = [asyncio.create_task(wait_for_change(wakes, scope, thread)) for scope, thread in threads]
    await asyncio.sleep(0)
    return tasks


async def test_a_commit_of_this_process_wakes_without_a_look(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    mine, theirs = await start_waiting(wakes, (ANN, "mine"), (ANN, "theirs"))
    wakes.wake("acme", ["mine"])
    woken = await mine

    assert (woken, theirs.done(), elsewhere.signs) == (True, False, 0)
    theirs.cancel()


async def test_while_nobody_commits_no_thread_is_asked_for(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    tasks = await start_waiting(wakes, (ANN, "a"), (BOB, "b"))
    await elsewhere.wait_for_looks()
    first = len(elsewhere.requests)
    await elsewhere.wait_for_looks(10)

    assert len(elsewhere.requests) == first
    for task in tasks:
        task.cancel()


async def test_a_commit_elsewhere_wakes_whoever_waits_for_it(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    mine, theirs = await start_waiting(wakes, (ANN, "a"), (BOB, "a"))
    await elsewhere.wait_for_looks()
    elsewhere.commit(ANN, "a", 1)
    woken = await mine
    await elsewhere.wait_for_looks()

    assert (woken, theirs.done()) == (True, False)
    theirs.cancel()


async def test_who_waits_for_a_thread_that_is_gone_is_woken(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    [task] = await start_waiting(wakes, (ANN, "a"))
    elsewhere.commit(ANN, "a", None)

    assert await task


async def test_a_crowd_is_asked_for_in_parts_and_all_of_it(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    names = [f"t{number}" for number in range(THREADS_PER_POLL * 2 + 10)]
    tasks = await start_waiting(wakes, *((ANN, name) for name in names))
    for name in names:
        elsewhere.commit(ANN, name, 1)
    woken = await asyncio.gather(*tasks)

    assert all(woken)
    assert max(map(len, elsewhere.requests)) == THREADS_PER_POLL


async def test_listeners_of_one_thread_cost_one_question(wakes: ChangeWaiters, elsewhere: Elsewhere) -> None:
    tasks = await start_waiting(wakes, *[(ANN, "a")] * 100)
    elsewhere.commit(ANN, "a", 1)
    await asyncio.gather(*tasks)

    assert elsewhere.requests == [[ScopedThread(ANN, "a")]]


async def test_an_error_wakes_everybody_to_meet_it_themselves(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    elsewhere.error = StoreBusy(store="elsewhere")
    tasks = await start_waiting(wakes, (ANN, "a"), (BOB, "b"))

    assert await asyncio.gather(*tasks) == [True, True]


async def test_after_an_error_it_looks_again(wakes: ChangeWaiters, elsewhere: Elsewhere) -> None:
    elsewhere.error = StoreBusy(store="elsewhere")
    await asyncio.gather(*await start_waiting(wakes, (ANN, "a")))
    elsewhere.error = None
    [task] = await start_waiting(wakes, (ANN, "a"))
    elsewhere.commit(ANN, "a", 1)

    assert await task


async def test_nobody_looks_while_nobody_waits(wakes: ChangeWaiters, elsewhere: Elsewhere) -> None:
    [task] = await start_waiting(wakes, (ANN, "a"))
    await elsewhere.wait_for_looks(1)
    wakes.wake_all()
    await task
    before = elsewhere.signs
    await asyncio.sleep(SOON * 20)

    assert elsewhere.signs <= before + 1


def test_it_looks_on_the_loop_that_is_there_now(wakes: ChangeWaiters, elsewhere: Elsewhere) -> None:
    async def wait_in_vain() -> None:
        await start_waiting(wakes, (ANN, "a"))

    async def woken() -> bool:
        [task] = await start_waiting(wakes, (ANN, "a"))
        elsewhere.commit(ANN, "a", 1)
        return await task

    asyncio.run(wait_in_vain())

    assert asyncio.run(woken())


async def test_a_commit_of_this_process_stirs_without_a_look(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    task = asyncio.create_task(wakes.wait_for_any_change(0, 10))
    await asyncio.sleep(0)
    wakes.wake("acme", ["mine"])

    assert (await task, elsewhere.signs) == (1, 0)


async def test_a_commit_elsewhere_stirs_and_no_thread_is_asked_for(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    before = await wakes.wait_for_any_change(0, 10)
    task = asyncio.create_task(wakes.wait_for_any_change(before, 10))
    await elsewhere.wait_for_looks()
    was_waiting = not task.done()
    elsewhere.commit(ANN, "a", 1)

    assert (was_waiting, await task, elsewhere.requests) == (True, before + 1, [])


async def test_what_was_committed_between_two_calls_is_not_missed(
    wakes: ChangeWaiters, elsewhere: Elsewhere
) -> None:
    before = await wakes.wait_for_any_change(0, 10)
    wakes.wake("acme", ["mine"])
    between = await wakes.wait_for_any_change(before, 0)
    elsewhere.commit(ANN, "a", 1)

    assert (between, await wakes.wait_for_any_change(between, 10)) == (before + 1, before + 2)


async def test_while_nobody_commits_the_time_goes_by(wakes: ChangeWaiters) -> None:
    before = await wakes.wait_for_any_change(0, 10)

    assert await wakes.wait_for_any_change(before, SOON * 20) == before


async def test_an_error_stirs_too(wakes: ChangeWaiters, elsewhere: Elsewhere) -> None:
    elsewhere.error = StoreBusy(store="elsewhere")

    assert await wakes.wait_for_any_change(0, 10) > 0


async def test_what_changes_no_thread_stirs_nobody(wakes: ChangeWaiters) -> None:
    wakes.wake("acme", [])

    assert await wakes.wait_for_any_change(0, 0) == 0
