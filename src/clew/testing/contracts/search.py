"""Search by words: what is indexed, what is not yet, what nobody may find."""

# ruff: noqa: D102, FBT001 - tests are named by sentences, and take fixtures.

import asyncio
import random

import pytest

from clew.core.items import assistant, call, result, user
from clew.core.ports import Store
from clew.core.values import Item, Scope
from clew.database.database import Database
from clew.database.search import index_threads
from clew.database.thread import Thread
from clew.stores.memory import MemoryStore
from clew.testing.fixtures import StoreFixtures

VOCABULARY = ("walk", "walked", "house", "houses", "red", "glass", "the", "of", "to", "a", "river", "stone")


async def search_texts(db: Database, query: str) -> list[str]:
    """The texts that a search finds, in order of the alphabet."""
    return sorted(hit.text for hit in await db.search(query))


class SearchContract(StoreFixtures):
    """Tests of searching texts."""

    @pytest.fixture(params=[True, False], ids=["indexed", "tail"])
    def indexed(self, request: pytest.FixtureRequest) -> bool:
        """Return whether the index holds what is searched, or not yet."""
        return bool(request.param)

    async def update_index(self, store: Store, indexed: bool) -> None:
        """Bring the index up to date, if the test is about the index."""
        if indexed:
            await index_threads(store, Scope())

    @pytest.mark.promise("T-14")
    async def test_what_was_ended_stands_in_nobodys_way(
        self, store: Store, db: Database, indexed: bool
    ) -> None:
        thread = await db.create("thread")
        await thread.append(items=[user("apple") for _ in range(30)])
        await thread.log().clear()
        await thread.append(items=[user("a long story of a tree and an apple")])
        await self.update_index(store, indexed)

        assert len(await db.search("apple", limit=1)) == 1
        assert len(await db.search("apple", limit=5)) == 1

    @pytest.mark.promise("T-14")
    async def test_items_are_found_by_all_of_the_words(
        self, store: Store, db: Database, indexed: bool
    ) -> None:
        thread = await db.create("thread")
        await thread.append(
            items=[user("the quick brown fox"), assistant("a lazy brown dog"), user("quick!")]
        )
        await self.update_index(store, indexed)

        assert await search_texts(db, "brown") == ["a lazy brown dog", "the quick brown fox"]
        assert await search_texts(db, "fox quick") == ["the quick brown fox"]
        assert await search_texts(db, "fox dog") == []
        assert await search_texts(db, "bro") == []
        assert await search_texts(db, "") == []

    @pytest.mark.promise("T-14")
    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("Café CRÈME", "cafe creme"),
            ("ÀÉÎÕÜ", "aeiou"),
            ("straße", "STRASSE"),
            ("Привет, мир", "привет"),
            ("snake_case name", "snake_case"),
            ("snake_case name", "case"),
            ("it's 42 o'clock", "42"),
            ("tab\tand\nline", "line"),
            ("nul\x00inside", "inside"),
            ('quoted "words" AND OR NOT *', "or not and"),
        ],
    )
    async def test_words_are_compared_without_case_and_accents(
        self, store: Store, db: Database, indexed: bool, text: str, query: str
    ) -> None:
        thread = await db.create("thread")
        await thread.append(items=[user(text), user("something else")])
        await self.update_index(store, indexed)

        assert await search_texts(db, query) == [text]

    @pytest.mark.promise("T-14")
    @pytest.mark.parametrize(
        "query", ['"', "'", 'a" OR b', "x NEAR y", "*", "col:word", "(", "%", "\\", "\x00", "&|!"]
    )
    async def test_a_query_is_never_a_language(
        self, store: Store, db: Database, indexed: bool, query: str
    ) -> None:
        thread = await db.create("thread")
        await thread.append(items=[user("plain text")])
        await self.update_index(store, indexed)

        assert await search_texts(db, query) == []

    @pytest.mark.promise("T-14")
    async def test_a_hit_says_where_it_stands(self, store: Store, db: Database, indexed: bool) -> None:
        thread = await db.create("thread")
        await thread.append(items=[user("one"), user("two")])
        await self.update_index(store, indexed)

        (hit,) = await db.search("two")
        (item,) = await thread.items(last=1)
        assert (hit.thread, hit.log, hit.place, hit.version) == ("thread", "history", item.place, 1)

    @pytest.mark.promise("T-14")
    async def test_tool_calls_and_guests_are_found(self, store: Store, db: Database, indexed: bool) -> None:
        thread = await db.create("thread")
        guest = Item(
            body={"role": "user", "content": [{"type": "text", "text": "guest words"}]}, format="openai"
        )
        opaque = Item(body=b"opaque words", codec="msgpack", format="langchain")
        await thread.append(
            items=[call("c", "f", "argument words"), result("c", "output words"), guest, opaque]
        )
        await self.update_index(store, indexed)

        assert await search_texts(db, "words") == ["argument words", "guest words", "output words"]

    @pytest.mark.promise("T-14", "S-03")
    async def test_what_was_taken_away_is_not_found(self, store: Store, db: Database, indexed: bool) -> None:
        thread = await db.create("thread")
        await thread.append(items=[user("fox one"), user("fox two"), user("fox three")])
        await self.update_index(store, indexed)
        await thread.log().pop()
        before = await search_texts(db, "fox")
        await thread.log().clear()

        assert (before, await search_texts(db, "fox")) == (["fox one", "fox two"], [])

    @pytest.mark.promise("T-14", "B-03")
    async def test_a_deleted_thread_is_not_found(self, store: Store, db: Database, indexed: bool) -> None:
        thread = await db.create("thread")
        await thread.append(items=[user("fox")])
        await self.update_index(store, indexed)
        await thread.delete()

        assert await search_texts(db, "fox") == []

    @pytest.mark.promise("T-14", "S-05")
    async def test_nobody_finds_what_is_another_users(
        self, store: Store, db: Database, indexed: bool
    ) -> None:
        for tenant, user_id in [("default", "alice"), ("default", "bob"), ("acme", "alice")]:
            theirs = db.scope(tenant=tenant, user=user_id)
            await (await theirs.create(f"{user_id}s")).append(items=[user(f"fox of {user_id} at {tenant}")])
        await self.update_index(store, indexed)

        assert await search_texts(db.scope(tenant="default", user="alice"), "fox") == [
            "fox of alice at default"
        ]
        assert await search_texts(db, "fox") == ["fox of alice at default", "fox of bob at default"]
        assert await search_texts(db.scope(tenant="acme"), "fox") == ["fox of alice at acme"]
        assert await search_texts(db.scope(tenant="other"), "fox") == []

    @pytest.mark.promise("T-14")
    async def test_the_index_and_the_tail_are_searched_together(self, store: Store, thread: Thread) -> None:
        db = Database(store)
        await thread.append(items=[user("fox indexed")])
        await index_threads(store, Scope())
        await thread.append(items=[user("fox in the tail")])

        assert await search_texts(db, "fox") == ["fox in the tail", "fox indexed"]

    @pytest.mark.promise("T-14")
    async def test_a_long_tail_is_searched_to_its_end(self, store: Store, thread: Thread) -> None:
        await asyncio.gather(*(thread.append(items=[user(f"word {n}")]) for n in range(300)))
        await thread.append(items=[user("the needle")])

        assert await search_texts(Database(store), "needle") == ["the needle"]

    @pytest.mark.promise("T-14", "B-12")
    async def test_items_are_found_by_any_of_the_words_the_rarest_counting_most(
        self, store: Store, db: Database, indexed: bool
    ) -> None:
        thread = await db.create("thread")
        dogs = [user(f"the big dog number {n}") for n in range(12)]
        await thread.append(items=[*dogs, user("a fox over there"), user("cat")])
        await self.update_index(store, indexed)
        hits = await db.search("THE big dog, a fox, or a hen?", any=True, limit=3)

        assert [hit.text[:7] for hit in hits] == ["a fox o", "the big", "the big"]
        assert hits[0].score > hits[1].score > 0
        assert await db.search("hen", any=True) == []

    @pytest.mark.promise("T-14", "B-12")
    async def test_a_text_with_more_of_the_words_is_better(self, store: Store, thread: Thread) -> None:
        await thread.append(items=[user("red apple"), user("red green pear"), user("blue red green plum")])
        hits = await Database(store).search("blue green red", any=True)

        assert [hit.text for hit in hits] == ["blue red green plum", "red green pear", "red apple"]

    @pytest.mark.promise("T-14", "B-12")
    @pytest.mark.parametrize("any", [True, False])
    async def test_a_search_keeps_to_a_thread_and_a_log(
        self, store: Store, db: Database, indexed: bool, any: bool
    ) -> None:
        for id in ("one", "two"):
            thread = await db.create(id)
            items = [Item(body=f"fox of {id} in {log}", log=log) for log in ("facts", "arcs")]
            await thread.append(items=items)
        await self.update_index(store, indexed)

        async def texts(thread: str | None, log: str | None) -> list[str]:
            return sorted(hit.text for hit in await db.search("fox", any=any, thread=thread, log=log))

        assert await texts("one", "facts") == ["fox of one in facts"]
        assert await texts("two", None) == ["fox of two in arcs", "fox of two in facts"]
        assert await texts(None, "arcs") == ["fox of one in arcs", "fox of two in arcs"]
        assert await texts("three", None) == []

    @pytest.mark.promise("T-14", "B-12", "S-05")
    async def test_any_of_the_words_finds_only_what_one_may_see(
        self, store: Store, db: Database, indexed: bool
    ) -> None:
        for tenant, user_id in [("default", "alice"), ("default", "bob"), ("acme", "alice")]:
            theirs = db.scope(tenant=tenant, user=user_id)
            await (await theirs.create(f"{user_id}s")).append(items=[user(f"fox of {user_id} at {tenant}")])
        await self.update_index(store, indexed)
        alice = db.scope(tenant="default", user="alice")

        assert [hit.text for hit in await alice.search("fox", any=True)] == ["fox of alice at default"]
        assert await alice.search("fox", any=True, thread="bobs") == []
        assert await alice.search("fox", any=True, owner="bob") == []
        assert [hit.text for hit in await db.search("fox", any=True, owner="bob")] == [
            "fox of bob at default"
        ]

    @pytest.mark.promise("T-14", "S-03")
    async def test_any_of_the_words_does_not_find_what_was_taken_away(
        self, store: Store, db: Database, indexed: bool
    ) -> None:
        thread = await db.create("thread")
        await thread.append(items=[user("fox one"), user("fox two"), user("fox three")])
        await self.update_index(store, indexed)
        await thread.log().pop()

        assert sorted(hit.text for hit in await db.search("fox", any=True, limit=1)) == ["fox two"]
        assert len(await db.search("fox", any=True)) == 2

    @pytest.mark.promise("T-14", "B-12")
    async def test_among_very_many_texts_the_one_with_all_common_words_is_found(
        self, store: Store, thread: Thread
    ) -> None:
        await thread.append(items=[user("my sister works"), *(user(f"my {n}") for n in range(600))])
        await thread.append(items=[user(f"sister {n}") for n in range(600)])
        await thread.append(items=[user(f"works {n}") for n in range(600)])
        hits = await Database(store).search("my sister works", any=True, thread="thread", limit=3)

        assert hits[0].text == "my sister works"
        assert len(hits) == 3

    @pytest.mark.promise("T-14")
    async def test_indexing_twice_finds_once(self, store: Store, thread: Thread) -> None:
        await thread.append(items=[user("fox")])
        counts = [await index_threads(store, Scope()), await index_threads(store, Scope())]

        assert (counts, await search_texts(Database(store), "fox")) == ([1, 0], ["fox"])

    @pytest.mark.promise("T-14")
    async def test_the_best_hits_come_first_and_no_more_than_asked_for(
        self, store: Store, db: Database
    ) -> None:
        thread = await db.create("thread")
        await thread.append(items=[user("fox " + "word " * 200), user("fox fox"), *[user("cat")] * 5])
        await index_threads(store, Scope())

        hits = await db.search("fox", limit=1)
        assert [hit.text for hit in hits] == ["fox fox"]

    @pytest.mark.promise("T-14", "B-12")
    async def test_a_turn_is_ranked_with_those_around_it(self, store: Store, db: Database) -> None:
        thread = await db.create("talk")
        pause = [user("and so on") for _ in range(9)]
        told = [user("a boat out there"), user("Ann steers, at the helm")]
        await thread.append(items=[user("an old boat"), *pause, *told, *pause, user("she steers the boat")])
        hits = await db.search("steers boat", any=True, limit=4)

        assert [hit.text for hit in hits] == [
            "she steers the boat",
            "Ann steers, at the helm",
            "a boat out there",
            "an old boat",
        ]

    @pytest.mark.promise("T-14", "B-12")
    async def test_every_store_ranks_alike(self, store: Store, db: Database, indexed: bool) -> None:
        databases = [db, Database(MemoryStore())]
        chance = random.Random("texts")
        sessions = [[" ".join(chance.choices(VOCABULARY, k=9)) for _ in range(12)] for _ in range(9)]
        for database in databases:
            for number, texts in enumerate(sessions):
                thread = await database.create(f"talk-{number}", owner="ann")
                await thread.append(items=[Item(body=text, role="Bo") for text in texts])
        await self.update_index(store, indexed)
        ours, reference = [
            await database.search_index.rank("Bo walked to a house of red glass", owner="ann")
            for database in databases
        ]

        assert sum(ranked.is_hit for ranked in ours) == 108
        assert [ranked.place for ranked in ours] == [ranked.place for ranked in reference]
        assert [ranked.score for ranked in ours] == pytest.approx([ranked.score for ranked in reference])

    @pytest.mark.promise("T-14")
    async def test_what_somebody_said_is_found_by_their_name(
        self, store: Store, db: Database, indexed: bool
    ) -> None:
        thread = await db.create("talk")
        named = Item(body={"role": "user", "name": "Zoë", "content": "a quiet harbour"}, format="openai")
        await thread.append(items=[named, Item(body="a loud harbour", role="Marek"), user("harbour")])
        await self.update_index(store, indexed)

        assert await search_texts(db, "zoe harbour") == ["a quiet harbour"]
        assert await search_texts(db, "marek") == ["a loud harbour"]
        assert await search_texts(db, "user") == []
