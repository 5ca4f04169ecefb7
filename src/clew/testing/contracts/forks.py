"""Forks: standing on another thread's versions, going one's own way, outliving it."""

# ruff: noqa: D102 - tests are named by sentences.

import pytest

from clew.core import patch
from clew.core.errors import ThreadExists, ThreadNotFound, VersionConflict, VersionNotFound
from clew.core.items import user
from clew.core.ops import apply_ops, diff
from clew.core.values import Exact, Parent
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.common import canonical_bytes, contents_of, replay_state, thread_dump
from clew.testing.fixtures import StoreFixtures, StoreOpener


async def append_turns(thread: Thread, name: str, count: int) -> None:
    """Append some changesets with an item and a patch each."""
    for n in range(count):
        await thread.append(items=[user(f"{name}{n}")], patches=[patch.append(["seen"], f"{name}{n}")])


class ForkContract(StoreFixtures):
    """Tests of forking threads."""

    @pytest.mark.promise("B-03")
    async def test_a_fork_is_the_thread_as_it_was_at_any_version(self, thread: Thread) -> None:
        await append_turns(thread, "p", 5)

        for version in range(6):
            fork = await thread.fork(f"fork-{version}", at=version)
            head = await fork.head()
            assert (head.version, contents_of(await fork.items())) == (
                version,
                [f"p{n}" for n in range(version)],
            )
            assert canonical_bytes(head.state) == canonical_bytes(await thread.state(at=version))

    @pytest.mark.promise("B-03")
    async def test_a_fork_knows_where_it_comes_from(self, thread: Thread) -> None:
        await append_turns(thread, "p", 3)
        fork = await thread.fork("fork", at=2)

        assert (await fork.head()).parent == Parent(thread="thread", version=2)

    @pytest.mark.promise("B-03")
    async def test_a_fork_without_a_version_stands_on_the_head(self, thread: Thread) -> None:
        await append_turns(thread, "p", 3)
        fork = await thread.fork("fork")

        assert (await fork.head()).version == 3

    @pytest.mark.promise("B-03")
    async def test_thread_and_fork_go_their_own_ways(self, thread: Thread) -> None:
        await append_turns(thread, "p", 2)
        fork = await thread.fork("fork", at=1)
        await append_turns(fork, "f", 2)
        await append_turns(thread, "q", 1)

        assert contents_of(await thread.items()) == ["p0", "p1", "q0"]
        assert contents_of(await fork.items()) == ["p0", "f0", "f1"]
        assert (await fork.state())["seen"] == ["p0", "f0", "f1"]

    @pytest.mark.promise("B-03", "T-13")
    async def test_every_version_of_a_fork_of_a_fork_can_be_read(self, thread: Thread) -> None:
        await append_turns(thread, "a", 4)
        middle = await thread.fork("middle", at=3)
        await append_turns(middle, "b", 3)
        last = await middle.fork("last", at=5)
        await append_turns(last, "c", 2)

        whole = ["a0", "a1", "a2", "b0", "b1", "c0", "c1"]
        changes = await last.changesets()
        assert [contents_of(change.items) for change in changes] == [[text] for text in whole]
        for version in range(8):
            assert contents_of(await last.items(at=version)) == whole[:version]
            assert canonical_bytes(await last.state(at=version)) == canonical_bytes(
                replay_state(changes[:version])
            )

    @pytest.mark.promise("B-03")
    async def test_a_fork_of_a_fork_may_stand_on_what_the_fork_inherited(self, thread: Thread) -> None:
        await append_turns(thread, "a", 4)
        middle = await thread.fork("middle", at=3)
        await append_turns(middle, "b", 2)
        low = await middle.fork("low", at=2)
        await append_turns(low, "c", 1)

        assert contents_of(await low.items()) == ["a0", "a1", "c0"]
        assert (await low.verify()).ok

    @pytest.mark.promise("B-03")
    async def test_a_window_of_a_fork_spans_its_ancestors(self, thread: Thread) -> None:
        await append_turns(thread, "a", 4)
        fork = await thread.fork("fork", at=3)
        await append_turns(fork, "b", 2)

        assert contents_of(await fork.items(last=4)) == ["a1", "a2", "b0", "b1"]
        assert contents_of(await fork.items(first=4)) == ["a0", "a1", "a2", "b0"]

    @pytest.mark.promise("B-03")
    async def test_a_very_deep_lineage_is_whole(self, db: Database, thread: Thread) -> None:
        await append_turns(thread, "t", 1)
        here, texts = thread, ["t0"]
        for depth in range(40):
            here = await here.fork(f"fork-{depth}")
            await append_turns(here, f"{depth}-", 1)
            texts.append(f"{depth}-0")

        assert contents_of(await here.items()) == texts
        assert (await here.state())["seen"] == texts
        assert (await here.verify()).problems == ()
        assert [contents_of(await here.items(at=v)) for v in (1, 17, 30)] == [texts[:v] for v in (1, 17, 30)]

    @pytest.mark.promise("B-03")
    async def test_a_very_deep_lineage_keeps_its_cuts_apart(self, thread: Thread) -> None:
        await append_turns(thread, "t", 3)
        here = thread
        for depth in range(20):
            here = await here.fork(f"fork-{depth}")
            await append_turns(here, f"{depth}-", 1)
            await here.log().pop()
        await thread.log().clear()

        assert contents_of(await here.items()) == ["t0", "t1", "t2"]
        assert contents_of(await here.items(at=4)) == ["t0", "t1", "t2", "0-0"]
        assert (await here.verify()).problems == ()

    @pytest.mark.promise("B-03", "S-03")
    @pytest.mark.parametrize("taking", ["pop", "clear", "compact"])
    async def test_what_the_parent_takes_away_later_stays_in_the_fork(
        self, thread: Thread, taking: str
    ) -> None:
        await append_turns(thread, "p", 4)
        await thread.log().pop()
        fork = await thread.fork("fork")
        await append_turns(fork, "f", 1)
        before = await thread_dump(fork)
        match taking:
            case "pop":
                await thread.log().pop()
            case "clear":
                await thread.log().clear()
            case _:
                await thread.log().compact([user("summary")], keep=1)

        assert await thread_dump(fork) == before
        assert contents_of(await fork.items()) == ["p0", "p1", "p2", "f0"]

    @pytest.mark.promise("B-03", "S-03")
    @pytest.mark.parametrize("taking", ["pop", "clear", "compact"])
    async def test_what_the_fork_takes_away_stays_in_the_parent(self, thread: Thread, taking: str) -> None:
        await append_turns(thread, "p", 4)
        await thread.log().pop()
        fork = await thread.fork("fork")
        before = await thread_dump(thread)
        match taking:
            case "pop":
                await fork.log().pop()
                left = ["p0", "p1"]
            case "clear":
                await fork.log().clear()
                left = []
            case _:
                await fork.log().compact([user("summary")], keep=1)
                left = ["summary", "p2"]

        assert await thread_dump(thread) == before
        assert contents_of(await fork.items()) == left
        assert contents_of(await fork.items(at=4)) == ["p0", "p1", "p2", "p3"]
        assert contents_of(await fork.items(at=5)) == ["p0", "p1", "p2"]

    @pytest.mark.promise("B-03", "S-03")
    async def test_a_fork_before_a_cut_sees_what_was_cut(self, thread: Thread) -> None:
        await append_turns(thread, "p", 3)
        await thread.log().clear()
        await append_turns(thread, "q", 1)
        before, after = await thread.fork("before", at=3), await thread.fork("after", at=4)

        assert contents_of(await before.items()) == ["p0", "p1", "p2"]
        assert contents_of(await after.items()) == []

    @pytest.mark.promise("B-03")
    async def test_deleting_the_parent_leaves_its_forks_whole(self, db: Database, thread: Thread) -> None:
        await append_turns(thread, "a", 3)
        middle = await thread.fork("middle", at=2)
        await append_turns(middle, "b", 2)
        last = await middle.fork("last", at=3)
        dumps = [await thread_dump(middle), await thread_dump(last)]
        await thread.delete()

        assert [await thread_dump(middle), await thread_dump(last)] == dumps
        assert (await middle.verify()).ok
        await middle.delete()
        assert await thread_dump(last) == dumps[1]
        assert (await last.verify()).ok
        assert [summary.id for summary in (await db.threads()).threads] == ["last"]

    @pytest.mark.promise("B-03")
    async def test_the_id_of_a_deleted_parent_can_be_used_again(self, db: Database, thread: Thread) -> None:
        await append_turns(thread, "a", 2)
        fork = await thread.fork("fork")
        await thread.delete()
        again = await db.create("thread")
        await append_turns(again, "z", 1)

        assert contents_of(await again.items()) == ["z0"]
        assert contents_of(await fork.items()) == ["a0", "a1"]

    @pytest.mark.promise("B-03")
    async def test_a_deleted_thread_is_gone(self, db: Database, thread: Thread) -> None:
        await append_turns(thread, "a", 2)
        await thread.delete()

        with pytest.raises(ThreadNotFound):
            await thread.head()
        with pytest.raises(ThreadNotFound):
            await thread.append(items=[user("late")])
        assert (await db.threads()).threads == ()

    @pytest.mark.promise("T-02")
    async def test_a_thread_that_has_moved_on_is_not_deleted(self, thread: Thread) -> None:
        await append_turns(thread, "a", 2)

        with pytest.raises(VersionConflict):
            await thread.delete(expect=Exact(1))
        assert contents_of(await thread.items()) == ["a0", "a1"]
        await thread.delete(expect=Exact(2))

    @pytest.mark.promise("T-01")
    async def test_a_hash_tells_a_thread_from_another_of_its_id(self, db: Database, thread: Thread) -> None:
        await append_turns(thread, "a", 1)
        head = await thread.head()
        await thread.delete()
        await append_turns(await db.create("thread"), "b", 1)

        with pytest.raises(VersionConflict):
            await thread.append(items=[user("late")], expect=Exact(head.version, head.hash))
        with pytest.raises(VersionConflict):
            await thread.delete(expect=Exact(head.version, head.hash))
        assert contents_of(await thread.items()) == ["b0"]

    @pytest.mark.promise("B-03")
    async def test_forks_are_whole_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            thread = await db.create("thread")
            await append_turns(thread, "a", 3)
            fork = await thread.fork("fork", at=2)
            await fork.log().pop()
            await append_turns(fork, "b", 1)
            await thread.delete()
            dump = await thread_dump(fork)
        async with self.reopen(opening, clock) as db:
            again = await thread_dump(db.thread("fork"))
            verdict = await db.thread("fork").verify()

        assert again == dump
        assert verdict.ok

    @pytest.mark.promise("B-03")
    async def test_the_difference_of_two_branches_leads_from_one_to_the_other(self, thread: Thread) -> None:
        await append_turns(thread, "a", 2)
        fork = await thread.fork("fork", at=1)
        await fork.append(patches=[patch.set(["mood"], "calm"), patch.delete(["seen"])])
        ours, theirs = await thread.state(), await fork.state()

        assert canonical_bytes(apply_ops(ours, diff(ours, theirs))) == canonical_bytes(theirs)

    @pytest.mark.promise("B-03")
    async def test_a_fork_onto_a_taken_id_is_refused(self, db: Database, thread: Thread) -> None:
        await append_turns(thread, "a", 1)
        other = await db.create("other")
        before = await thread_dump(other)

        for id in ("other", "thread"):
            with pytest.raises(ThreadExists):
                await thread.fork(id)
        assert await thread_dump(other) == before

    @pytest.mark.promise("B-03")
    async def test_a_fork_at_a_version_from_the_future_is_refused(self, db: Database, thread: Thread) -> None:
        with pytest.raises(VersionNotFound):
            await thread.fork("fork", at=1)
        assert [summary.id for summary in (await db.threads()).threads] == ["thread"]

    @pytest.mark.promise("B-03")
    async def test_a_fork_of_no_thread_is_refused(self, db: Database) -> None:
        with pytest.raises(ThreadNotFound):
            await db.thread("nobody").fork("fork")
