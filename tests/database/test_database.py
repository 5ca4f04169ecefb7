"""The database and its threads: what holds on any store, shown on the one in memory."""

from __future__ import annotations

import pytest

from clew.core.errors import InvalidArgument, InvalidId, StoreClosed
from clew.core.items import user
from clew.core.log.checks import prepare_writes
from clew.core.values import Changeset, Drop, Finish, Item, Limits, Put, Record, Require, Scope
from clew.database.database import Database
from clew.stores.memory import MemoryStore


async def test_a_database_that_owns_its_store_closes_it() -> None:
    store = MemoryStore()
    async with Database(store, owns_store=True):
        pass

    with pytest.raises(StoreClosed):
        await Database(store).create("t")


async def test_a_scoped_database_does_not_own_the_store() -> None:
    store = MemoryStore()
    db = Database(store, owns_store=True)
    await db.scope(tenant="acme").close()

    assert (await db.create("t")).id == "t"


@pytest.mark.parametrize("scope", [{"tenant": ""}, {"tenant": "a", "user": ""}, {"tenant": "a\x00"}])
def test_a_scope_needs_ids(scope: dict[str, str]) -> None:
    with pytest.raises(InvalidId):
        Database(MemoryStore()).scope(**scope)


@pytest.mark.parametrize(
    "twice",
    [
        Put(record=Record(kind="k", id="r", body=1)),
        Drop(kind="k", id="r"),
        Require(kind="k", id="r", expect=0),
        Finish(job="j", token="t"),
    ],
    ids=lambda write: type(write).__name__,
)
def test_one_commit_writes_a_thing_once(twice: Put | Drop | Require | Finish) -> None:
    with pytest.raises(InvalidArgument):
        prepare_writes([twice, twice], Limits())


@pytest.mark.promise("S-05")
async def test_a_summary_moves_into_the_log_that_is_compacted() -> None:
    thread = await Database(MemoryStore()).create("t")
    await thread.append(items=[Item(body={"content": n}, log="notes") for n in range(3)])
    await thread.log("notes").compact([user("summary")], keep=1)

    assert [item.body["content"] for item in await thread.items(log="notes")] == ["summary", 2]


async def test_a_whole_changeset_or_its_parts_come_to_the_same() -> None:
    db = Database(MemoryStore())
    one, other = await db.create("one"), await db.create("other")
    await one.append(Changeset(items=(user("Hi"),), reason="x", key="k"))
    await other.append(items=[user("Hi")], reason="x", key="k")

    changes = [(await thread.changesets())[0] for thread in (one, other)]
    assert [(c.items[0].body, c.reason, c.key) for c in changes] == [({"content": "Hi"}, "x", "k")] * 2


def test_threads_and_databases_can_be_shown() -> None:
    assert repr(Database(MemoryStore(), Scope()).thread("t")) == "Thread('t')"


@pytest.mark.promise("S-08")
async def test_only_the_database_that_opened_a_store_closes_it() -> None:
    store = MemoryStore()
    owner = Database(store, owns_store=True)
    await owner.create("t")
    await owner.scope(tenant="default").close()
    before = await Database(store).thread("t").head()
    await owner.close()

    assert before.version == 0
    with pytest.raises(StoreClosed):
        await Database(store).thread("t").head()
