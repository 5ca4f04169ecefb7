"""Idempotency keys: once, however often it is tried."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio

import msgspec
import pytest

from clew.core import patch
from clew.core.errors import ClewError, InvalidArgument, KeyReused, VersionConflict
from clew.core.items import call, result, user
from clew.core.ports import Store
from clew.core.values import Absent, AppendTo, Changeset, Exact
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.common import contents_of, thread_dump
from clew.testing.faults import FailingStore
from clew.testing.fixtures import StoreFixtures, StoreOpener

CHANGE = Changeset(items=(user("Hi"),), patches=(patch.increment(["n"]),), key="request")


class IdempotencyContract(StoreFixtures):
    """Tests of idempotency keys: a repeated append commits once."""

    @pytest.mark.promise("B-02", "S-02")
    async def test_an_append_repeated_with_its_key_commits_once(self, thread: Thread, clock: Clock) -> None:
        first = await thread.append(CHANGE)
        clock.advance(5000)
        again = await thread.append(CHANGE)

        assert (again.version, again.time, again.hash) == (first.version, first.time, first.hash)
        assert (first.repeated, again.repeated) == (False, True)
        assert (await thread.head()).version == 1

    @pytest.mark.promise("B-02")
    async def test_the_first_result_comes_back_after_other_appends(self, thread: Thread) -> None:
        first = await thread.append(CHANGE, expect=Exact(0))
        await thread.append(items=[user("other")])
        again = await thread.append(CHANGE, expect=Exact(0))

        assert (again.version, again.hash, again.repeated) == (1, first.hash, True)
        assert contents_of(await thread.items()) == ["Hi", "other"]

    @pytest.mark.promise("B-02")
    async def test_a_creating_append_may_be_repeated(self, db: Database) -> None:
        first = await db.thread("new").append(CHANGE, expect=Absent())
        again = await db.thread("new").append(CHANGE, expect=Absent())

        assert (again.version, again.hash, again.repeated) == (first.version, first.hash, True)

    @pytest.mark.promise("B-02")
    @pytest.mark.parametrize(
        "other",
        [
            msgspec.structs.replace(CHANGE, items=(user("Ho"),)),
            msgspec.structs.replace(CHANGE, items=()),
            msgspec.structs.replace(CHANGE, patches=()),
            msgspec.structs.replace(CHANGE, patches=(patch.increment(["n"], 2),)),
            msgspec.structs.replace(CHANGE, reason="other"),
            msgspec.structs.replace(CHANGE, run_id="other"),
            msgspec.structs.replace(CHANGE, state_actions=("other",)),
            msgspec.structs.replace(CHANGE, items=(user("Hi", id="other"),)),
            msgspec.structs.replace(
                CHANGE, items=tuple(msgspec.structs.replace(item, log="other") for item in CHANGE.items)
            ),
        ],
    )
    async def test_one_key_with_another_body_is_refused(self, thread: Thread, other: Changeset) -> None:
        await thread.append(CHANGE)
        before = await thread_dump(thread)

        with pytest.raises(KeyReused):
            await thread.append(other)
        assert await thread_dump(thread) == before

    @pytest.mark.promise("B-02")
    async def test_a_key_is_known_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            first = await (await db.create("thread")).append(CHANGE)
        async with self.reopen(opening, clock) as db:
            again = await db.thread("thread").append(CHANGE)
            with pytest.raises(KeyReused):
                await db.thread("thread").append(msgspec.structs.replace(CHANGE, reason="other"))

        assert (again.version, again.hash, again.repeated) == (first.version, first.hash, True)

    @pytest.mark.promise("B-02", "B-05")
    async def test_a_repetition_that_would_not_fit_any_more_is_no_error(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {})], patches=[patch.set(["a"], [1])])
        answer = Changeset(items=(result("c", 1),), patches=(patch.set(["a"], "text"),), key="answer")
        fork = Changeset(patches=(patch.delete(["a"]), patch.insert(["b"], 0, 1)), key="insert")
        await thread.append(patches=[patch.set(["b"], [])])
        first = [await thread.append(answer), await thread.append(fork)]
        await thread.append(patches=[patch.delete(["b"])])
        again = [await thread.append(answer), await thread.append(fork)]

        assert [commit.hash for commit in again] == [done.hash for done in first]
        assert [done.repeated for done in again] == [True, True]

    @pytest.mark.promise("B-02")
    async def test_a_key_lives_as_long_as_its_changeset(self, thread: Thread, clock: Clock) -> None:
        first = await thread.append(CHANGE)
        for n in range(50):
            clock.advance(86_400_000)
            await thread.append(items=[user(n)])
        await thread.log().clear()
        again = await thread.append(CHANGE)

        assert (again.version, again.hash, again.repeated) == (1, first.hash, True)

    @pytest.mark.promise("B-02")
    async def test_a_key_dies_with_its_thread(self, db: Database, thread: Thread) -> None:
        await thread.append(CHANGE)
        await thread.delete()
        again = await (await db.create("thread")).append(CHANGE)

        assert (again.version, again.repeated) == (1, False)

    @pytest.mark.promise("B-02")
    async def test_keys_of_two_threads_are_apart(self, db: Database, thread: Thread) -> None:
        await thread.append(CHANGE)
        other = await (await db.create("other")).append(msgspec.structs.replace(CHANGE, reason="other"))

        assert (other.version, other.repeated) == (1, False)

    @pytest.mark.promise("B-02")
    async def test_a_key_is_not_used_up_by_a_refusal(self, thread: Thread) -> None:
        await thread.append(items=[user("first")])
        with pytest.raises(VersionConflict):
            await thread.append(CHANGE, expect=Exact(0))
        commit = await thread.append(msgspec.structs.replace(CHANGE, reason="another body"))

        assert (commit.version, commit.repeated) == (2, False)

    @pytest.mark.promise("B-02")
    async def test_tasks_that_use_one_key_commit_once(self, thread: Thread) -> None:
        commits = await asyncio.gather(*(thread.append(CHANGE) for _ in range(12)))

        assert {commit.version for commit in commits} == {1}
        assert sum(not committed.repeated for committed in commits) == 1
        assert contents_of(await thread.items()) == ["Hi"]

    @pytest.mark.promise("B-02")
    async def test_one_commit_cannot_use_a_key_twice(self, db: Database, thread: Thread) -> None:
        with pytest.raises(InvalidArgument):
            await db.commit(
                [AppendTo(thread="thread", change=CHANGE), AppendTo(thread="thread", change=CHANGE)]
            )
        assert (await thread.head()).version == 0

    @pytest.mark.promise("B-02", "S-02")
    @pytest.mark.parametrize("how", ["error", "after", "cancel"])
    async def test_a_retry_after_an_unknown_outcome_commits_once(
        self, store: Store, thread: Thread, how: str
    ) -> None:
        await thread.append(items=[user("before")])
        failing = FailingStore(store, fail_at=1, how=how)  # type: ignore[arg-type]  # one of the three
        failing_thread = Database(failing).thread("thread")
        with pytest.raises((ClewError, asyncio.CancelledError)):
            await failing_thread.append(CHANGE)
        await failing_thread.append(CHANGE)

        assert contents_of(await thread.items()) == ["before", "Hi"]
        assert await thread.state() == {"n": 1}
