"""Scopes: tenants and users that never see each other, and lists of threads."""

# ruff: noqa: D102 - tests are named by sentences.

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from clew.core import patch
from clew.core.errors import (
    ClaimLost,
    InvalidArgument,
    RecordNotFound,
    ThreadExists,
    ThreadNotFound,
)
from clew.core.items import user
from clew.core.values import (
    ABOUT_KEY,
    Absent,
    AppendTo,
    Changeset,
    Exact,
    Job,
    Record,
    RecordQuery,
    ThreadSummary,
)
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.common import contents_of, thread_dump
from clew.testing.fixtures import StoreFixtures

OPERATIONS: Final[dict[str, Callable[[Thread], Awaitable[object]]]] = {
    "append": lambda thread: thread.append(items=[user("intruder")]),
    "append at its version": lambda thread: thread.append(items=[user("intruder")], expect=Exact(1)),
    "head": lambda thread: thread.head(),
    "state": lambda thread: thread.state(at=1),
    "items": lambda thread: thread.items(last=1),
    "named": lambda thread: thread.items_by_id(["m-1"]),
    "changesets": lambda thread: thread.changesets(),
    "diff": lambda thread: thread.diff(0, 1),
    "fork": lambda thread: thread.fork("stolen"),
    "delete": lambda thread: thread.delete(),
    "pop": lambda thread: thread.log().pop(),
    "clear": lambda thread: thread.log().clear(),
    "compact": lambda thread: thread.log().compact([user("intruder")], keep=0),
    "repair": lambda thread: thread.repair(),
    "verify": lambda thread: thread.verify(),
    "watch": lambda thread: anext(thread.watch(after=0)),
}
STRANGERS: Final = [
    ("acme", None),
    ("acme", "alice"),
    ("default", "bob"),
    ("DEFAULT", "alice"),
    ("default", "Alice"),
]


async def is_refused(operation: Awaitable[object]) -> bool:
    """Return whether an operation fails because there is no such thread."""
    try:
        await operation
    except ThreadNotFound:
        return True
    return False


