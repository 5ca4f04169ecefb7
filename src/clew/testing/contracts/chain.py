"""The chain: an altered, dropped or reordered changeset is found."""

# ruff: noqa: D102 - tests are named by sentences.

import pytest

from clew.core import patch
from clew.core.items import user
from clew.core.log import reader
from clew.core.ports import Store
from clew.core.values import Changeset, Scope
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.travel import append_versions
from clew.testing.damage import Damage
from clew.testing.fixtures import StoreFixtures, StoreOpener


class ChainContract(StoreFixtures):
    """Tests of verify."""

    @pytest.mark.promise("B-06", "T-13")
    async def test_a_thread_nobody_touched_is_whole(self, thread: Thread) -> None:
        await append_versions(thread, 20)
        await thread.log().compact([user("summary")], keep=5)
        await thread.log().pop()
        await thread.append(Changeset(key="k", reason="RunFinished"))
        verdict = await thread.verify()

        head = await thread.head()
        assert (verdict.ok, verdict.problems, verdict.version, verdict.hash) == (
            True,
            (),
            23,
            head.hash.hex(),
        )

    @pytest.mark.promise("B-06")
    async def test_an_empty_thread_is_whole(self, thread: Thread) -> None:
        assert (await thread.verify()).problems == ()

    @pytest.mark.promise("B-06")
    async def test_a_fork_is_whole_before_and_after_its_first_changeset(self, thread: Thread) -> None:
        await append_versions(thread, 4)
        for version in range(5):
            fork = await thread.fork(f"fork-{version}", at=version)
            assert (await fork.verify()).problems == ()
            await fork.append(items=[user("own")])
            assert (await fork.verify()).problems == ()

    @pytest.mark.promise("B-06")
    async def test_a_thread_is_whole_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            await append_versions(await db.create("thread"), 10)
            first = await db.thread("thread").verify()
        async with self.reopen(opening, clock) as db:
            again = await db.thread("thread").verify()

        assert again == first
        assert again.ok

    @pytest.mark.promise("B-06")
    async def test_an_altered_item_is_found(self, thread: Thread, damage: Damage | None) -> None:
        for n in range(3):
            await thread.append(items=[user(n)])
        place = (await thread.items())[1].place
        await self.require_damage(damage).rewrite("thread", "history", place, b'{"content":9}')
        verdict = await thread.verify()

        assert not verdict.ok
        assert "version 2" in verdict.problems[0]

    @pytest.mark.promise("B-06", "S-06")
    async def test_a_corrupt_item_is_found(self, thread: Thread, damage: Damage | None) -> None:
        await thread.append(items=[user(n) for n in range(3)])
        place = (await thread.items())[1].place
        await self.require_damage(damage).rewrite("thread", "history", place, b"\xff")

        assert not (await thread.verify()).ok

    @pytest.mark.promise("B-06")
    @pytest.mark.parametrize("version", [1, 3, 4])
    async def test_a_dropped_changeset_is_found(
        self, thread: Thread, damage: Damage | None, version: int
    ) -> None:
        for n in range(5):
            await thread.append(patches=[patch.set(["n"], n)])
        await self.require_damage(damage).drop("thread", version)
        verdict = await thread.verify()

        assert any(f"{version}" in problem for problem in verdict.problems)

    @pytest.mark.promise("B-06")
    async def test_a_dropped_head_is_found_by_the_hash_kept_elsewhere(
        self, thread: Thread, damage: Damage | None
    ) -> None:
        for n in range(5):
            await thread.append(patches=[patch.set(["n"], n)])
        hash_before = (await thread.verify()).hash
        await self.require_damage(damage).drop("thread", 5)
        verdict = await thread.verify()

        assert verdict.problems or verdict.hash != hash_before

    @pytest.mark.promise("B-06")
    async def test_reordered_changesets_are_found(self, thread: Thread, damage: Damage | None) -> None:
        for n in range(5):
            await thread.append(patches=[patch.set([f"k{n}"], n)])
        await self.require_damage(damage).swap("thread", 2, 4)
        verdict = await thread.verify()

        assert any("version 2" in problem for problem in verdict.problems)

    @pytest.mark.promise("B-06", "B-03")
    async def test_damage_to_a_parent_is_found_from_its_fork(
        self, thread: Thread, damage: Damage | None
    ) -> None:
        for n in range(3):
            await thread.append(items=[user(n)])
        fork = await thread.fork("fork")
        early = await thread.fork("early", at=1)
        place = (await thread.items())[1].place
        await self.require_damage(damage).rewrite("thread", "history", place, b'{"content":9}')

        assert not (await fork.verify()).ok
        assert (await early.verify()).ok

    @pytest.mark.promise("B-06")
    async def test_the_same_words_have_salts_of_their_own(self, store: Store, thread: Thread) -> None:
        for _ in range(3):
            await thread.append(items=[user("yes"), user("yes")], patches=[patch.set(["n"], 1)])
        row = await store.read(Scope(), reader.read_thread("thread"))
        log = await store.read(Scope(), reader.read_changeset_rows(row, 0, None, 10))

        salts = [change.salt for change, _ in log] + [item.salt for _, items in log for item in items]
        assert {len(salt or b"") for salt in salts} == {16}
        assert len(set(salts)) == 9

    @pytest.mark.promise("B-06")
    async def test_two_threads_with_the_same_words_have_different_hashes(self, thread: Thread) -> None:
        await thread.append(items=[user("yes")])
        await thread.append(items=[user("yes")])
        fork = await thread.fork("fork", at=0)
        await fork.append(items=[user("yes")])

        hashes = {change.hash for change in [*await thread.changesets(), *await fork.changesets()]}
        assert len(hashes) == 3
