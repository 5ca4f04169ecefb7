"""Search over all that is one's own: every kind, by words and by meaning, paged, marked, nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

import clew
from bench.retrieval.rankings import SessionClock
from clew.core.errors import InvalidArgument, ModelFailed, StoreReadOnly
from clew.core.log.commit import Plan, Planner
from clew.core.values import Scope
from clew.database.database import Database
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.values import Arc
from clew.runtime.memory.vectors.jobs import embedding_job, run_embedding_jobs
from clew.runtime.search import KINDS, Hit, Search, SearchKind, SearchPage, search_everything
from clew.stores.memory import MemoryStore
from tests.runtime.memory.candidates import allergic, rule, sister
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]


class Topics:
    """Knows what belongs together, whatever the words."""

    name = "topics"
    down = False

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if self.down:
            raise ModelFailed(model=self.name, problem="it is down")
        return [self._vector(text.lower()) for text in texts]

    def _vector(self, text: str) -> list[float]:
        topics = (
            ("sea", "boat", "sail", "harbour"),
            ("peanuts", "food", "snack", "dinner"),
            ("sister", "kin"),
        )
        return [float(any(word in text for word in topic)) for topic in topics] + [0.01]


@pytest.fixture
async def mine(db: Database) -> Database:
    """What alice has said, and what is known of her."""
    trip = await db.create("trip", owner="alice")
    await trip.append(items=[clew.user("We sailed to Lisbon"), clew.assistant("A fine harbour for sailing")])
    await trip.append(items=[clew.user("My sister Ann hates boats")])
    memory = Memory(db, "alice")
    await memory.learn([sister("Ann"), allergic("peanuts"), rule("boats", "Do not mention boats at dinner.")])
    await memory.db.commit(
        await memory.episode_writes(
            Arc(id="", episode="e1", summary="talked about the boat", themes=("sailing",)), []
        )
    )
    bobs = await db.create("bobs", owner="bob")
    await bobs.append(items=[clew.user("Bob sails boats too")])
    await Memory(db, "bob").learn([sister("Beth"), allergic("peanuts")])
    return db


async def hits_of(db: Database, query: str, **more: object) -> list[Hit]:
    search = Search(query=query, owner="alice", **more)  # type: ignore[arg-type]  # as the tests give them
    return list((await search_everything(db, search)).hits)


async def texts(db: Database, query: str, **more: object) -> list[str]:
    return [hit.text for hit in await hits_of(db, query, **more)]


@pytest.mark.promise("B-12")
async def test_one_search_finds_items_facts_arcs_and_rules(mine: Database) -> None:
    hits = await hits_of(mine, "boat sister sailing")

    assert {hit.kind for hit in hits} == set(KINDS)
    assert {hit.thread for hit in hits} == {"trip", Memory(mine, "alice").thread}


@pytest.mark.promise("B-12")
async def test_somebody_who_searches_for_themselves_need_not_say_whose_it_is(mine: Database) -> None:
    alice = mine.scope(tenant=mine.tenant, user="alice")
    page = await search_everything(alice, Search(query="boat sister sailing"))

    assert {hit.kind for hit in page.hits} == set(KINDS)
    assert {hit.thread for hit in page.hits} == {"trip", Memory(mine, "alice").thread}


@pytest.mark.promise("B-12")
async def test_the_searched_words_are_marked_in_whatever_form(mine: Database) -> None:
    (hit,) = await hits_of(mine, "Sails to LISBON", kinds=("items",), role="user")

    assert [hit.text[start:end] for start, end in hit.marks] == ["sailed", "Lisbon"]


async def test_a_hit_says_where_it_stands_who_said_it_and_when(mine: Database) -> None:
    (hit,) = await hits_of(mine, "harbour", kinds=("items",))
    (item,) = await mine.thread("trip").items(after=hit.place - 1, before=hit.place + 1)

    assert (hit.thread, hit.log, hit.role, hit.version) == ("trip", "history", "assistant", 1)
    assert (hit.time, hit.id, item.body["content"]) == (item.time, item.id, "A fine harbour for sailing")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("items", "My sister Ann hates boats"),
        ("facts", "relationship: sister is called Ann. my sister is called Ann"),
        ("arcs", "sailing talked about the boat"),
        ("rules", "Do not mention boats at dinner."),
    ],
)
async def test_a_kind_is_searched_alone(mine: Database, kind: SearchKind, text: str) -> None:
    hits = await hits_of(mine, "sister boats Ann", kinds=(kind,))

    assert hits[0].text == text
    assert {hit.kind for hit in hits} == {kind}


async def test_a_thread_a_role_and_a_time_narrow_it(mine: Database) -> None:
    first, second = (item.time for item in (await mine.thread("trip").items())[1:])
    by_role = await texts(mine, "sail boat", role="user", kinds=("items",))
    early = await texts(mine, "sail boat", until=first - 1, thread="trip")
    between = await texts(mine, "sail boat", since=first, until=second, thread="trip")
    late = await texts(mine, "sail boat", since=second + 1, thread="trip")

    assert by_role == ["My sister Ann hates boats", "We sailed to Lisbon"]
    assert (early, len(between), late) == ([], 3, [])
    assert await texts(mine, "sail", thread="elsewhere") == []


@pytest.mark.promise("B-12", "S-05")
async def test_nobody_finds_what_is_another_users(mine: Database) -> None:
    bob = mine.scope(tenant=mine.tenant, user="bob")
    hits = (await search_everything(bob, Search(query="boats sister sailing peanuts", owner="bob"))).hits
    theirs = await search_everything(bob, Search(query="boats sister sailing peanuts", owner="alice"))
    elsewhere = await search_everything(mine.scope(tenant="other"), Search(query="boats sister", owner="bob"))

    assert {hit.thread for hit in hits} == {"bobs", Memory(mine, "bob").thread}
    assert (theirs.hits, elsewhere.hits) == ((), ())


async def test_what_was_forgotten_or_cleared_is_not_found(mine: Database) -> None:
    memory = Memory(mine, "alice")
    await mine.thread("trip").log().clear()
    await memory.propose_forgetting([fact.id for fact in (await memory.page()).facts])
    await memory.confirm_forgetting()

    assert await texts(mine, "sister Ann peanuts harbour") == []


@pytest.mark.promise("B-12")
async def test_what_is_meant_is_found_without_its_words(mine: Database) -> None:
    topics = Topics()
    await run_embedding_jobs(mine, topics)
    page = await search_everything(mine, Search(query="any good snack?", owner="alice"), embedder=topics)

    assert (page.path, [hit.text for hit in page.hits]) == (
        "hybrid_rrf",
        ["health: User is allergic to peanuts. I'm allergic to peanuts"],
    )
    assert page.hits[0].marks == ()


async def test_items_are_found_by_meaning_if_they_have_vectors(mine: Database) -> None:
    topics = Topics()
    await mine.commit([embedding_job("trip", "alice", "asked for", ["history"])])
    await run_embedding_jobs(mine, topics)
    search = Search(query="the sea", owner="alice", kinds=("items",))
    page = await search_everything(mine, search, embedder=topics)

    assert {hit.text for hit in page.hits} == {
        "We sailed to Lisbon",
        "A fine harbour for sailing",
        "My sister Ann hates boats",
    }


@pytest.mark.promise("B-12")
@pytest.mark.parametrize(
    ("search", "path"),
    [
        (Search(query="the sea", owner="alice"), "hybrid_rrf"),
        (Search(query="the sea", owner="alice", kinds=("items", "arcs")), "hybrid_rrf"),
        (Search(query="the sea", owner="alice", thread="memory/alice"), "hybrid_rrf"),
        (Search(query="the sea", owner="alice", kinds=("items",)), "token_recall_then_vectors"),
        (Search(query="the sea", owner="alice", kinds=("items", "rules")), "token_recall_then_vectors"),
        (Search(query="the sea", owner="alice", thread="trip"), "token_recall_then_vectors"),
        (Search(query="the sea", owner="alice", kinds=("rules",)), "token_recall"),
    ],
)
async def test_a_page_says_whether_words_and_vectors_were_fused(
    mine: Database, search: Search, path: str
) -> None:
    page = await search_everything(mine, search, embedder=Topics())

    assert page.path == path


@pytest.mark.promise("B-12")
async def test_a_thread_narrows_what_is_found_by_meaning_too(mine: Database) -> None:
    topics = Topics()
    await (await mine.create("coast", owner="alice")).append(items=[clew.user("A storm at the harbour")])
    await mine.commit([embedding_job(thread, "alice", "asked", ["history"]) for thread in ("trip", "coast")])
    await run_embedding_jobs(mine, topics)
    page = await search_everything(
        mine, Search(query="the sea", owner="alice", thread="coast"), embedder=topics
    )

    assert [hit.text for hit in page.hits] == ["A storm at the harbour"]


@pytest.mark.promise("B-12")
async def test_what_a_deleted_thread_meant_finds_nothing_in_one_that_took_its_id(mine: Database) -> None:
    topics = Topics()
    trip = mine.thread("trip")
    await mine.commit([embedding_job("trip", "alice", "asked", ["history"])])
    await run_embedding_jobs(mine, topics)
    before = now = (await trip.head()).created
    while now == before:  # a clock may stand still for a moment
        await trip.delete()
        now = (await (await mine.create("trip", owner="alice")).head()).created
    await trip.append(items=[clew.user("Nothing of that kind") for _ in range(3)])
    search = Search(query="the sea", owner="alice", kinds=("items",))

    assert (await search_everything(mine, search, embedder=topics)).hits == ()


@pytest.mark.promise("B-12")
async def test_when_embedding_fails_words_answer_and_the_page_says_so(mine: Database) -> None:
    topics = Topics()
    topics.down = True
    page = await search_everything(mine, Search(query="peanuts", owner="alice"), embedder=topics)

    assert (page.path, len(page.hits)) == ("token_recall_after_embed_error", 1)
    assert "it is down" in (page.problem or "")


async def test_a_slow_embedder_is_not_waited_for(mine: Database) -> None:
    class Slow(Topics):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            await asyncio.Event().wait()
            return []

    search = Search(query="peanuts", owner="alice")
    page = await search_everything(mine, search, embedder=Slow(), timeout_seconds=0.01)

    assert (page.path, len(page.hits)) == ("token_recall_after_embed_error", 1)


# Pages.


async def pages(db: Database, search: Search, limit: int) -> list[SearchPage]:
    pages_of = [await search_everything(db, search, limit=limit)]
    while pages_of[-1].next is not None:
        pages_of.append(await search_everything(db, search, limit=limit, cursor=pages_of[-1].next))
    return pages_of


@pytest.fixture
async def many(db: Database) -> Database:
    thread = await db.create("long", owner="alice")
    await thread.append(items=[clew.user(f"apple number {n} {'pear ' * (n % 7)}") for n in range(50)])
    return db


@pytest.mark.promise("B-12")
async def test_pages_hold_everything_once_and_in_the_order_of_one_page(many: Database) -> None:
    search = Search(query="apple pear")
    whole = (await search_everything(many, search, limit=100)).hits
    parts = await pages(many, search, 7)

    assert [len(page.hits) for page in parts] == [7] * 7 + [1]
    assert [hit.text for page in parts for hit in page.hits] == [hit.text for hit in whole]


async def test_what_is_said_or_taken_away_between_pages_repeats_and_hides_nothing(many: Database) -> None:
    search = Search(query="apple pear")
    thread = many.thread("long")
    first = await search_everything(many, search, limit=20)
    await thread.append(items=[clew.user("apple pear apple pear") for _ in range(30)])
    await thread.log().pop()
    places = [hit.place for hit in first.hits]
    cursor = first.next
    while cursor is not None:
        page = await search_everything(many, search, limit=20, cursor=cursor)
        places += [hit.place for hit in page.hits]
        cursor = page.next

    assert len(places) == len(set(places)) == 79


async def test_a_filter_that_lets_little_through_still_fills_the_page(many: Database) -> None:
    thread = many.thread("long")
    await thread.append(items=[clew.assistant(f"apple {n}") for n in range(3)])
    await thread.append(items=[clew.user("apple") for _ in range(200)])
    search = Search(query="apple", role="assistant")

    assert [len(page.hits) for page in await pages(many, search, 2)] == [2, 1]


@pytest.mark.parametrize("cursor", ["", "x", "!!", "AAAA", "ÿ"])
async def test_a_cursor_of_nothing_is_refused(many: Database, cursor: str) -> None:
    with pytest.raises(InvalidArgument, match="cursor"):
        await search_everything(many, Search(query="apple"), cursor=cursor)


async def test_a_cursor_of_another_search_is_refused(many: Database) -> None:
    cursor = (await search_everything(many, Search(query="apple"), limit=5)).next

    with pytest.raises(InvalidArgument, match="cursor"):
        await search_everything(many, Search(query="apple", role="user"), limit=5, cursor=cursor)


@pytest.mark.parametrize("query", ["", " ", "?!", "\x00", "zebra"])
async def test_a_query_that_finds_nothing_gives_an_empty_page(many: Database, query: str) -> None:
    assert await search_everything(many, Search(query=query)) == SearchPage()


async def test_nonsense_is_refused(many: Database) -> None:
    with pytest.raises(InvalidArgument):
        await search_everything(many, Search(query="apple"), limit=0)
    with pytest.raises(InvalidArgument):
        await search_everything(many, Search(query="apple", kinds=("dreams",)))  # type: ignore[arg-type]  # on purpose


class ReadOnly(MemoryStore):
    """A store in which nothing can be changed any more, once ``sealed``."""

    sealed = False

    async def change(self, scope: Scope, planning: Planner) -> Plan:
        if self.sealed:
            raise StoreReadOnly(store="it")
        return await super().change(scope, planning)


async def test_where_nothing_can_be_written_what_is_not_indexed_yet_is_found_too() -> None:
    store = ReadOnly()
    db = Database(store)
    thread = await db.create("long")
    await thread.append(items=[clew.user("an indexed apple")])
    await db.index()
    await thread.append(items=[clew.user("two apples and a fresh pear"), clew.user("nothing")])
    store.sealed = True
    page = await search_everything(db, Search(query="apple pear"))

    assert [hit.text for hit in page.hits] == ["two apples and a fresh pear", "an indexed apple"]


@pytest.mark.promise("B-12", "B-15")
async def test_a_question_finds_the_turn_beside_its_words(db: Database) -> None:
    thread = await db.create("talk", owner="alice")
    await thread.append(
        items=[clew.user("What was the name of the lighthouse keeper?"), clew.assistant("Anselm.")]
    )

    assert await texts(db, "name lighthouse keeper") == [
        "What was the name of the lighthouse keeper?",
        "Anselm.",
    ]
    assert await texts(db, "lighthouse keeper") == ["What was the name of the lighthouse keeper?"]


@pytest.mark.promise("B-12", "B-15")
async def test_what_was_said_in_the_period_of_a_question_comes_first() -> None:
    clock = SessionClock()
    db = Database(MemoryStore(clock=clock))
    for month in (3, 5, 7):
        clock.time = int(datetime(2024, month, 14, tzinfo=UTC).timestamp() * 1000)
        thread = await db.create(f"talk-{month}", owner="alice")
        await thread.append(items=[clew.user(f"We met at the market, number {month}")])

    assert (await texts(db, "Who met us at the market in May?"))[0] == "We met at the market, number 5"
    assert (await texts(db, "Who met us at the market in March?"))[0] == "We met at the market, number 3"


@pytest.mark.promise("B-12")
async def test_a_turn_that_is_only_alike_in_meaning_never_outranks_one_with_the_words(mine: Database) -> None:
    topics = Topics()
    await (await mine.create("note", owner="alice")).append(items=[clew.user("something about the sea")])
    await mine.commit([embedding_job("trip", "alice", "asked", ["history"])])
    await run_embedding_jobs(mine, topics)
    search = Search(query="the sea", owner="alice", kinds=("items",))
    page = await search_everything(mine, search, embedder=topics)

    assert page.hits[0].text == "something about the sea"
    assert len(page.hits) == 4
