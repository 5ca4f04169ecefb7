"""Time travel: any past version, replay, differences."""

# ruff: noqa: D102 - tests are named by sentences.

import pytest

from clew.core import patch
from clew.core.errors import VersionNotFound
from clew.core.items import user
from clew.core.ops import apply_ops
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.common import canonical_bytes, contents_of, replay_state
from clew.testing.fixtures import StoreFixtures, StoreOpener


async def append_versions(thread: Thread, versions: int = 40) -> None:
    """Give a thread a past long enough for several anchors, with a snapshot in the middle."""
    for n in range(versions):
        text = f"{n}-" + "words " * 100
        await thread.append(
            items=[user(n)],
            snapshot={"n": -1, "kept": {}} if n == versions // 2 else None,
            patches=[
                patch.set(["n"], n),
                patch.set(["kept", str(n % 7)], text),
                patch.append(["list"], n),
            ],
        )


class TimeTravelContract(StoreFixtures):
    """Tests of reading the past."""

    @pytest.mark.promise("T-13")
    async def test_replaying_the_changesets_gives_the_head_to_the_byte(self, thread: Thread) -> None:
        await append_versions(thread)

        assert canonical_bytes(replay_state(await thread.changesets())) == canonical_bytes(
            await thread.state()
        )

    @pytest.mark.promise("T-13")
    async def test_replaying_gives_every_version_to_the_byte(self, thread: Thread) -> None:
        await append_versions(thread)
        changes = await thread.changesets()

        for version in range(41):
            state = await thread.state(at=version)
            assert canonical_bytes(state) == canonical_bytes(replay_state(changes[:version]))

    @pytest.mark.promise("T-13")
    async def test_replay_equals_the_head_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            await append_versions(await db.create("thread"))
        async with self.reopen(opening, clock) as db:
            thread = db.thread("thread")
            await thread.append(patches=[patch.increment(["n"], 1)])
            state, changes = await thread.state(), await thread.changesets()

        assert canonical_bytes(state) == canonical_bytes(replay_state(changes))

    @pytest.mark.promise("T-13")
    async def test_items_are_those_of_the_version(self, thread: Thread) -> None:
        for n in range(6):
            await thread.append(items=[user([n, 0]), user([n, 1])])

        for version in range(7):
            window = await thread.items(at=version)
            assert contents_of(window) == [[n, m] for n in range(version) for m in range(2)]
            assert window.version == version

    @pytest.mark.promise("T-13")
    async def test_a_past_head_is_what_it_was(self, thread: Thread, clock: Clock) -> None:
        heads = [await thread.head()]
        for n in range(5):
            clock.advance(10)
            await thread.append(items=[user(n)], patches=[patch.increment(["n"])])
            heads.append(await thread.head())

        assert [await thread.head(at=head.version) for head in heads] == heads

    @pytest.mark.promise("T-13")
    async def test_the_state_before_the_first_changeset_is_empty(self, thread: Thread) -> None:
        await thread.append(snapshot={"a": 1})

        assert await thread.state(at=0) == {}

    @pytest.mark.promise("T-13")
    @pytest.mark.parametrize("at", [-1, 3, 2**40, 2**70])
    async def test_a_version_that_does_not_exist_is_named(self, thread: Thread, at: int) -> None:
        await thread.append(items=[user("one")])
        await thread.append(items=[user("two")])

        for read in (thread.state(at=at), thread.items(at=at), thread.head(at=at)):
            with pytest.raises(VersionNotFound) as caught:
                await read
            assert (caught.value.version, caught.value.head) == (at, 2)

    @pytest.mark.promise("T-13")
    async def test_changesets_are_read_in_pages(self, thread: Thread) -> None:
        for n in range(9):
            await thread.append(items=[user(n)])

        pages = [await thread.changesets(after=after, limit=4) for after in (0, 4, 8, 9, 100)]
        assert [[change.version for change in page] for page in pages] == [
            [1, 2, 3, 4],
            [5, 6, 7, 8],
            [9],
            [],
            [],
        ]

    @pytest.mark.promise("T-13")
    async def test_changesets_are_read_up_to_a_version(self, thread: Thread) -> None:
        for n in range(5):
            await thread.append(items=[user(n)])

        assert [change.version for change in await thread.changesets(after=1, upto=3)] == [2, 3]

    @pytest.mark.promise("B-03")
    async def test_the_difference_of_two_versions_leads_from_one_to_the_other(self, thread: Thread) -> None:
        await append_versions(thread, 12)

        for before, after in [(0, 12), (3, 9), (9, 3), (7, 7)]:
            ops = await thread.diff(before, after)
            state = apply_ops(await thread.state(at=before), ops)
            assert canonical_bytes(state) == canonical_bytes(await thread.state(at=after))

    @pytest.mark.promise("B-03")
    async def test_the_difference_is_small(self, thread: Thread) -> None:
        await thread.append(snapshot={"a": {"x": 1, "y": [1, 2]}, "b": "same"})
        await thread.append(patches=[patch.append(["a", "y"], 3), patch.delete(["a", "x"])])

        assert await thread.diff(1, 2) == [patch.delete(["a", "x"]), patch.append(["a", "y"], 3)]

    @pytest.mark.promise("S-07")
    async def test_the_creation_time_is_kept_and_the_update_time_advances(
        self, db: Database, thread: Thread, clock: Clock
    ) -> None:
        creation = clock.now
        times = []
        for n in range(3):
            clock.advance(100)
            await thread.append(items=[user(n)])
            times.append(clock.now)

        head, (summary,) = await thread.head(), (await db.threads()).threads
        assert (head.created, head.updated) == (summary.created, summary.updated) == (creation, times[-1])
        assert [change.time for change in await thread.changesets()] == times

    @pytest.mark.promise("S-07")
    async def test_an_item_has_the_time_it_was_appended_at(self, thread: Thread, clock: Clock) -> None:
        times = []
        for n in range(3):
            clock.advance(100)
            await thread.append(items=[user(n)])
            times.append(clock.now)
        clock.advance(100)
        await thread.log().pop()

        assert [item.time for item in await thread.items()] == times[:2]
        assert [item.time for item in await thread.items(at=3)] == times

    @pytest.mark.promise("S-07", "B-03")
    async def test_a_fork_is_born_when_it_is_made(self, db: Database, thread: Thread, clock: Clock) -> None:
        creation = clock.now
        clock.advance(100)
        await thread.append(items=[user("word")])
        append_time = clock.now
        clock.advance(100)
        fork = await thread.fork("fork")
        times = [(head.created, head.updated) for head in (await thread.head(), await fork.head())]

        assert times == [(creation, append_time), (clock.now, clock.now)]
        assert [item.time for item in await fork.items()] == [append_time]

    @pytest.mark.promise("S-07")
    async def test_time_never_runs_backwards_when_the_clock_does(self, thread: Thread, clock: Clock) -> None:
        clock.advance(1000)
        await thread.append(items=[user("late")])
        clock.advance(-5000)
        await thread.append(items=[user("later")])

        first, second = await thread.changesets()
        assert second.time == first.time == (await thread.head()).updated
