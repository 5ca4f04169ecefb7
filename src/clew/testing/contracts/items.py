"""Items: windows, atomic batches, taking away, records that cannot be read."""

# ruff: noqa: D102 - tests are named by sentences.

import pytest

from clew.core.errors import InvalidArgument, InvalidValue, LogFull, StoreDamaged
from clew.core.items import user
from clew.core.values import HISTORY, Absent, Item
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.common import contents_of, thread_dump
from clew.testing.damage import Damage
from clew.testing.fixtures import StoreFixtures, StoreOpener

UNREADABLE = b"\xff{not json"


async def append_numbers(thread: Thread, count: int, batch: int = 3) -> None:
    """Append messages 0, 1, 2 … in batches."""
    for start in range(0, count, batch):
        await thread.append(items=[user(n) for n in range(start, min(start + batch, count))])


class WindowContract(StoreFixtures):
    """Tests of reading items."""

    @pytest.mark.promise("S-01")
    @pytest.mark.parametrize("last", [0, 1, 2, 5, 10, 11, 1000])
    async def test_the_latest_few_come_oldest_first(self, thread: Thread, last: int) -> None:
        await append_numbers(thread, 10)

        assert contents_of(await thread.items(last=last)) == list(range(10))[-last or 10 :]

    @pytest.mark.promise("S-01")
    @pytest.mark.parametrize("first", [0, 1, 4, 10, 1000])
    async def test_the_earliest_few_come_oldest_first(self, thread: Thread, first: int) -> None:
        await append_numbers(thread, 10)

        assert contents_of(await thread.items(first=first)) == list(range(10))[:first]

    @pytest.mark.promise("S-01")
    async def test_items_of_one_moment_keep_their_order(self, thread: Thread) -> None:
        await thread.append(items=[user(n) for n in range(50)])
        await thread.append(items=[user(n) for n in range(50, 100)])

        assert contents_of(await thread.items()) == list(range(100))
        assert contents_of(await thread.items(last=60)) == list(range(40, 100))

    @pytest.mark.promise("S-01")
    async def test_a_long_window_is_whole(self, thread: Thread) -> None:
        await append_numbers(thread, 700, batch=100)

        assert contents_of(await thread.items()) == list(range(700))
        assert contents_of(await thread.items(last=600)) == list(range(100, 700))

    @pytest.mark.promise("S-01", "B-12")
    async def test_items_at_some_places_are_those_that_a_window_shows(
        self, db: Database, thread: Thread
    ) -> None:
        await append_numbers(thread, 100, batch=50)
        await thread.log().pop()
        fork = await thread.fork("fork")
        await fork.log().pop()
        await append_numbers(fork, 3)
        places = [item.place for item in await fork.items(whole=True)]
        wanted = [(id, HISTORY, place) for id in (thread.id, "fork", "absent") for place in places]
        items = await db.search_index.read(wanted)

        for each in (thread, fork):
            window = {(each.id, HISTORY, item.place): item for item in await each.items()}
            assert {key: item for key, item in items.items() if key[0] == each.id} == window
        assert {key[0] for key in items} == {thread.id, "fork"}

    @pytest.mark.promise("S-01")
    async def test_items_between_two_places(self, thread: Thread) -> None:
        await append_numbers(thread, 10)
        places = [item.place for item in await thread.items()]

        assert contents_of(await thread.items(after=places[2], before=places[7])) == [3, 4, 5, 6]
        assert contents_of(await thread.items(after=places[2], first=2)) == [3, 4]
        assert contents_of(await thread.items(before=places[7], last=2)) == [5, 6]

    @pytest.mark.promise("S-01")
    async def test_places_far_out_of_the_log_are_fine(self, thread: Thread) -> None:
        await append_numbers(thread, 3)

        assert contents_of(await thread.items(after=-(2**70), before=2**70)) == [0, 1, 2]
        assert contents_of(await thread.items(after=2**70)) == []

    @pytest.mark.promise("S-01")
    async def test_the_last_and_the_first_cannot_be_asked_for_together(self, thread: Thread) -> None:
        with pytest.raises(InvalidArgument):
            await thread.items(last=1, first=1)

    @pytest.mark.promise("S-01", "S-05")
    async def test_logs_are_apart(self, thread: Thread) -> None:
        await thread.append(items=[user("a"), Item(body={"content": "n"}, log="notes"), user("b")])
        await thread.log("notes").pop()

        assert contents_of(await thread.items()) == ["a", "b"]
        assert contents_of(await thread.items(log="notes")) == []
        assert contents_of(await thread.items(log="notes", at=1)) == ["n"]

    @pytest.mark.promise("S-01")
    async def test_the_head_knows_how_long_a_log_is(self, thread: Thread) -> None:
        await append_numbers(thread, 7)
        await thread.log().pop()

        head = await thread.head()
        assert (head.length(), head.length("notes")) == (6, 0)

    @pytest.mark.promise("S-07")
    async def test_nothing_of_the_store_is_in_a_body(self, thread: Thread) -> None:
        body = {"role": "user", "content": "Hi"}
        await thread.append(items=[Item(body=body, format="openai.responses")])

        (item,) = await thread.items()
        assert (item.body, item.id, item.call, item.run) == (body, None, None, None)

    @pytest.mark.promise("S-01")
    async def test_items_are_found_by_their_ids_however_old(self, thread: Thread) -> None:
        await thread.append(items=[user("first", id="m-1"), user("second", id="m-2")])
        await append_numbers(thread, 30)
        fork = await thread.fork("fork")
        await fork.append(items=[user("own", id="m-3")])
        await fork.log().clear()

        assert contents_of(await fork.items_by_id(["m-1", "m-3", "nobody"])) == ["first", "own"]
        assert contents_of(await thread.items_by_id(["m-1", "m-3"])) == ["first"]

    @pytest.mark.promise("S-02")
    async def test_a_batch_stands_in_the_order_given(self, thread: Thread) -> None:
        batch = [user(f"{n}") for n in (3, 1, 2, 1)]
        await thread.append(items=batch)

        assert contents_of(await thread.items()) == ["3", "1", "2", "1"]

    @pytest.mark.promise("S-02")
    async def test_a_batch_with_one_bad_item_leaves_history_as_it_was(self, thread: Thread) -> None:
        await append_numbers(thread, 3)
        before = await thread_dump(thread)

        with pytest.raises(InvalidValue, match=r"items\[2\]"):
            await thread.append(items=[user("a"), user("b"), user(float("nan"))])
        assert await thread_dump(thread) == before