class ScopeContract(StoreFixtures):
    """Tests of isolation between tenants and owners."""

    async def create_alices_thread(self, db: Database) -> Thread:
        """A thread of alice."""
        thread = await db.create("hers", owner="alice")
        await thread.append(items=[user("secret", id="m-1")])
        return thread

    @pytest.mark.promise("S-05", "T-14")
    @pytest.mark.parametrize(("tenant", "name"), STRANGERS)
    async def test_a_strangers_thread_is_not_there(self, db: Database, tenant: str, name: str | None) -> None:
        thread = await self.create_alices_thread(db)
        before = await thread_dump(thread)
        theirs = db.scope(tenant=tenant, user=name).thread("hers")
        successes = [
            name for name, operation in OPERATIONS.items() if not await is_refused(operation(theirs))
        ]

        assert successes == []
        assert await thread_dump(thread) == before

    @pytest.mark.promise("S-05")
    async def test_the_owner_may_do_everything(self, db: Database) -> None:
        refusals = []
        for name, operation in OPERATIONS.items():
            thread = await self.create_alices_thread(db)
            if await is_refused(operation(db.scope(tenant="default", user="alice").thread("hers"))):
                refusals.append(name)
            if name != "delete":
                await thread.delete()

        assert refusals == []

    @pytest.mark.promise("S-05")
    async def test_an_append_in_a_commit_is_scoped_too(self, db: Database) -> None:
        thread = await self.create_alices_thread(db)
        before = await thread_dump(thread)

        with pytest.raises(ThreadNotFound):
            await db.scope(tenant="default", user="bob").commit([AppendTo(thread="hers", change=Changeset())])
        assert await thread_dump(thread) == before

    @pytest.mark.promise("S-05")
    async def test_two_tenants_may_use_one_id(self, db: Database) -> None:
        acme = db.scope(tenant="acme")
        for name, tenant_db in (("ours", db), ("theirs", acme)):
            thread = await tenant_db.create("same")
            await thread.append(items=[user(name)], patches=[patch.set(["name"], name)])
            await thread.append(Changeset(items=(user(f"{name} again"),), key="same key"))

        assert contents_of(await db.thread("same").items()) == ["ours", "ours again"]
        assert contents_of(await acme.thread("same").items()) == ["theirs", "theirs again"]
        await db.thread("same").delete()
        assert await acme.thread("same").state() == {"name": "theirs"}
        assert (await acme.thread("same").verify()).ok

    @pytest.mark.promise("S-05")
    async def test_a_user_cannot_take_an_id_that_is_taken(self, db: Database) -> None:
        thread = await self.create_alices_thread(db)
        before = await thread_dump(thread)
        bob = db.scope(tenant="default", user="bob")
        own = await bob.create("his")

        with pytest.raises(ThreadExists):
            await bob.create("hers")
        with pytest.raises(ThreadNotFound):
            await bob.create("hers", exist_ok=True)
        with pytest.raises(ThreadExists):
            await bob.thread("hers").append(items=[user("intruder")], expect=Absent())
        with pytest.raises(ThreadExists):
            await own.fork("hers")
        assert await thread_dump(thread) == before

    @pytest.mark.promise("S-05")
    async def test_a_user_owns_what_they_make(self, db: Database) -> None:
        alice = db.scope(tenant="default", user="alice")
        await alice.create("one")
        await alice.thread("two").append(items=[user("Hi")], expect=Absent())
        await (await alice.create("three")).fork("four")

        page = await db.threads()
        assert {summary.id: summary.owner for summary in page.threads} == dict.fromkeys(
            ["one", "two", "three", "four"], "alice"
        )

    @pytest.mark.promise("S-05")
    async def test_a_user_cannot_make_something_for_another(self, db: Database) -> None:
        alice = db.scope(tenant="default", user="alice")

        with pytest.raises(InvalidArgument):
            await alice.create("one", owner="bob")
        with pytest.raises(InvalidArgument):
            await alice.thread("one").append(items=[user("Hi")], expect=Absent(owner="bob"))
        with pytest.raises(InvalidArgument):
            await alice.records.put(Record(kind="k", id="r", body=1, owner="bob"))
        assert (await db.threads()).threads == ()
        assert await db.records.find(RecordQuery(kind="k")) == []

    @pytest.mark.promise("S-05")
    async def test_a_thread_without_an_owner_is_no_users(self, db: Database, thread: Thread) -> None:
        with pytest.raises(ThreadNotFound):
            await db.scope(tenant="default", user="alice").thread("thread").head()

    @pytest.mark.promise("S-05")
    @pytest.mark.parametrize(("tenant", "name"), STRANGERS)
    async def test_a_strangers_record_is_not_there(self, db: Database, tenant: str, name: str | None) -> None:
        await db.records.put(Record(kind="fact", id="hers", body="secret", owner="alice", tags=("t",)))
        stranger = db.scope(tenant=tenant, user=name)
        await stranger.records.drop("fact", "hers")

        with pytest.raises(RecordNotFound):
            await stranger.records.get("fact", "hers")
        assert await stranger.records.find(RecordQuery(kind="fact", tags=("t",))) == []
        assert await stranger.records.find(RecordQuery(kind="fact", owner="alice")) == []
        assert (await db.records.get("fact", "hers")).revision == 1

    @pytest.mark.promise("S-05")
    async def test_a_user_cannot_write_over_anothers_record(self, db: Database) -> None:
        await db.records.put(Record(kind="fact", id="hers", body="secret", owner="alice"))

        with pytest.raises(InvalidArgument):
            await db.scope(tenant="default", user="bob").records.put(
                Record(kind="fact", id="hers", body="taken")
            )
        assert (await db.records.get("fact", "hers")).body == "secret"

    @pytest.mark.promise("S-05")
    async def test_two_tenants_may_use_one_record_id(self, db: Database) -> None:
        acme = db.scope(tenant="acme")
        await db.records.put(Record(kind="k", id="r", body="ours"), expect=0)
        await acme.records.put(Record(kind="k", id="r", body="theirs"), expect=0)

        records = [await tenant_db.records.get("k", "r") for tenant_db in (db, acme)]
        assert [record.body for record in records] == ["ours", "theirs"]

    @pytest.mark.promise("S-05")
    async def test_jobs_of_two_tenants_are_apart(self, db: Database) -> None:
        acme = db.scope(tenant="acme")
        await db.jobs.enqueue(Job(id="same", kind="work", body="ours", key="same"))
        await acme.jobs.enqueue(Job(id="same", kind="work", body="theirs", key="same"))
        (ours,), (theirs,) = await db.jobs.claim(["work"], limit=5), await acme.jobs.claim(["work"], limit=5)
        await db.jobs.finish(ours)

        assert (ours.body, theirs.body) == ("ours", "theirs")
        assert (await db.jobs.list(), [job.body for job in await acme.jobs.list()]) == ([], ["theirs"])

    @pytest.mark.promise("S-05")
    async def test_a_users_jobs_are_their_own(self, db: Database) -> None:
        alice, bob = (db.scope(tenant="default", user=name) for name in ("alice", "bob"))
        await alice.jobs.enqueue(Job(id="hers", kind="work"))
        await db.jobs.enqueue(Job(id="nobody's", kind="work"))
        strange = [await bob.jobs.list(), await bob.jobs.claim(["work"])]
        (hers,) = await alice.jobs.claim(["work"], limit=5)

        with pytest.raises(ClaimLost):
            await bob.jobs.finish(hers)
        with pytest.raises(ClaimLost):
            await bob.jobs.extend(hers)
        with pytest.raises(InvalidArgument):
            await bob.jobs.enqueue(Job(id="forged", kind="work", owner="alice"))
        assert (strange, hers.id, hers.owner) == ([[], []], "hers", "alice")
        assert sorted(job.id for job in await db.jobs.list()) == ["hers", "nobody's"]

    @pytest.mark.promise("S-05")
    async def test_a_list_holds_only_what_its_reader_may_see(self, db: Database) -> None:
        for tenant, name in [("default", "alice"), ("default", "bob"), ("acme", "alice")]:
            await db.scope(tenant=tenant).create(f"{name}s-{tenant}", owner=name)

        async def ids(reader: Database, owner: str | None = None) -> list[str]:
            return sorted(summary.id for summary in (await reader.threads(owner=owner)).threads)

        assert await ids(db) == ["alices-default", "bobs-default"]
        assert await ids(db, owner="bob") == ["bobs-default"]
        assert await ids(db.scope(tenant="default", user="alice")) == ["alices-default"]
        assert await ids(db.scope(tenant="default", user="alice"), owner="bob") == []
        assert await ids(db.scope(tenant="acme")) == ["alices-acme"]


