"""Records, and commits of several writes: all or none."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio
from typing import Final

import msgspec
import pytest

from clew.core import patch
from clew.core.errors import (
    ClaimLost,
    ClewError,
    InvalidArgument,
    OpFailed,
    RecordNotFound,
    RevisionConflict,
    VersionConflict,
)
from clew.core.items import user
from clew.core.log.rows import AskRecordsById, ask
from clew.core.values import (
    Absent,
    AppendTo,
    Changeset,
    Committed,
    Drop,
    Enqueue,
    Exact,
    Finish,
    Job,
    Put,
    Record,
    RecordQuery,
    Require,
    Scope,
    Write,
)
from clew.database.database import Database
from clew.database.thread import Thread
from clew.testing.clock import Clock
from clew.testing.contracts.common import contents_of
from clew.testing.fixtures import StoreFixtures, StoreOpener

FACT: Final = Record(
    kind="fact", id="f-1", body={"says": ["x", 1.5, None]}, owner="alice", tags=("a", "b"), sort=7
)


class RecordsContract(StoreFixtures):
    """Tests of records."""

    @pytest.mark.promise("T-14")
    async def test_a_record_comes_back_as_it_was_put(self, db: Database) -> None:
        before = await db.records.put(FACT)

        after = await db.records.get("fact", "f-1")
        assert after == before
        assert (after.body, after.owner, after.tags, after.sort, after.revision) == (
            FACT.body,
            "alice",
            ("a", "b"),
            7,
            1,
        )

    @pytest.mark.promise("T-14")
    async def test_each_change_of_a_record_is_a_revision(self, db: Database) -> None:
        revisions = [(await db.records.put(FACT)).revision for _ in range(3)]

        assert revisions == [1, 2, 3]

    @pytest.mark.promise("T-14")
    async def test_a_record_changes_only_at_the_expected_revision(self, db: Database) -> None:
        await db.records.put(FACT, expect=0)
        await db.records.put(FACT, expect=1)

        for wrong in (0, 1, 3):
            with pytest.raises(RevisionConflict) as caught:
                await db.records.put(FACT, expect=wrong)
            assert (caught.value.expected, caught.value.actual) == (wrong, 2)
        assert (await db.records.get("fact", "f-1")).revision == 2

    @pytest.mark.promise("T-14")
    async def test_one_of_many_tasks_wins_a_revision(self, db: Database) -> None:
        await db.records.put(FACT)
        results = await asyncio.gather(
            *(db.records.put(FACT, expect=1) for _ in range(8)), return_exceptions=True
        )

        assert sum(isinstance(result, Record) for result in results) == 1
        assert sum(isinstance(result, RevisionConflict) for result in results) == 7

    @pytest.mark.promise("T-14")
    async def test_a_dropped_record_is_gone(self, db: Database) -> None:
        await db.records.put(FACT)
        await db.records.drop("fact", "f-1", expect=1)

        with pytest.raises(RecordNotFound):
            await db.records.get("fact", "f-1")
        assert await db.records.find(RecordQuery(kind="fact", tags=("a",))) == []

    @pytest.mark.promise("T-14")
    async def test_a_drop_at_another_revision_is_refused(self, db: Database) -> None:
        await db.records.put(FACT)

        with pytest.raises(RevisionConflict):
            await db.records.drop("fact", "f-1", expect=2)
        with pytest.raises(RevisionConflict):
            await db.records.drop("fact", "nobody", expect=1)
        assert (await db.records.get("fact", "f-1")).revision == 1

    @pytest.mark.promise("T-14")
    async def test_a_drop_of_nothing_is_fine(self, db: Database) -> None:
        await db.records.drop("fact", "nobody")

        assert await db.records.find(RecordQuery(kind="fact")) == []

    @pytest.mark.promise("T-14")
    async def test_records_are_found_by_tags_and_order(self, db: Database) -> None:
        for n in range(6):
            tags = ("even" if n % 2 == 0 else "odd", "all")
            await db.records.put(Record(kind="k", id=f"r{n}", body=n, sort=n // 2, tags=tags))
        await db.records.put(Record(kind="other", id="r0", body=9, tags=("all",)))

        async def bodies(**query: object) -> list[object]:
            return [record.body for record in await db.records.find(RecordQuery(kind="k", **query))]  # type: ignore[arg-type]

        assert await bodies() == [0, 1, 2, 3, 4, 5]
        assert await bodies(tags=("even",)) == [0, 2, 4]
        assert await bodies(tags=("even", "all"), newest=True) == [4, 2, 0]
        assert await bodies(tags=("even", "odd")) == []
        assert await bodies(since=1, until=2) == [2, 3]
        assert await bodies(limit=2) == [0, 1]
        assert await bodies(limit=2, after=(0, "r1")) == [2, 3]
        assert await bodies(limit=2, after=(1, "r2"), newest=True) == [1, 0]

    @pytest.mark.promise("T-14")
    async def test_a_record_is_found_by_its_new_tags_only(self, db: Database) -> None:
        await db.records.put(Record(kind="k", id="r", body=1, tags=("old",), sort=1))
        await db.records.put(Record(kind="k", id="r", body=2, tags=("new",), sort=2))

        assert await db.records.find(RecordQuery(kind="k", tags=("old",))) == []
        assert [record.body for record in await db.records.find(RecordQuery(kind="k", tags=("new",)))] == [2]

    @pytest.mark.promise("T-14")
    async def test_several_records_are_found_in_one_question(self, db: Database) -> None:
        for kind, id, owner in (("a", "1", "alice"), ("a", "2", "bob"), ("b", "1", None)):
            await db.records.put(Record(kind=kind, id=id, owner=owner, body={"id": id}))
        question = AskRecordsById((("b", "1"), ("a", "2"), ("a", "1"), ("b", "2"), ("c", "1")))
        records_by_user = {
            user: {(r.kind, r.id, r.owner) for r in await db.store.read(scope, ask(question))}
            for user in (None, "alice")
            for scope in [Scope(tenant=db.tenant, user=user)]
        }

        assert records_by_user[None] == {("a", "1", "alice"), ("a", "2", "bob"), ("b", "1", None)}
        assert records_by_user["alice"] == {("a", "1", "alice")}

    async def test_records_are_found_by_owner(self, db: Database) -> None:
        for owner in ("alice", "bob", None):
            await db.records.put(Record(kind="k", id=f"{owner}", body=owner, owner=owner))

        records = await db.records.find(RecordQuery(kind="k", owner="bob"))
        assert [record.body for record in records] == ["bob"]

    @pytest.mark.promise("T-14")
    async def test_records_are_there_when_the_store_is_opened_again(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.reopen(opening, clock) as db:
            before = await db.records.put(FACT)
        async with self.reopen(opening, clock) as db:
            after = await db.records.get("fact", "f-1")

        assert after == before

    @pytest.mark.promise("T-14")
    async def test_records_are_found_whatever_their_order(self, db: Database) -> None:
        orders = [-(1 << 63), -(1 << 62) - 1, 0, 1 << 62, (1 << 63) - 1]
        for order in orders:
            await db.records.put(Record(kind="k", id=f"{order}", body=None, tags=("t",), sort=order))
        ways: list[tuple[str, ...]] = [(), ("t",)]
        queries = [RecordQuery(kind="k", tags=tags, newest=new) for tags in ways for new in (False, True)]

        orders_by_query = [[record.sort for record in await db.records.find(query)] for query in queries]
        assert orders_by_query == [orders, orders[::-1]] * 2
        assert await db.records.find(RecordQuery(kind="k", until=orders[0])) == []


GOOD_WRITES: Final[list[Write]] = [
    AppendTo(thread="thread", change=Changeset(items=(user("Hi"),), patches=(patch.set(["n"], 1),))),
    AppendTo(thread="new", change=Changeset(items=(user("Ho"),)), expect=Absent()),
    Put(record=Record(kind="k", id="new", body=1), expect=0),
    Put(record=Record(kind="k", id="old", body=2), expect=1),
    Drop(kind="k", id="gone", expect=1),
    Require(kind="k", id="held", expect=1),
    Enqueue(job=Job(id="later", kind="work")),
]
BAD_WRITES: Final[dict[str, tuple[Write, type[ClewError]]]] = {
    "stale append": (AppendTo(thread="thread", change=Changeset(), expect=Exact(9)), VersionConflict),
    "ill-typed op": (
        AppendTo(thread="thread", change=Changeset(patches=(patch.append(["n"], 1),))),
        OpFailed,
    ),
    "stale put": (Put(record=Record(kind="k", id="other", body=1), expect=4), RevisionConflict),
    "stale drop": (Drop(kind="k", id="other", expect=4), RevisionConflict),
    "missing requirement": (Require(kind="k", id="other", expect=1), RevisionConflict),
    "lost claim": (Finish(job="held", token="nobody's"), ClaimLost),
    "finished job": (Finish(job="no such job", token="nobody's"), ClaimLost),
}


class CommitContract(StoreFixtures):
    """Tests of several writes in one commit."""

    async def prepare(self, db: Database) -> Job:
        """Write the rows that these tests start from, and return the job that they finish."""
        for id in ("old", "gone", "held"):
            await db.records.put(Record(kind="k", id=id, body=id))
        for id in ("held", "work"):
            await db.jobs.enqueue(Job(id=id, kind=id))
        await db.jobs.claim(["held"])
        return (await db.jobs.claim(["work"]))[0]

    async def visible_state(self, db: Database) -> tuple[object, ...]:
        """All that the writes of these tests may change."""
        threads = [summary.id for summary in (await db.threads()).threads]
        return (
            sorted(threads),
            contents_of(await db.thread("thread").items()),
            await db.thread("thread").state(),
            [
                (record.id, record.body, record.revision)
                for record in await db.records.find(RecordQuery(kind="k"))
            ],
            sorted((job.id, job.status) for job in await db.jobs.list()),
        )

    @pytest.mark.promise("T-14")
    async def test_all_writes_commit_together(self, db: Database, thread: Thread) -> None:
        job = await self.prepare(db)
        results = await db.commit([*GOOD_WRITES, Finish(job=job.id, token=job.token or "")])

        assert len(results) == len(GOOD_WRITES) + 1
        assert await self.visible_state(db) == (
            ["new", "thread"],
            ["Hi"],
            {"n": 1},
            [("held", "held", 1), ("new", 1, 1), ("old", 2, 2)],
            [("held", "running"), ("later", "waiting")],
        )

    @pytest.mark.promise("T-14")
    @pytest.mark.parametrize("at", ["first", "last"])
    @pytest.mark.parametrize("name", BAD_WRITES)
    async def test_one_bad_write_spoils_all(self, db: Database, thread: Thread, name: str, at: str) -> None:
        job = await self.prepare(db)
        before = await self.visible_state(db)
        bad, error = BAD_WRITES[name]
        good = [*GOOD_WRITES, Finish(job=job.id, token=job.token or "")]
        if name == "ill-typed op" and at == "first":
            await thread.append(snapshot={"n": 1})
            before = await self.visible_state(db)

        with pytest.raises(error):
            await db.commit([bad, *good] if at == "first" else [*good, bad])
        assert await self.visible_state(db) == before

    @pytest.mark.promise("T-14")
    @pytest.mark.parametrize(
        "write",
        [
            Put(record=Record(kind="k", id="old", body=3)),
            Drop(kind="k", id="old"),
            Require(kind="k", id="old", expect=1),
        ],
        ids=lambda write: type(write).__name__,
    )
    async def test_a_record_is_touched_once_in_a_commit(
        self, db: Database, thread: Thread, write: Write
    ) -> None:
        await self.prepare(db)
        before = await self.visible_state(db)

        with pytest.raises(InvalidArgument):
            await db.commit([Put(record=Record(kind="k", id="old", body=2)), write])
        assert await self.visible_state(db) == before

    @pytest.mark.promise("T-14")
    async def test_an_empty_commit_is_fine(self, db: Database) -> None:
        assert await db.commit([]) == []

    @pytest.mark.promise("T-14")
    async def test_a_commit_may_make_several_threads(self, db: Database) -> None:
        ids = ["a", "b", "c"]
        changes = [Changeset(items=(user(id),)) for id in ids]
        await db.commit(
            [AppendTo(thread=id, change=c, expect=Absent()) for id, c in zip(ids, changes, strict=True)]
        )

        assert [contents_of(await db.thread(id).items()) for id in ids] == [["a"], ["b"], ["c"]]

    @pytest.mark.promise("T-02")
    async def test_commits_over_several_threads_keep_them_in_step(self, db: Database) -> None:
        for id in ("left", "right"):
            await db.create(id)

        async def both(order: list[str]) -> None:
            change = Changeset(patches=(patch.increment(["n"]),))
            await db.commit([AppendTo(thread=id, change=change) for id in order])

        orders = [["left", "right"], ["right", "left"]] * 6
        await asyncio.gather(*(both(order) for order in orders))

        assert [await db.thread(id).state() for id in ("left", "right")] == [{"n": 12}, {"n": 12}]

    @pytest.mark.promise("B-02")
    @pytest.mark.parametrize("expect", [None, 0])
    @pytest.mark.parametrize("first", ["append", "record"])
    async def test_a_commit_repeated_by_its_key_writes_nothing_twice(
        self, db: Database, thread: Thread, first: str, expect: int | None
    ) -> None:
        append = AppendTo(thread=thread.id, change=Changeset(items=(user("Hi"),), key="k"))
        put = Put(record=Record(kind="fact", id="f", body={"n": 1}), expect=expect)
        writes: list[Write] = [append, put] if first == "append" else [put, append]
        before = await db.commit(writes)
        again = await db.commit(writes)

        commit = before[writes.index(append)]
        assert isinstance(commit, Committed)
        assert again[writes.index(append)] == msgspec.structs.replace(commit, repeated=True)
        assert (await db.records.get("fact", "f")).revision == 1
        assert (await thread.head()).version == commit.version
