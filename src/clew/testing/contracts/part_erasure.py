"""Erasing parts of a thread: markers replace them, and the thread can still be read and checked."""

# ruff: noqa: D102 - tests are named by sentences.

import pytest

from clew.core import patch
from clew.core.erasure.receipts import COMPLETE
from clew.core.errors import InvalidArgument, KeyReused, LegalHold, RecordNotFound
from clew.core.items import user
from clew.core.log.chain import commitment
from clew.core.log.commit import Plan
from clew.core.log.reader import read_thread
from clew.core.log.rows import AskItemsById, EraseParts, StoreRead, StoreWrite, ask
from clew.core.ports import Store
from clew.core.values import ERASED_KEY, Scope
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.damage import Damage
from clew.testing.fixtures import StoreFixtures


async def create_secret_thread(db: Database) -> Thread:
    """A thread whose items and state hold secrets, and a fork of it."""
    thread = await db.create("t", owner="alice")
    for number in range(6):
        patches = [patch.set(["last"], f"secret {number}"), patch.set(["n", str(number)], number)]
        await thread.append(
            items=[user(f"secret {number}", id=f"i{number}")], patches=patches, key=f"k{number}"
        )
    await (await thread.fork("fork", at=4)).append(items=[user("own")], patches=[patch.set(["own"], 1)])
    await db.index()
    return thread


class PartErasingContract(StoreFixtures):
    """Tests of erasing parts of a thread, which can still be read and verified."""

    @pytest.mark.promise("B-07", "B-06")
    async def test_an_erased_item_leaves_a_marker_here_and_in_forks(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        receipt = await thread.erase(["i1", "i3"])
        windows = [await db.thread(id).items() for id in ("t", "fork")]

        assert [[str(i.body["content"]) for i in w] for w in windows] == [
            ["secret 0", "secret 2", "secret 4", "secret 5"],
            ["secret 0", "secret 2", "own"],
        ]
        assert [[(b.place, b.erased) for b in w.broken] for w in windows] == [[(512, True), (1024, True)]] * 2
        assert (receipt.counts, receipt.status) == ({"items": 2, "changesets": 6}, COMPLETE)

    @pytest.mark.promise("T-13", "B-06")
    async def test_verify_names_what_was_erased_and_under_which_receipt(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        receipt = await thread.erase(["i1"], state=False)
        verdicts = [await db.thread(id).verify() for id in ("t", "fork")]

        name = f"item 512 of 'history' ({receipt.id})"
        assert [(v.problems, v.erased) for v in verdicts] == [((), (name,)), ((), (name,))]

    @pytest.mark.promise("T-13", "B-06")
    async def test_a_fork_of_a_version_before_the_erasure_is_whole(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        await thread.erase(["i1"])
        fork = await thread.fork("later", at=3)
        verdict = await fork.verify()

        assert (verdict.problems, len(verdict.erased)) == ((), 4)

    @pytest.mark.promise("B-06")
    async def test_a_body_taken_away_without_a_receipt_is_found(
        self, store: Store, db: Database, thread: Thread
    ) -> None:
        await thread.append(items=[user("secret", id="i")])
        row = await store.read(Scope(), read_thread("thread"))
        (item,) = await store.read(Scope(), ask(AskItemsById(row.key, ("i",), 1)))
        body_commitment = commitment(item.salt or b"", item.body or b"")
        write = EraseParts(key=row.key, items=(("history", item.place, body_commitment),))
        await store.change(Scope(), lambda context: plan_of([write]))
        verdict = await thread.verify()

        assert verdict.problems == ("item 256 of 'history' was erased, and no receipt says so",)

    @pytest.mark.promise("T-13", "B-07")
    async def test_the_newest_state_stays_and_the_past_is_marked(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        before = [await db.thread(id).state() for id in ("t", "fork")]
        await thread.erase(["i1"])

        assert [await db.thread(id).state() for id in ("t", "fork")] == before
        assert [await thread.state(at=version) for version in (1, 6)] == [{ERASED_KEY: True}] * 2
        assert [change.erased for change in await thread.changesets()] == [True] * 6 + [False]

    @pytest.mark.promise("T-13")
    async def test_what_comes_after_an_erasure_is_still_checked(
        self, db: Database, damage: Damage | None
    ) -> None:
        thread = await create_secret_thread(db)
        await thread.erase(["i1"])
        await thread.append(items=[user("later")], patches=[patch.set(["later"], 1)])
        whole = await thread.verify()
        place = (await thread.items(last=1))[0].place
        await self.require_damage(damage).rewrite("t", "history", place, b'{"content":9}')

        assert whole.ok
        assert not (await thread.verify()).ok

    @pytest.mark.promise("B-07")
    async def test_items_between_two_places_go(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        receipt = await thread.erase(after=256, before=1024, state=False)

        assert [item.id for item in await thread.items()] == ["i0", "i3", "i4", "i5"]
        assert receipt.counts == {"items": 2}

    @pytest.mark.promise("B-07")
    async def test_an_erased_item_cannot_be_searched_for(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        before = len(await db.search("secret"))
        await thread.erase(["i1"])

        assert (before, len(await db.search("secret"))) == (6, 5)

    @pytest.mark.promise("B-07", "B-02")
    async def test_an_idempotency_key_no_longer_tells_what_it_was_for(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        await thread.erase(["i1"])
        patches = [patch.set(["last"], "secret 1"), patch.set(["n", "1"], 1)]

        with pytest.raises(KeyReused):
            await thread.append(items=[user("secret 1", id="i1")], patches=patches, key="k1")

    @pytest.mark.promise("B-07")
    async def test_copies_of_a_very_deep_lineage_go_too(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        for depth in range(18):
            thread = await thread.fork(f"deep-{depth}")
            await thread.append(items=[user(f"level {depth}")], patches=[patch.set(["depth"], depth)])
        await db.thread("t").erase(["i1"])
        deepest = await thread.items()

        assert [(b.place, b.erased) for b in deepest.broken] == [(512, True)]
        assert (await thread.verify()).problems == ()
        assert (await thread.state())["depth"] == 17

    async def test_a_state_that_is_not_known_must_be_replaced_before_it_is_changed(
        self, db: Database
    ) -> None:
        thread = await create_secret_thread(db)
        await thread.erase(["i1"])
        fork = await thread.fork("later", at=3)

        with pytest.raises(InvalidArgument):
            await fork.append(patches=[patch.set(["n"], 1)])
        await fork.append(snapshot={"n": 0}, patches=[patch.set(["n"], 1)])
        assert await fork.state() == {"n": 1}
        assert (await fork.verify()).problems == ()

    async def test_an_item_that_is_not_there_is_named(self, db: Database) -> None:
        thread = await create_secret_thread(db)

        with pytest.raises(RecordNotFound) as caught:
            await thread.erase(["i1", "nothing"])
        assert caught.value.id == "nothing"
        assert len((await thread.items()).broken) == 0

    @pytest.mark.promise("B-07")
    async def test_a_hold_refuses_to_erase_parts(self, db: Database) -> None:
        thread = await create_secret_thread(db)
        await db.retention.hold(thread="fork", reason="case 12")

        with pytest.raises(LegalHold):
            await thread.erase(["i1"])
        assert len((await thread.items()).broken) == 0


def plan_of(writes: list[StoreWrite]) -> StoreRead[Plan]:
    """A plan of these effects, without a question."""
    yield from ()
    return Plan(writes=writes)