class TakingContract(StoreFixtures):
    """Tests of removing items by changesets."""

    @pytest.mark.promise("S-03")
    async def test_a_pop_takes_the_newest_item(self, thread: Thread) -> None:
        await append_numbers(thread, 3)
        items = [await thread.log().pop(), await thread.log().pop()]

        assert contents_of(item for item in items if item) == [2, 1]
        assert contents_of(await thread.items()) == [0]

    @pytest.mark.promise("S-03")
    async def test_a_pop_of_nothing_is_nothing(self, thread: Thread) -> None:
        item = await thread.log().pop()

        assert (item, (await thread.head()).version) == (None, 0)

    @pytest.mark.promise("S-03")
    async def test_a_pop_is_a_changeset_and_the_past_stays_readable(self, thread: Thread) -> None:
        await append_numbers(thread, 3)
        await thread.log().pop()

        assert [change.reason for change in await thread.changesets()] == ["append", "Pop"]
        assert contents_of(await thread.items(at=1)) == [0, 1, 2]

    @pytest.mark.promise("S-03")
    async def test_a_clear_is_a_changeset_and_the_past_stays_readable(self, thread: Thread) -> None:
        await append_numbers(thread, 6)
        await thread.log().clear()
        await append_numbers(thread, 2)

        assert contents_of(await thread.items()) == [0, 1]
        assert contents_of(await thread.items(at=2)) == [0, 1, 2, 3, 4, 5]
        assert contents_of(await thread.items(at=3)) == []
        assert (await thread.head()).length() == 2

    @pytest.mark.promise("S-03")
    async def test_a_clear_of_nothing_is_nothing(self, thread: Thread) -> None:
        commit = await thread.log().clear()

        assert (commit, (await thread.head()).version) == (None, 0)

    @pytest.mark.promise("S-03")
    async def test_items_after_pops_are_read_across_the_gaps(self, thread: Thread) -> None:
        for n in range(8):
            await thread.append(items=[user(n)])
            if n % 2:
                await thread.log().pop()

        assert contents_of(await thread.items()) == [0, 2, 4, 6]
        assert contents_of(await thread.items(last=3)) == [2, 4, 6]
        assert contents_of(await thread.items(first=3)) == [0, 2, 4]

    @pytest.mark.promise("S-03")
    async def test_a_compaction_puts_a_summary_before_what_is_kept(self, thread: Thread) -> None:
        await append_numbers(thread, 6)
        await thread.log().compact([user("summary")], keep=2)
        await thread.append(items=[user(6)])

        assert contents_of(await thread.items()) == ["summary", 4, 5, 6]
        assert contents_of(await thread.items(last=2)) == [5, 6]
        assert contents_of(await thread.items(at=2)) == [0, 1, 2, 3, 4, 5]

    @pytest.mark.promise("S-03")
    async def test_compactions_follow_one_another(self, thread: Thread) -> None:
        await append_numbers(thread, 6)
        await thread.log().compact([user("one"), user("two")], keep=2)
        await thread.log().compact([user("three")], keep=2)
        await thread.log().compact([user("four")], keep=0)

        assert contents_of(await thread.items()) == ["four"]
        assert contents_of(await thread.items(at=3)) == ["one", "two", 4, 5]
        assert contents_of(await thread.items(at=4)) == ["three", 4, 5]
        assert (await thread.verify()).ok

    @pytest.mark.promise("S-03")
    async def test_a_clear_takes_a_summary_at_the_end_too(self, thread: Thread) -> None:
        await append_numbers(thread, 3)
        await thread.log().compact([user("summary")], keep=0)
        await thread.log().clear()

        assert contents_of(await thread.items()) == []
        assert (await thread.verify()).ok

    @pytest.mark.promise("S-03")
    @pytest.mark.parametrize("keep", [3, 4, 100])
    async def test_a_compaction_that_keeps_everything_is_refused(self, thread: Thread, keep: int) -> None:
        await append_numbers(thread, 3)

        with pytest.raises(InvalidArgument):
            await thread.log().compact([user("summary")], keep=keep)
        assert contents_of(await thread.items()) == [0, 1, 2]

    @pytest.mark.promise("S-01")
    async def test_an_item_may_be_put_between_two(self, thread: Thread) -> None:
        await append_numbers(thread, 3)
        place = (await thread.items())[0].place + 1
        await thread.append(items=[Item(body={"content": "between"}, place=place)])

        assert contents_of(await thread.items()) == [0, "between", 1, 2]
        assert contents_of(await thread.items(at=1)) == [0, 1, 2]

    @pytest.mark.promise("S-02")
    async def test_two_items_cannot_stand_in_one_place(self, thread: Thread) -> None:
        await append_numbers(thread, 3)
        place = (await thread.items())[0].place + 1
        item = Item(body={"content": "between"}, place=place)
        before = await thread_dump(thread)

        with pytest.raises(LogFull):
            await thread.append(items=[item, item])
        assert await thread_dump(thread) == before
        await thread.append(items=[item])
        with pytest.raises(LogFull):
            await thread.append(items=[item])

    @pytest.mark.promise("S-02")
    async def test_an_item_cannot_be_put_into_what_was_cut(self, thread: Thread) -> None:
        await append_numbers(thread, 3)
        place = (await thread.items())[0].place + 1
        await thread.log().clear()

        with pytest.raises(LogFull):
            await thread.append(items=[Item(body={"content": "lost"}, place=place)])

    @pytest.mark.promise("S-03")
    async def test_what_was_taken_stays_taken_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            thread = await db.create("thread")
            await append_numbers(thread, 6)
            await thread.log().compact([user("summary")], keep=3)
            await thread.log().pop()
            dump = await thread_dump(thread)
        async with self.reopen(opening, clock) as db:
            again = await thread_dump(db.thread("thread"))
            texts = contents_of(await db.thread("thread").items())

        assert again == dump
        assert texts == ["summary", 3, 4]


