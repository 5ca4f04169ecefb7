"""Failures: a call that fails or is cancelled leaves all of its work or none, and strands nothing."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import pytest

from clew.core import patch
from clew.core.errors import ClewError, StoreFailed
from clew.core.items import user
from clew.core.ports import Store
from clew.core.values import Absent, Changeset, Scope
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.contracts.common import contents_of
from clew.testing.faults import FailingStore
from clew.testing.fixtures import StoreFixtures

WriteAttempt = Callable[[Database], Awaitable[object]]
BATCH: Final = Changeset(
    items=tuple(user(f"b{n}") for n in range(4)), patches=(patch.increment(["n"]),), key="k"
)
ATTEMPTS: Final[dict[str, tuple[WriteAttempt, list[list[str]]]]] = {
    "append": (lambda db: db.thread("thread").append(BATCH), [["a", "b0", "b1", "b2", "b3"]]),
    "create": (lambda db: db.thread("new").append(BATCH, expect=Absent()), []),
    "pop": (lambda db: db.thread("thread").log().pop(), [[]]),
    "clear": (lambda db: db.thread("thread").log().clear(), [[]]),
    "compact": (lambda db: db.thread("thread").log().compact([user("s")], keep=0), [["s"]]),
    "fork": (lambda db: db.thread("thread").fork("fork"), []),
}


class FailureContract(StoreFixtures):
    """Tests of the state that failures leave behind."""

    @pytest.mark.promise("S-02", "S-04")
    @pytest.mark.parametrize("how", ["error", "after", "cancel"])
    @pytest.mark.parametrize("name", ATTEMPTS)
    async def test_a_call_that_fails_anywhere_does_all_or_nothing(
        self, store: Store, thread: Thread, name: str, how: Literal["error", "after", "cancel"]
    ) -> None:
        await thread.append(items=[user("a")])
        attempt, outcomes = ATTEMPTS[name]
        for fail_at in range(1, 5):
            failing = FailingStore(store, fail_at=fail_at, how=how)
            try:
                await attempt(Database(failing))
            except (ClewError, asyncio.CancelledError):
                break

        assert contents_of(await thread.items()) in [["a"], *outcomes]
        for summary in (await Database(store).threads()).threads:
            assert (await Database(store).thread(summary.id).verify()).problems == ()

    @pytest.mark.promise("S-04")
    async def test_a_cancelled_append_strands_nothing(self, thread: Thread) -> None:
        sure = []
        for steps in range(12):
            task = asyncio.ensure_future(thread.append(items=[user([steps, 0]), user([steps, 1])]))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                sure.append(task.result().version)
            await thread.append(items=[user("sure")])

        changes = await thread.changesets(limit=1000)
        assert [change.version for change in changes] == list(range(1, len(changes) + 1))
        assert all(len(change.items) == 2 or contents_of(change.items) == ["sure"] for change in changes)
        assert sum(contents_of(change.items) == ["sure"] for change in changes) == 12
        assert {change.version for change in changes} >= set(sure)
        assert (await thread.verify()).problems == ()

    @pytest.mark.promise("S-04")
    async def test_cancelled_reads_strand_nothing(self, thread: Thread) -> None:
        await thread.append(items=[user(n) for n in range(20)])
        for steps in range(12):
            task = asyncio.ensure_future(thread.items(last=10))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

        assert contents_of(await thread.items(last=3)) == [17, 18, 19]
        await thread.append(items=[user("after")])

    @pytest.mark.promise("S-04")
    async def test_a_crowd_of_cancelled_writers_strands_nothing(self, db: Database, thread: Thread) -> None:
        tasks = [asyncio.ensure_future(thread.append(items=[user(n)])) for n in range(40)]
        await asyncio.sleep(0.001)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.wait(tasks)
        numbers = {n for n, task in enumerate(tasks) if not task.cancelled()}

        contents = contents_of(await thread.items())
        assert len(contents) == len(set(contents)) == (await thread.head()).version
        assert set(contents) >= numbers
        assert (await thread.verify()).problems == ()

    @pytest.mark.promise("S-04")
    async def test_first_writers_of_many_threads_do_not_race(self, db: Database) -> None:
        writers = (
            db.thread(f"t-{n % 10}").append(Changeset(items=(user(n // 10),), key=f"{n}"), expect=Absent())
            for n in range(40)
        )
        await asyncio.gather(*writers, return_exceptions=True)

        lengths = [len(await db.thread(f"t-{n}").items()) for n in range(10)]
        assert lengths == [1] * 10

    @pytest.mark.promise("S-08")
    async def test_a_database_over_a_given_store_leaves_it_open(self, store: Store) -> None:
        async with Database(store) as db:
            await db.create("thread")
        await db.close()

        assert (await Database(store).thread("thread").head()).version == 0

    @pytest.mark.promise("S-04")
    async def test_a_store_says_that_it_is_healthy(self, store: Store) -> None:
        report = await store.report()

        assert (report.healthy, report.store) == (True, store.name)

    @pytest.mark.promise("S-04")
    async def test_a_planning_that_breaks_changes_nothing(self, store: Store, thread: Thread) -> None:
        class PlannerError(Exception):
            pass

        def planner(context: object) -> object:
            raise PlannerError

        with pytest.raises((PlannerError, StoreFailed)):
            await store.change(Scope(), planner)  # type: ignore[arg-type]  # it breaks on purpose
        commit = await thread.append(items=[user("after")])

        assert commit.version == 1
