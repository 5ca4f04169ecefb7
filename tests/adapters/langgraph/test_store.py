"""LangGraph's store on Clew's records: it says what the in-memory store says, and lasts."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import clew
from clew.adapters.langgraph import Store
from clew.adapters.langgraph.store import cosine, decode_vector, encode_vector
from clew.core.errors import InvalidArgument, InvalidValue

LETTERS = "abcdefgh"


def embed(texts: list[str]) -> list[list[float]]:
    """How often each letter is in a text."""
    return [[float(text.count(letter)) for letter in LETTERS] for text in texts]


INDEX: Any = {"dims": len(LETTERS), "embed": embed, "fields": ["text"]}


@pytest.fixture
async def store(db: clew.Database) -> Store:
    return Store(db)


@pytest.mark.promise("B-10")
async def test_an_item_is_there_for_the_next_process(db: clew.Database, store: Store) -> None:
    await store.aput(("users", "alice"), "likes", {"food": "plums", "rank": 1})

    item = await Store(db).aget(("users", "alice"), "likes")

    assert item is not None
    assert (item.value, item.key, item.namespace) == (
        {"food": "plums", "rank": 1},
        "likes",
        ("users", "alice"),
    )


async def test_an_item_that_is_put_again_keeps_its_birth(db: clew.Database) -> None:
    now = [1_000]
    store = Store(db, clock=lambda: now[0])
    await store.aput(("a",), "k", {"n": 1})
    now[0] = 5_000
    await store.aput(("a",), "k", {"n": 2})

    item = await store.aget(("a",), "k")

    assert item is not None
    assert (item.created_at.timestamp(), item.updated_at.timestamp()) == (1, 5)


async def test_a_deleted_item_is_gone(store: Store) -> None:
    await store.aput(("a",), "k", {"n": 1})

    await store.adelete(("a",), "k")

    assert await store.aget(("a",), "k") is None


async def test_namespaces_do_not_run_into_each_other(store: Store) -> None:
    await store.aput(("a", "b"), "c", {"n": 1})
    await store.aput(("a b",), "c", {"n": 2})

    values = [item.value["n"] for item in await store.asearch(("a",))]

    assert values == [1]


async def test_a_batch_is_written_together_or_not_at_all(store: Store) -> None:
    with pytest.raises(InvalidValue, match=r"value\.n"):
        await store.abatch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "bad", {"n": object()})])

    assert await store.aget(("a",), "good") is None


async def test_a_search_pages_through_what_it_finds(store: Store) -> None:
    for number in range(25):
        await store.aput(("a",), f"{number:02}", {"n": number})

    pages = [await store.asearch(("a",), limit=10, offset=offset) for offset in (0, 10, 20)]

    assert [len(page) for page in pages] == [10, 10, 5]
    assert sorted(item.key for page in pages for item in page) == [f"{number:02}" for number in range(25)]


@pytest.mark.promise("B-10")
async def test_the_nearest_in_meaning_comes_first(db: clew.Database) -> None:
    store = Store(db, index=INDEX)
    await store.aput(("docs",), "one", {"text": "aab"})
    await store.aput(("docs",), "two", {"text": "cch"})
    await store.aput(("docs",), "none", {"text": "hha"}, index=False)

    hits = await store.asearch(("docs",), query="ccc")

    assert [item.key for item in hits] == ["two", "one", "none"]
    assert hits[0].score == pytest.approx(2 / 5**0.5)
    assert hits[2].score is None


async def test_vectors_of_another_length_are_refused(db: clew.Database) -> None:
    index: Any = {**INDEX, "dims": 3}
    store = Store(db, index=index)

    with pytest.raises(InvalidArgument, match="3 dimensions"):
        await store.aput(("docs",), "one", {"text": "a"})


@pytest.mark.promise("B-10")
async def test_an_item_whose_time_is_over_is_not_seen_and_is_swept(db: clew.Database) -> None:
    now = [0]
    store = Store(db, clock=lambda: now[0], ttl={"refresh_on_read": False})
    await store.aput(("a",), "short", {"n": 1}, ttl=1)
    await store.aput(("a",), "long", {"n": 2})
    now[0] = 60_001

    contents = await store.aget(("a",), "short"), [item.key for item in await store.asearch(("a",))]

    assert contents == (None, ["long"])
    assert await store.asweep_ttl() == 1
    assert await store.asweep_ttl() == 0


async def test_reading_an_item_lets_it_live_on(db: clew.Database) -> None:
    now = [0]
    store = Store(db, clock=lambda: now[0], ttl={"default_ttl": 1})
    await store.aput(("a",), "k", {"n": 1})
    for time in (50_000, 100_000):
        now[0] = time
        await store.aget(("a",), "k")
    now[0] = 150_000

    assert await store.aget(("a",), "k", refresh_ttl=False) is not None
    now[0] = 161_000
    assert await store.aget(("a",), "k", refresh_ttl=False) is None


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
async def test_a_time_to_live_that_makes_no_sense_is_refused(store: Store, minutes: float) -> None:
    with pytest.raises(InvalidArgument, match="time to live"):
        await store.aput(("a",), "k", {"n": 1}, ttl=minutes)


async def test_an_unknown_operator_is_refused(store: Store) -> None:
    await store.aput(("a",), "k", {"n": 1})

    with pytest.raises(InvalidArgument, match=r"\$where"):
        await store.asearch(("a",), filter={"n": {"$where": "1 = 1"}})


async def test_a_namespace_with_a_dot_is_refused(store: Store) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(("a.b",), "k", {"n": 1})])


class Name(TypedDict):
    """The state of a small graph."""

    name: str


def test_a_graph_that_is_invoked_reaches_the_store(url: str) -> None:
    def remember(state: Name, *, store: BaseStore) -> Name:
        store.put(("names",), "last", {"name": state["name"]})
        return state

    builder = StateGraph(Name)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    with Store(url) as store:
        builder.compile(store=store).invoke({"name": "Alice"})
        item = store.get(("names",), "last")

    assert item is not None
    assert item.value == {"name": "Alice"}


LABELS = st.sampled_from(["a", "b", "c"])
SPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k1", "k2", "k3"])
VALUES = st.fixed_dictionaries({"n": st.integers(0, 4)}, optional={"text": st.text(LETTERS, max_size=4)})
FILTERS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"n": st.integers(0, 4)}),
    st.builds(
        lambda operator, number: {"n": {operator: number}},
        st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]),
        st.integers(0, 4),
    ),
)
CONDITIONS = st.builds(
    MatchCondition,
    match_type=st.sampled_from(["prefix", "suffix"]),
    path=st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=2).map(tuple),
)
PUTS = st.tuples(SPACES, KEYS, VALUES).map(lambda parts: PutOp(*parts))
OPS = st.one_of(
    PUTS,
    PUTS,
    st.tuples(SPACES, KEYS).map(lambda parts: PutOp(*parts, None)),
    st.tuples(SPACES, KEYS).map(lambda parts: GetOp(*parts)),
    st.builds(
        lambda prefix, filter: SearchOp(tuple(prefix), filter, limit=100),
        st.lists(LABELS, max_size=2),
        FILTERS,
    ),
    st.builds(
        lambda conditions, depth: ListNamespacesOp(match_conditions=conditions, max_depth=depth),
        st.one_of(st.none(), st.tuples(CONDITIONS)),
        st.one_of(st.none(), st.integers(1, 3)),
    ),
)


def comparable(result: Any) -> Any:
    """A result as something to compare; the order of a search without a query is nobody's promise."""
    if isinstance(result, list):
        return sorted(str(comparable(part)) for part in result)
    return (result.namespace, result.key, result.value) if hasattr(result, "value") else result


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(ops=st.lists(OPS, max_size=20))
def test_any_operations_end_as_in_memory(ops: list[Any]) -> None:
    theirs = InMemoryStore()
    with Store("memory://") as ours:
        for op in ops:
            if isinstance(op, PutOp) and op.value is None and not theirs.get(op.namespace, op.key):
                continue  # the in-memory store lists a namespace that only ever saw a delete
            mine, other = comparable(ours.batch([op])[0]), comparable(theirs.batch([op])[0])
            if isinstance(op, ListNamespacesOp):
                assert set(mine) <= set(other)  # nor does it forget one that is empty
            else:
                assert mine == other


def test_a_vector_survives_being_packed() -> None:
    assert decode_vector(encode_vector([0.5, -1.25, 3.0])) == (0.5, -1.25, 3.0)


def test_nothing_is_like_nothing() -> None:
    assert cosine([0.0, 0.0], [1.0, 1.0]) == 0.0