class ListContract(StoreFixtures):
    """Tests of listing threads."""

    @pytest.mark.promise("T-14")
    async def test_threads_are_listed_newest_first(self, db: Database, clock: Clock) -> None:
        for id in ("b", "a", "c"):
            clock.advance(10)
            await db.create(id)

        assert [summary.id for summary in (await db.threads()).threads] == ["c", "a", "b"]

    @pytest.mark.promise("T-14", "S-01")
    async def test_threads_of_one_moment_have_an_order(self, db: Database) -> None:
        ids = ["a", "B", "_", "é", "z", "🦊", "Z", "a b", "ﬀ", "10", "9", "a:1"]
        for id in ids:
            await db.create(id)

        page_ids = [summary.id for summary in (await db.threads()).threads]
        assert page_ids == sorted(ids, key=str.encode, reverse=True)

    @pytest.mark.promise("T-14")
    async def test_an_empty_page_leads_on_to_where_it_stands(self, db: Database) -> None:
        for id in ("a", "b"):
            await db.create(id)
        page = await db.threads(limit=1)
        empty = await db.threads(limit=0, after=page.next)

        assert (empty.threads, empty.next) == ((), page.next)
        assert (await db.threads(limit=0)).next is None

    @pytest.mark.promise("T-14")
    @pytest.mark.parametrize("limit", [1, 3, 4, 50])
    async def test_pages_hold_every_thread_once(self, db: Database, clock: Clock, limit: int) -> None:
        for n in range(12):
            clock.advance(n % 3)
            await db.create(f"t:{n}")
        whole, cursor, pages = [], None, 0
        while True:
            page = await db.threads(limit=limit, after=cursor)
            whole += [summary.id for summary in page.threads]
            pages, cursor = pages + 1, page.next
            if cursor is None:
                break

        assert len(whole) == len(set(whole)) == 12
        assert pages == -(-12 // limit)
        assert whole == [summary.id for summary in (await db.threads(limit=100)).threads]

    @pytest.mark.promise("T-14")
    @pytest.mark.parametrize("cursor", ["", "x", "²:a", "-1:a", ":", "1" * 40 + ":a"])
    async def test_what_is_not_a_cursor_is_refused(self, db: Database, cursor: str) -> None:
        with pytest.raises(InvalidArgument):
            await db.threads(after=cursor)

    @pytest.mark.promise("T-14")
    async def test_a_summary_shows_title_labels_and_size(
        self, db: Database, thread: Thread, clock: Clock
    ) -> None:
        clock.advance(10)
        about = {"title": "A title 🦊", "labels": ["x", "y"]}
        await thread.append(items=[user("a"), user("b")], patches=[patch.set([ABOUT_KEY], about)])
        await thread.log().pop()

        (summary,) = (await db.threads()).threads
        assert summary == ThreadSummary(
            id="thread",
            owner=None,
            version=2,
            created=clock.now - 10,
            updated=clock.now,
            title="A title 🦊",
            labels=("x", "y"),
            items=1,
        )
        assert (await thread.head()).title == "A title 🦊"
