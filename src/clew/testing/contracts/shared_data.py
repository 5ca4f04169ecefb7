"""Sharing: the same data open twice, as in two processes; neither trusts what it remembers."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio

import msgspec
import pytest

from clew.core import patch
from clew.core.errors import (
    ClaimLost,
    KeyReused,
    OpFailed,
    RevisionConflict,
    ThreadExists,
    ThreadNotFound,
    VersionConflict,
)
from clew.core.items import call, result, user
from clew.core.values import Absent, Changeset, Committed, Exact, Job, Record
from clew.testing.clock import Clock
from clew.testing.contracts.common import contents_of, thread_dump
from clew.testing.contracts.watch import next_changes
from clew.testing.fixtures import StoreFixtures, StoreOpener


class SharingContract(StoreFixtures):
    """Tests of two openings of one store."""

    @pytest.mark.promise("T-02")
    async def test_what_one_appends_the_other_sees(self, opening: StoreOpener | None, clock: Clock) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            await one.create("t")
            for n in range(6):
                await (
                    (one, other)[n % 2]
                    .thread("t")
                    .append(items=[user(n)], patches=[patch.append(["seen"], n)])
                )
            texts = [contents_of(await db.thread("t").items()) for db in (one, other)]
            states = [await db.thread("t").state() for db in (one, other)]
            verdict = await one.thread("t").verify()

        assert texts == [list(range(6))] * 2
        assert states == [{"seen": list(range(6))}] * 2
        assert verdict.problems == ()

    @pytest.mark.promise("T-02")
    async def test_patches_on_a_remembered_state_lose_nothing(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            await one.create("t")
            for n in range(8):
                await (
                    (one, other)[n % 2]
                    .thread("t")
                    .append(patches=[patch.increment(["n"]), patch.set([f"{n}"], n)])
                )
            state, head = await one.thread("t").state(), await other.thread("t").head()

        assert state == head.state == {"n": 8, **{f"{n}": n for n in range(8)}}
        assert head.version == 8

    @pytest.mark.promise("T-01", "T-02")
    async def test_a_writer_with_an_old_memory_is_refused(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            await one.create("t")
            await one.thread("t").append(items=[user("one")], expect=Exact(0))
            await other.thread("t").append(items=[user("other")], expect=Exact(1))
            with pytest.raises(VersionConflict) as caught:
                await one.thread("t").append(items=[user("lost")], expect=Exact(1))
            texts = contents_of(await one.thread("t").items())

        assert (caught.value.expected, caught.value.actual, texts) == (1, 2, ["one", "other"])

    @pytest.mark.promise("T-02", "T-15")
    async def test_an_op_fits_what_is_there_not_what_is_remembered(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            ours, theirs = await one.create("t"), other.thread("t")
            await ours.append(patches=[patch.set(["n"], "text")])
            await theirs.append(items=[call("c", "f", {})], patches=[patch.set(["n"], 1)])
            await ours.append(items=[result("c", 1)], patches=[patch.increment(["n"])])
            await theirs.append(patches=[patch.set(["n"], "text")])
            with pytest.raises(OpFailed):
                await ours.append(patches=[patch.increment(["n"])])
            state = await ours.state()

        assert state == {"n": "text"}

    @pytest.mark.promise("T-02")
    async def test_crowds_on_both_sides_lose_nothing(self, opening: StoreOpener | None, clock: Clock) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            await one.create("t")
            commits = await asyncio.gather(
                *(
                    (one, other)[n % 2].thread("t").append(items=[user(n)], patches=[patch.increment(["n"])])
                    for n in range(30)
                )
            )
            changes = await one.thread("t").changesets(limit=100)
            state, verdict = await other.thread("t").state(), await other.thread("t").verify()

        assert {change.version: contents_of(change.items) for change in changes} == {
            commit.version: [n] for n, commit in enumerate(commits)
        }
        assert (state, verdict.problems) == ({"n": 30}, ())

    @pytest.mark.promise("T-02", "S-04")
    async def test_first_writers_on_both_sides_do_not_race(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            tasks = (
                db.thread("t").append(items=[user(n)], expect=Absent())
                for n, db in enumerate([one, other] * 4)
            )
            results = await asyncio.gather(*tasks, return_exceptions=True)

        assert sum(isinstance(result, Committed) for result in results) == 1
        assert sum(isinstance(result, ThreadExists) for result in results) == 7

    @pytest.mark.promise("B-02")
    async def test_a_key_used_on_one_side_is_known_on_the_other(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        change = Changeset(items=(user("Hi"),), key="request")
        async with self.open_twice(opening, clock) as (one, other):
            await one.create("t")
            await other.thread("t").append(items=[user("before")])
            first = await one.thread("t").append(change)
            again = await other.thread("t").append(change)
            with pytest.raises(KeyReused):
                await other.thread("t").append(msgspec.structs.replace(change, reason="other"))

        assert (again.version, again.hash, again.repeated) == (first.version, first.hash, True)

    @pytest.mark.promise("T-02")
    async def test_a_thread_deleted_on_one_side_is_gone_on_the_other(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            await one.create("t")
            await other.thread("t").append(items=[user("old")])
            await one.thread("t").delete()
            with pytest.raises(ThreadNotFound):
                await other.thread("t").append(items=[user("lost")])
            await one.create("t")
            await other.thread("t").append(items=[user("new")])
            texts = contents_of(await one.thread("t").items())

        assert texts == ["new"]

    @pytest.mark.promise("T-02")
    async def test_both_sides_see_the_same_thread(self, opening: StoreOpener | None, clock: Clock) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            thread = await one.create("t")
            await thread.append(items=[user(n) for n in range(4)])
            await other.thread("t").log().pop()
            await thread.log().compact([user("summary")], keep=1)
            await (await other.thread("t").fork("fork", at=1)).append(items=[user("own")])
            dumps = [[await thread_dump(db.thread(id)) for id in ("t", "fork")] for db in (one, other)]

        assert dumps[0] == dumps[1]

    @pytest.mark.promise("T-14")
    async def test_a_watcher_is_woken_by_the_other_side(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            await one.create("t")
            watcher = asyncio.create_task(next_changes(one.thread("t"), 2, after=0))
            await asyncio.sleep(0.05)
            for text in ("a", "b"):
                await other.thread("t").append(items=[user(text)])
            changes = await watcher

        assert changes == [(1, ["a"]), (2, ["b"])]

    @pytest.mark.promise("T-14", "S-05")
    async def test_watchers_of_many_users_are_woken_by_the_other_side(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            users = [("acme", "ann"), ("acme", "bob"), ("umbrella", "ann"), ("umbrella", None)]
            here = [one.scope(tenant=tenant, user=name) for tenant, name in users]
            for db in here:
                await db.create(f"{db.tenant} {db.user}", owner=db.user)
            threads = [db.thread(f"{db.tenant} {db.user}") for db in here]
            watchers = [asyncio.create_task(next_changes(thread, 1, after=0)) for thread in threads]
            await asyncio.sleep(0.05)
            for (tenant, name), thread in zip(users, threads, strict=True):
                there = other.scope(tenant=tenant, user=name).thread(thread.id)
                await there.append(items=[user(thread.id)])
            changes = await asyncio.gather(*watchers)

        assert changes == [[(1, [thread.id])] for thread in threads]

    @pytest.mark.promise("T-14")
    async def test_a_job_is_claimed_on_one_side(self, opening: StoreOpener | None, clock: Clock) -> None:
        async with self.open_twice(opening, clock) as (one, other):
            for n in range(6):
                await one.jobs.enqueue(Job(id=f"j{n}", kind="work"))
            claims = await asyncio.gather(*(db.jobs.claim(["work"], limit=2) for db in [one, other] * 4))
            jobs = [job for claim in claims for job in claim]
            await other.jobs.finish(jobs[0])
            with pytest.raises(ClaimLost):
                await one.jobs.finish(jobs[0])

        assert sorted(job.id for job in jobs) == [f"j{n}" for n in range(6)]

    @pytest.mark.promise("T-14")
    async def test_a_record_changes_on_one_side(self, opening: StoreOpener | None, clock: Clock) -> None:
        record = Record(kind="k", id="r", body=1)
        async with self.open_twice(opening, clock) as (one, other):
            await one.records.put(record, expect=0)
            tasks = (db.records.put(record, expect=1) for db in [one, other] * 4)
            results = await asyncio.gather(*tasks, return_exceptions=True)

        assert sum(isinstance(result, Record) for result in results) == 1
        assert sum(isinstance(result, RevisionConflict) for result in results) == 7
