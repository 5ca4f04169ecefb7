"""Appending: preconditions, what a changeset keeps, what a refusal leaves alone."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio

import msgspec
import pytest

from clew.core import patch
from clew.core.errors import ThreadExists, ThreadNotFound, VersionConflict
from clew.core.items import assistant, user
from clew.core.values import Absent, AnyVersion, AppendTo, Changeset, Committed, Exact, Item
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.common import contents_of, thread_dump
from clew.testing.fixtures import StoreFixtures, StoreOpener

FULL_CHANGESET = Changeset(
    items=(
        Item(
            body={"content": "Hi", "n": [1, 2.5, None, True]},
            role="user",
            kind="message",
            id="m-1",
            log="transcript",
            run="run-2",
            step=3,
            visibility="user",
        ),
        Item(body=b"\x00\xffraw", codec="msgpack", format="langchain", id="m-2"),
    ),
    patches=(patch.set(["mood"], "calm"), patch.increment(["turns"]), patch.union(["tags"], ["b", "a"])),
    snapshot={"base": {"kept": 1.5}},
    state_actions=({"name": "calm_down", "arguments": {"by": 1}}, "noted"),
    reason="UserMessage",
    run_id="run-2",
    parent_run_id="run-1",
    run_meta={"model": "m", "nested": {"list": [1]}},
    key="request-1",
    author="alice",
)


def without_store_fields(change: Changeset) -> Changeset:
    """A changeset without what the store has filled in."""
    items = tuple(msgspec.structs.replace(item, place=0, version=0, time=0) for item in change.items)
    return msgspec.structs.replace(change, items=items, version=0, time=0, hash=b"")


class AppendContract(StoreFixtures):
    """Tests of appending changesets."""

    @pytest.mark.promise("T-01")
    async def test_an_append_at_the_expected_version_makes_the_next(self, thread: Thread) -> None:
        commit = await thread.append(items=[user("Hi")], expect=Exact(0))

        assert (commit.version, (await thread.head()).version, commit.repeated) == (1, 1, False)

    @pytest.mark.promise("T-01")
    async def test_a_stale_writer_is_refused(self, thread: Thread) -> None:
        await thread.append(items=[user("first")], expect=Exact(0))

        with pytest.raises(VersionConflict) as caught:
            await thread.append(items=[user("second")], expect=Exact(0))
        assert (caught.value.expected, caught.value.actual) == (0, 1)

    @pytest.mark.promise("T-01")
    async def test_a_writer_ahead_of_the_thread_is_refused(self, thread: Thread) -> None:
        with pytest.raises(VersionConflict) as caught:
            await thread.append(items=[user("too early")], expect=Exact(5))
        assert (caught.value.expected, caught.value.actual) == (5, 0)

    @pytest.mark.promise("T-01")
    async def test_a_refused_append_changes_nothing(self, thread: Thread) -> None:
        await thread.append(items=[user("first")], patches=[patch.set(["a"], 1)], expect=Exact(0))
        before = await thread_dump(thread)

        with pytest.raises(VersionConflict):
            await thread.append(items=[user("second")], patches=[patch.set(["a"], 2)], expect=Exact(0))
        assert await thread_dump(thread) == before

    @pytest.mark.promise("T-01")
    async def test_an_append_anywhere_needs_no_version(self, thread: Thread) -> None:
        commits = [await thread.append(items=[user(str(n))], expect=AnyVersion()) for n in range(3)]

        assert [commit.version for commit in commits] == [1, 2, 3]

    @pytest.mark.promise("T-01")
    @pytest.mark.parametrize("expect", [AnyVersion(), Exact(0), Exact(3)], ids=repr)
    async def test_an_append_to_no_thread_is_refused(self, db: Database, expect: AnyVersion | Exact) -> None:
        with pytest.raises(ThreadNotFound):
            await db.thread("nobody").append(items=[user("Hi")], expect=expect)
        assert (await db.threads()).threads == ()

    @pytest.mark.promise("T-01")
    async def test_an_append_that_expects_nothing_creates_the_thread(self, db: Database) -> None:
        commit = await db.thread("new").append(items=[user("Hi")], expect=Absent(owner="alice"))

        head = await db.thread("new").head()
        assert (commit.version, head.version, head.owner) == (1, 1, "alice")

    @pytest.mark.promise("T-01")
    async def test_an_append_that_expects_nothing_is_refused_by_a_thread(self, thread: Thread) -> None:
        before = await thread_dump(thread)

        with pytest.raises(ThreadExists):
            await thread.append(items=[user("Hi")], expect=Absent())
        assert await thread_dump(thread) == before

    @pytest.mark.promise("T-05")
    async def test_the_committed_version_is_where_the_next_append_stands(self, thread: Thread) -> None:
        first = await thread.append(items=[user("one")], expect=Exact(0))
        second = await thread.append(items=[user("two")], expect=Exact(first.version))

        head = await thread.head()
        assert (second.version, second.hash) == (head.version, head.hash) == (2, head.hash)

    @pytest.mark.promise("T-02")
    async def test_one_of_many_tasks_wins_a_version(self, thread: Thread) -> None:
        tasks = (thread.append(items=[user(str(n))], expect=Exact(0)) for n in range(16))
        results = await asyncio.gather(*tasks, return_exceptions=True)

        winners = [n for n, result in enumerate(results) if isinstance(result, Committed)]
        conflicts = [result for result in results if isinstance(result, VersionConflict)]
        assert (len(winners), len(conflicts)) == (1, 15)
        assert contents_of(await thread.items()) == [str(winners[0])]

    @pytest.mark.promise("T-02")
    async def test_every_acknowledged_write_of_many_tasks_is_kept(self, thread: Thread) -> None:
        commits = await asyncio.gather(*(thread.append(items=[user(n)]) for n in range(32)))

        by_version = {change.version: contents_of(change.items) for change in await thread.changesets()}
        assert by_version == {commit.version: [n] for n, commit in enumerate(commits)}
        assert sorted(by_version) == list(range(1, 33))

    @pytest.mark.promise("T-02")
    async def test_tasks_that_retry_their_conflicts_all_get_in(self, thread: Thread) -> None:
        async def add(n: int) -> None:
            while True:
                head = await thread.head()
                try:
                    await thread.append(
                        patches=[patch.set(["sum"], head.state.get("sum", 0) + n)],
                        expect=Exact(head.version),
                    )
                    return
                except VersionConflict:
                    await asyncio.sleep(0)

        await asyncio.gather(*(add(n) for n in range(8)))

        assert await thread.state() == {"sum": sum(range(8))}

    @pytest.mark.promise("S-04", "T-02")
    async def test_one_of_many_first_writers_creates_the_thread(self, db: Database) -> None:
        tasks = (db.thread("new").append(items=[user(str(n))], expect=Absent()) for n in range(8))
        results = await asyncio.gather(*tasks, return_exceptions=True)

        assert sum(isinstance(result, Committed) for result in results) == 1
        assert sum(isinstance(result, ThreadExists) for result in results) == 7

    @pytest.mark.promise("S-04")
    async def test_many_tasks_may_make_sure_that_a_thread_exists(self, db: Database) -> None:
        await asyncio.gather(*(db.create("new", exist_ok=True) for _ in range(8)))
        await asyncio.gather(*(db.thread("new").append(items=[user(n)]) for n in range(8)))

        assert sorted(contents_of(await db.thread("new").items())) == list(range(8))

    @pytest.mark.promise("T-03")
    async def test_all_of_a_changeset_is_kept(self, thread: Thread) -> None:
        await thread.append(FULL_CHANGESET)

        (change,) = await thread.changesets()
        assert without_store_fields(change) == FULL_CHANGESET

    @pytest.mark.promise("T-03")
    async def test_all_of_a_changeset_is_kept_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            thread = await db.create("thread")
            commit = await thread.append(FULL_CHANGESET)
        async with self.reopen(opening, clock) as db:
            (change,) = await db.thread("thread").changesets()

        assert without_store_fields(change) == FULL_CHANGESET
        assert (change.version, change.time, change.hash) == (1, commit.time, commit.hash)

    @pytest.mark.promise("T-03")
    async def test_a_changeset_knows_its_version_time_and_hash(self, thread: Thread, clock: Clock) -> None:
        clock.advance(1000)
        commit = await thread.append(FULL_CHANGESET)

        (change,) = await thread.changesets()
        assert (change.version, change.time, change.hash) == (1, clock.now, commit.hash)

    @pytest.mark.promise("T-03")
    async def test_items_of_several_logs_come_back_in_the_order_given(self, thread: Thread) -> None:
        logs = ["transcript", "history", "transcript", "notes", "history"]
        await thread.append(items=[Item(body=n, log=log) for n, log in enumerate(logs)])

        (change,) = await thread.changesets()
        assert [(item.body, item.log) for item in change.items] == list(enumerate(logs))

    @pytest.mark.promise("T-03", "T-06")
    async def test_an_empty_changeset_is_a_version_too(self, thread: Thread) -> None:
        commit = await thread.append(Changeset(reason="RunFinished", run_id="r"))

        (change,) = await thread.changesets()
        assert (commit.version, change.reason, change.run_id, change.items) == (1, "RunFinished", "r", ())

    @pytest.mark.promise("T-04")
    async def test_a_changeset_that_was_refused_can_be_committed_unchanged(self, thread: Thread) -> None:
        await thread.append(items=[user("first")])
        with pytest.raises(VersionConflict):
            await thread.append(FULL_CHANGESET, expect=Exact(0))
        commit = await thread.append(FULL_CHANGESET, expect=Exact(1))

        change = (await thread.changesets())[-1]
        assert (commit.version, without_store_fields(change)) == (2, FULL_CHANGESET)

    @pytest.mark.promise("T-06")
    async def test_a_snapshot_replaces_the_state_before_the_patches_apply(self, thread: Thread) -> None:
        await thread.append(patches=[patch.set(["old"], 1), patch.set(["n"], 10)])
        await thread.append(snapshot={"n": 1}, patches=[patch.increment(["n"], 5)])

        assert await thread.state() == {"n": 6}

    @pytest.mark.promise("T-06", "T-13")
    async def test_a_snapshot_replaces_the_state_before_the_patches_apply_for_later_readers(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            thread = await db.create("thread")
            await thread.append(snapshot={"n": 1}, patches=[patch.increment(["n"], 5)])
        async with self.reopen(opening, clock) as db:
            state = await db.thread("thread").state()

        assert state == {"n": 6}

    @pytest.mark.promise("T-06")
    async def test_an_empty_snapshot_empties_the_state(self, thread: Thread) -> None:
        await thread.append(patches=[patch.set(["old"], 1)])
        await thread.append(snapshot={})

        assert await thread.state() == {}

    @pytest.mark.promise("T-06")
    async def test_an_ordinary_changeset_holds_no_snapshot(self, thread: Thread) -> None:
        for n in range(5):
            await thread.append(
                items=[assistant("x" * 3000)], patches=[patch.set(["n"], "y" * 3000 + str(n))]
            )

        assert [change.snapshot for change in await thread.changesets()] == [None] * 5

    @pytest.mark.promise("T-01")
    async def test_one_commit_may_append_to_a_thread_twice(self, db: Database, thread: Thread) -> None:
        writes = [
            AppendTo(thread="thread", change=Changeset(patches=(patch.increment(["n"]),)), expect=Exact(at))
            for at in (0, 1)
        ]
        results = await db.commit(writes)

        assert [result.version for result in results if isinstance(result, Committed)] == [1, 2]
        assert await thread.state() == {"n": 2}

    @pytest.mark.promise("T-01")
    async def test_what_was_appended_is_not_shared_with_the_caller(self, thread: Thread) -> None:
        body, value = {"content": ["a"]}, {"list": [1]}
        await thread.append(items=[Item(body=body)], patches=[patch.set(["v"], value)])
        body["content"].append("b")
        value["list"].append(2)
        (await thread.state())["v"]["list"].append(3)

        assert (await thread.items())[0].body == {"content": ["a"]}
        assert await thread.state() == {"v": {"list": [1]}}