class BrokenContract(StoreFixtures):
    """Tests of an unreadable record: its neighbours are not affected."""

    @pytest.mark.promise("S-06")
    async def test_a_corrupt_item_is_reported_and_hides_nothing(
        self, thread: Thread, damage: Damage | None
    ) -> None:
        await append_numbers(thread, 5)
        place = (await thread.items())[2].place
        await self.require_damage(damage).rewrite("thread", "history", place, UNREADABLE)

        window = await thread.items()
        assert contents_of(window) == [0, 1, 3, 4]
        assert [(entry.log, entry.place, entry.version) for entry in window.broken] == [("history", place, 1)]
        assert window.broken[0].problem

    @pytest.mark.promise("S-06")
    async def test_the_latest_few_are_the_latest_that_can_be_read(
        self, thread: Thread, damage: Damage | None
    ) -> None:
        await append_numbers(thread, 6)
        places = [item.place for item in await thread.items()]
        for at in (3, 5):
            await self.require_damage(damage).rewrite("thread", "history", places[at], UNREADABLE)

        window = await thread.items(last=3)
        assert contents_of(window) == [1, 2, 4]
        assert [entry.place for entry in window.broken] == [places[3], places[5]]

    @pytest.mark.promise("S-06")
    async def test_a_pop_passes_over_a_corrupt_item_and_spares_its_neighbours(
        self, thread: Thread, damage: Damage | None
    ) -> None:
        await append_numbers(thread, 3)
        place = (await thread.items())[2].place
        await self.require_damage(damage).rewrite("thread", "history", place, UNREADABLE)
        item = await thread.log().pop()

        window = await thread.items()
        assert item is not None
        assert contents_of([item]) == [1]
        assert contents_of(window) == [0]
        assert [entry.place for entry in window.broken] == [place]

    @pytest.mark.promise("S-06")
    async def test_a_clear_takes_corrupt_items_too(self, thread: Thread, damage: Damage | None) -> None:
        await append_numbers(thread, 3)
        place = (await thread.items())[1].place
        await self.require_damage(damage).rewrite("thread", "history", place, UNREADABLE)
        await thread.log().clear()
        await append_numbers(thread, 1)

        window = await thread.items()
        assert (contents_of(window), window.broken, (await thread.head()).length()) == ([0], (), 1)

    @pytest.mark.promise("S-06")
    async def test_a_compaction_counts_corrupt_items(self, thread: Thread, damage: Damage | None) -> None:
        await append_numbers(thread, 4)
        place = (await thread.items())[1].place
        await self.require_damage(damage).rewrite("thread", "history", place, UNREADABLE)
        await thread.log().compact([user("summary")], keep=1)

        assert contents_of(await thread.items()) == ["summary", 3]
        assert (await thread.head()).length() == 2

    @pytest.mark.promise("S-06")
    async def test_a_corrupt_item_is_still_there_when_appending_goes_on(
        self, db: Database, damage: Damage | None
    ) -> None:
        thread = db.thread("thread")
        await thread.append(items=[user("a"), user("b")], expect=Absent())
        place = (await thread.items())[1].place
        await self.require_damage(damage).rewrite("thread", "history", place, UNREADABLE)
        await thread.append(items=[user("c")])

        assert contents_of(await thread.items()) == ["a", "c"]
        assert [contents_of(change.items) for change in await thread.changesets()] == [["a"], ["c"]]

    @pytest.mark.promise("S-06")
    async def test_a_corrupt_thread_hides_no_other_in_a_list(
        self, db: Database, damage: Damage | None
    ) -> None:
        for id in ("a", "b", "c"):
            await (await db.create(id)).append(items=[user("word")])
        await self.require_damage(damage).spoil("b")
        page = await db.threads()
        pages = [await db.threads(limit=1)]
        while (cursor := pages[-1].next) is not None:
            pages.append(await db.threads(limit=1, after=cursor))

        assert ({summary.id for summary in page.threads}, list(page.broken)) == ({"a", "c"}, ["b"])
        assert sum(len(one.threads) for one in pages) == 2
        assert [id for one in pages for id in one.broken] == ["b"]

    @pytest.mark.promise("S-06", "B-06")
    async def test_a_corrupt_thread_is_named_by_its_reader(self, db: Database, damage: Damage | None) -> None:
        thread = await db.create("b")
        await thread.append(items=[user("word")])
        await self.require_damage(damage).spoil("b")

        with pytest.raises(StoreDamaged):
            await thread.head()
        assert not (await thread.verify()).ok

    @pytest.mark.promise("S-06")
    @pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "tail"])
    async def test_a_corrupt_thread_hides_no_other_from_a_search(
        self, db: Database, damage: Damage | None, *, indexed: bool
    ) -> None:
        for id in ("a", "b", "c"):
            await (await db.create(id)).append(items=[user("word")])
        if indexed:
            await db.index()
        await self.require_damage(damage).spoil("b")
        await db.index()

        assert sorted(hit.thread for hit in await db.search("word")) == ["a", "c"]
