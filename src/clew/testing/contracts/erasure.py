"""Erasing: a subject goes from everywhere, others stay as they are, and a receipt says so."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio

import pytest

from clew.core import patch
from clew.core.erasure import subject
from clew.core.erasure.receipts import (
    COMPLETE,
    DOCUMENT_TAG,
    PENDING,
    RETAINED_KIND,
    subject_of,
    tombstones_of,
)
from clew.core.erasure.retention import DAY_MS, RetentionRule, extension_time
from clew.core.errors import (
    ClewError,
    Forbidden,
    InvalidArgument,
    LegalHold,
    RecordNotFound,
    ThreadNotFound,
)
from clew.core.items import user
from clew.core.log.holds import RECEIPTS_THREAD
from clew.core.ports import Store
from clew.core.values import Enqueue, Job, Put, Record, RecordQuery, Scope
from clew.database.database import Database
from clew.database.erasure import DAMAGED_THREAD, read_receipt_lines
from clew.testing.clock import Clock
from clew.testing.damage import Damage
from clew.testing.fixtures import StoreFixtures, StoreOpener

ALICE = subject_of("alice", None)


async def populate_owner(db: Database, owner: str) -> None:
    """A thread with everything a thread can have, a fork of it, a memory, records and jobs."""
    thread = await db.create(f"{owner}-1", owner=owner)
    for number in range(3):
        await thread.append(
            items=[user(f"a secret of {owner} {number}", id=f"{owner} item {number}")],
            patches=[patch.set(["note", str(number)], owner * 1000)],
            key=f"{owner} key {number}",
        )
    await thread.append(patches=[patch.set(["$thread"], {"title": f"of {owner}", "labels": [owner]})])
    fork = await thread.fork(f"{owner}-2", at=2)
    await fork.append(items=[user(f"another secret of {owner}")])
    memory = await db.create(f"memory/{owner}", owner=owner)
    await memory.append(items=[user(f"{owner} likes tea")])
    await db.index()
    await thread.append(items=[user(f"not indexed yet, {owner}")])
    await db.commit(
        [
            Put(record=Record(kind="run", id=f"run of {owner}", owner=owner, body={"text": owner})),
            Put(record=Record(kind="usage", id=f"use {owner}", tags=(f"{owner}-1",), body={"text": owner})),
            Put(record=Record(kind="memory.vector", id=f"v {owner}", owner=owner, body={"vector": owner})),
            Enqueue(job=Job(id=f"job of {owner}", kind="k", owner=owner, body={"text": owner})),
            Enqueue(job=Job(id=f"job about {owner}", kind="k", body={"thread": f"{owner}-1"})),
        ]
    )


async def traces_of(db: Database, owner: str) -> list[str]:
    """The rows that still hold something about an owner."""
    threads = await db.threads(system=True)
    kinds = ("run", "usage", "memory.vector")
    records = [r for kind in kinds for r in await db.records.find(RecordQuery(kind=kind))]
    jobs = await db.jobs.list()
    ids = [*(t.id for t in threads.threads), *(r.id for r in records), *(job.id for job in jobs)]
    texts = [hit.text for hit in await db.search("secret")]
    return sorted(text for text in [*ids, *texts] if owner in text)


class ErasingContract(StoreFixtures):
    """Tests of erasure: what stays, and what goes."""

    @pytest.mark.promise("B-07")
    async def test_an_owner_is_erased_everywhere(self, db: Database) -> None:
        await populate_owner(db, "alice")
        receipt = await db.erase(owner="alice")

        assert await traces_of(db, "alice") == []
        assert receipt.status == COMPLETE

    @pytest.mark.promise("B-07")
    async def test_another_owner_keeps_everything(self, db: Database) -> None:
        await populate_owner(db, "alice")
        await populate_owner(db, "bob")
        before, state = await traces_of(db, "bob"), await db.thread("bob-1").state()
        await db.erase(owner="alice")

        assert await traces_of(db, "bob") == before
        assert await db.thread("bob-1").state() == state
        assert [(await db.thread(f"bob-{n}").verify()).problems for n in (1, 2)] == [(), ()]

    @pytest.mark.promise("B-07")
    async def test_the_receipt_says_what_and_how_much(self, db: Database) -> None:
        await populate_owner(db, "alice")
        receipt = await db.erase(owner="alice")

        counts = {name: count for name, count in receipt.counts.items() if name != "states"}
        assert counts == {
            "threads": 3,
            "changesets": 7,
            "items": 6,
            "keys": 3,
            "index entries": 5,
            "jobs": 2,
            "vectors": 1,
            "records of kind run": 1,
            "records of kind usage": 1,
        }

    @pytest.mark.promise("B-07")
    async def test_the_receipt_names_nobody_and_can_be_found(self, db: Database) -> None:
        await populate_owner(db, "alice")
        receipt = await db.erase(owner="alice")
        lines = [str(item.body) for item in await db.thread(RECEIPTS_THREAD).items(log="receipts")]

        assert "alice" not in "".join(lines)
        assert receipt.is_about(ALICE)
        assert await db.retention.receipts() == [receipt]

    @pytest.mark.promise("B-06", "B-07")
    async def test_erasure_is_itself_a_chained_record(self, store: Store, db: Database) -> None:
        await populate_owner(db, "alice")
        heads = {(await db.thread(id).head()).hash.hex() for id in ("alice-1", "alice-2", "memory/alice")}
        receipt = await db.erase(owner="alice")
        stones = tombstones_of(await read_receipt_lines(store, Scope()))[receipt.id]

        assert {stone.hash for stone in stones} == heads
        assert (await db.thread(RECEIPTS_THREAD).verify()).problems == ()

    @pytest.mark.promise("B-07")
    async def test_a_thread_is_erased_with_its_forks(self, db: Database) -> None:
        await populate_owner(db, "alice")
        await db.create("alice-3", owner="alice")
        await db.erase(thread="alice-1")

        assert await traces_of(db, "alice") == [
            "alice-3",
            "job of alice",
            "memory/alice",
            "run of alice",
            "v alice",
        ]

    @pytest.mark.promise("B-07")
    async def test_a_thread_that_was_deleted_is_erased_from_its_forks(self, db: Database) -> None:
        await populate_owner(db, "alice")
        await db.thread("alice-1").delete()
        await db.erase(thread="alice-1")

        assert [t.id for t in (await db.threads(owner="alice")).threads] == []

    @pytest.mark.promise("B-07")
    async def test_the_memory_of_a_thread_goes_with_it(self, db: Database) -> None:
        await db.create("t")
        await (await db.create("memory/@t")).append(items=[user("secret")])
        await db.erase(thread="t")

        assert [t.id for t in (await db.threads(system=True)).threads] == [RECEIPTS_THREAD]

    @pytest.mark.promise("B-07")
    async def test_a_record_of_another_owner_is_never_touched(self, db: Database) -> None:
        await db.create("t", owner="alice")
        await db.records.put(Record(kind="note", id="n", owner="bob", tags=("thread:t",), body=None))
        await db.erase(owner="alice")

        assert (await db.records.get("note", "n")).owner == "bob"

    @pytest.mark.promise("B-07")
    async def test_more_records_than_fit_in_a_commit_go(self, db: Database) -> None:
        writes = [Put(record=Record(kind="fact", id=f"f{n}", owner="alice", body=n)) for n in range(1100)]
        await db.commit(writes)
        receipt = await db.erase(owner="alice")

        assert receipt.counts == {"records of kind fact": 1100}
        assert await db.records.find(RecordQuery(kind="fact")) == []

    @pytest.mark.promise("B-07")
    async def test_a_large_thread_is_emptied_before_it_goes(
        self, db: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(subject, "LARGE_THREAD_ITEMS", 20)
        monkeypatch.setattr(subject, "ITEMS_PER_COMMIT", 7)
        thread = await db.create("alice-1", owner="alice")
        await thread.append(items=[user(f"secret {number}") for number in range(30)])
        await db.index()
        steps: list[dict[str, int]] = []
        receipt = await db.erase(owner="alice", notify=steps.append)

        assert [step["bodies"] for step in steps if "bodies" in step] == [7, 7, 7, 7, 2]
        assert receipt.counts == {"threads": 1, "changesets": 1, "items": 30, "index entries": 30}

    async def test_a_preview_counts_and_removes_nothing(self, db: Database) -> None:
        await populate_owner(db, "alice")
        before = await traces_of(db, "alice")
        preview = await db.erase(owner="alice", dry_run=True)

        assert await traces_of(db, "alice") == before
        assert preview.counts == (await db.erase(owner="alice")).counts

    @pytest.mark.promise("B-07", "S-06")
    async def test_a_damaged_thread_hides_no_other_and_makes_the_receipt_wait(
        self, db: Database, damage: Damage | None
    ) -> None:
        for number in range(3):
            thread = await db.create(f"alice-{number}", owner="alice")
            await thread.append(items=[user("secret")])
        await self.require_damage(damage).spoil("alice-1")
        receipt = await db.erase(owner="alice")

        assert (receipt.status, receipt.waiting, receipt.counts["threads"]) == (PENDING, (DAMAGED_THREAD,), 2)
        assert await db.retention.settle() == []

    async def test_nobody_to_erase_makes_an_empty_receipt(self, db: Database) -> None:
        receipt = await db.erase(owner="nobody")

        assert (receipt.counts, receipt.status) == ({}, COMPLETE)

    async def test_a_thread_that_never_was_is_not_found(self, db: Database) -> None:
        with pytest.raises(ThreadNotFound):
            await db.erase(thread="nothing")
        assert await db.retention.receipts() == []

    async def test_one_user_cannot_erase(self, db: Database) -> None:
        with pytest.raises(Forbidden):
            await db.scope(tenant="default", user="alice").erase(owner="alice")

    @pytest.mark.promise("B-07", "F-10")
    async def test_another_tenant_keeps_the_same_owner(self, db: Database) -> None:
        other = db.scope(tenant="other")
        await populate_owner(db, "alice")
        await populate_owner(other, "alice")
        before = await traces_of(other, "alice")
        await db.erase(owner="alice")

        assert await traces_of(other, "alice") == before
        assert await other.retention.receipts() == []

    @pytest.mark.promise("B-07")
    async def test_the_receipts_cannot_be_removed(self, db: Database) -> None:
        await db.erase(owner="alice")

        with pytest.raises(InvalidArgument):
            await db.thread(RECEIPTS_THREAD).delete()
        with pytest.raises(InvalidArgument):
            await db.erase(thread=RECEIPTS_THREAD)

    @pytest.mark.promise("B-07")
    async def test_an_erasure_that_was_broken_off_goes_on_with_its_receipt(
        self, store: Store, db: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await populate_owner(db, "alice")
        left = iter(range(4))

        async def failing(*args: object) -> object:
            if next(left, None) is None:
                raise ClewError
            return await change(*args)  # type: ignore[arg-type]  # they are passed on as they came

        change = store.change
        monkeypatch.setattr(store, "change", failing)
        with pytest.raises(ClewError):
            await db.erase(owner="alice")
        monkeypatch.setattr(store, "change", change)
        receipt = await db.erase(owner="alice")

        assert (receipt.counts["threads"], receipt.counts["jobs"], receipt.status) == (3, 2, COMPLETE)
        assert len(await db.retention.receipts()) == 1

    @pytest.mark.promise("B-07")
    async def test_a_writer_meanwhile_is_erased_too_or_refused(
        self, opening: StoreOpener | None, clock: Clock
    ) -> None:
        async with self.open_twice(opening, clock) as (db, other):
            thread = await db.create("alice-1", owner="alice")
            await thread.append(items=[user("secret")])

            async def write() -> None:
                while True:
                    await other.thread("alice-1").append(items=[user("more of the secret")])

            writing = asyncio.create_task(write())
            await asyncio.sleep(0.02)
            await db.erase(owner="alice")
            with pytest.raises(ThreadNotFound):
                await writing

            assert await traces_of(db, "alice") == []

    @pytest.mark.promise("R-22", "B-07")
    async def test_records_with_a_date_are_kept_and_the_receipt_says_so(self, db: Database) -> None:
        await db.records.put(_incident("i", 4711))
        await db.records.put(_incident("j", 4712))
        receipt = await db.erase(owner="alice")

        assert [(kept.kind, kept.count, kept.until) for kept in receipt.kept] == [("incident", 2, 4712)]
        assert (await db.records.get(RETAINED_KIND, "i")).owner == "alice"

    @pytest.mark.promise("B-07")
    async def test_records_with_a_date_go_if_they_are_asked_for(self, db: Database) -> None:
        await db.records.put(_incident("i", 4711))
        receipt = await db.erase(owner="alice", with_retained=True)

        assert await db.records.find(RecordQuery(kind=RETAINED_KIND)) == []
        assert (receipt.kept, receipt.counts) == ((), {"records of kind incident": 1})

    @pytest.mark.promise("R-22")
    async def test_records_are_purged_when_their_date_has_come(self, db: Database) -> None:
        for id, date in (("past", 1), ("today", 2), ("later", 3)):
            await db.records.put(_incident(id, date))
        count = await db.retention.purge(now=2)

        assert (count, [record.id async for record in db.retention.records()]) == (2, ["later"])

    @pytest.mark.promise("R-22")
    async def test_an_extended_record_outlives_its_date_and_none_is_kept_for_less(self, db: Database) -> None:
        await db.records.put(_incident("i", 5))
        counts = [await db.retention.extend(until=until, ids=["i"], now=4) for until in (9, 7)]
        purged = await db.retention.purge(now=8)

        (record,) = [record async for record in db.retention.records()]
        assert (counts, purged) == ([1, 0], 0)
        assert (record.sort, extension_time(record)) == (9, 4)

    async def test_records_with_a_date_are_chosen_by_kind_thread_and_owner(self, db: Database) -> None:
        await db.records.put(_incident("i", 1))
        await db.records.put(_incident("j", 2, kind="visit", thread="u", owner="bob"))
        retention = db.retention
        queries = (
            retention.records(kind="visit"),
            retention.records(thread="t"),
            retention.records(owner="bob"),
            retention.records(kind="visit", thread="t"),
        )

        assert [[record.id async for record in query] for query in queries] == [["j"], ["i"], ["j"], []]

    async def test_a_record_of_another_kind_is_not_extended(self, db: Database) -> None:
        await db.records.put(_incident("i", 1))
        with pytest.raises(RecordNotFound):
            await db.retention.extend(kind="visit", until=2, ids=["i"])
        with pytest.raises(InvalidArgument):
            await db.retention.extend(kind="incident", until=2)

        assert [record.sort async for record in db.retention.records()] == [1]

    @pytest.mark.promise("R-22")
    async def test_records_with_a_date_are_for_operators(self, db: Database) -> None:
        await db.records.put(_incident("i", 1))
        alice = db.scope(tenant=db.tenant, user="alice")

        with pytest.raises(Forbidden):
            [record async for record in alice.retention.records()]
        with pytest.raises(Forbidden):
            await alice.retention.purge(now=9)
        with pytest.raises(Forbidden):
            await alice.retention.extend(until=9, ids=["i"])


def _incident(
    id: str, date: int, *, kind: str = "incident", thread: str = "t", owner: str = "alice"
) -> Record:
    """A record that is kept until a date."""
    tags = (f"{DOCUMENT_TAG}{kind}", f"thread:{thread}")
    return Record(kind=RETAINED_KIND, id=id, owner=owner, tags=tags, sort=date, body={})


class HoldContract(StoreFixtures):
    """Tests of legal holds."""

    @pytest.mark.promise("B-07")
    @pytest.mark.parametrize("held", ["owner", "thread"])
    async def test_a_hold_refuses_erasure_and_deletion(self, db: Database, held: str) -> None:
        await populate_owner(db, "alice")
        before = await traces_of(db, "alice")
        await db.retention.hold(
            owner="alice" if held == "owner" else None,
            thread="alice-1" if held == "thread" else None,
            reason="case 12",
        )
        for attempt in (
            db.erase(owner="alice"),
            db.erase(thread="alice-1"),
            db.erase(owner="alice", dry_run=True),
            db.thread("alice-1").delete(),
            db.scope(tenant="default", user="alice").thread("alice-1").delete(),
        ):
            with pytest.raises(LegalHold) as caught:
                await attempt
            assert (caught.value.what, caught.value.reason) == (held, "case 12")

        assert await traces_of(db, "alice") == before
        assert await db.retention.receipts() == []

    @pytest.mark.promise("B-07")
    async def test_a_released_hold_holds_nothing(self, db: Database) -> None:
        await populate_owner(db, "alice")
        await db.retention.hold(owner="alice", reason="case 12")
        holds = [(hold.what, hold.name, hold.reason) for hold in await db.retention.holds()]
        await db.retention.release(owner="alice")
        await db.erase(owner="alice")

        assert holds == [("owner", "alice", "case 12")]
        assert await db.retention.holds() == []
        assert await traces_of(db, "alice") == []

    @pytest.mark.promise("B-07")
    async def test_a_hold_of_one_does_not_hold_another(self, db: Database) -> None:
        await populate_owner(db, "alice")
        await populate_owner(db, "bob")
        await db.retention.hold(owner="bob", reason="case 12")
        await db.erase(owner="alice")

        assert await traces_of(db, "alice") == []

    async def test_a_user_cannot_let_go_of_a_hold(self, db: Database) -> None:
        await db.retention.hold(owner="alice", reason="case 12")
        mine = db.scope(tenant="default", user="alice")
        (hold,) = await mine.records.find(RecordQuery(kind="hold"))

        with pytest.raises(Forbidden):
            await mine.records.drop("hold", hold.id)
        with pytest.raises(Forbidden):
            await mine.retention.release(owner="alice")


class RetentionContract(StoreFixtures):
    """Tests of retention rules by age and by label."""

    @pytest.mark.promise("B-07")
    async def test_old_threads_go_and_young_ones_stay(self, db: Database, clock: Clock) -> None:
        await (await db.create("old", owner="alice")).append(items=[user("old secret")])
        old = (await db.thread("old").head()).updated
        clock.advance(10 * DAY_MS)
        await (await db.create("young", owner="alice")).append(items=[user("young secret")])
        (result,) = await db.retention.apply([RetentionRule(name="90d", days=5)], now=old + 6 * DAY_MS)

        assert result.threads == ("old",)
        assert [t.id for t in (await db.threads()).threads] == ["young"]
        assert result.receipt is not None
        assert result.receipt.counts["threads"] == 1

    @pytest.mark.promise("B-07")
    async def test_a_rule_with_a_label_lets_go_of_nothing_else(self, db: Database) -> None:
        for name in ("draft", "letter"):
            about = {"title": name, "labels": [name]}
            await (await db.create(name)).append(patches=[patch.set(["$thread"], about)])
        now = (await db.thread("letter").head()).updated + 2 * DAY_MS
        await db.retention.add(RetentionRule(name="drafts", days=1, label="draft"))
        await db.retention.apply(now=now)

        assert [t.id for t in (await db.threads()).threads] == ["letter"]

    @pytest.mark.promise("B-07")
    async def test_a_thread_stays_while_a_younger_fork_stands_on_it(self, db: Database, clock: Clock) -> None:
        thread = await db.create("old", owner="alice")
        await thread.append(items=[user("old")])
        old = (await thread.head()).updated
        clock.advance(10 * DAY_MS)
        await (await thread.fork("young")).append(items=[user("young")])
        rules = [RetentionRule(name="5d", days=5)]
        (first,) = await db.retention.apply(rules, now=old + 6 * DAY_MS)
        (second,) = await db.retention.apply(rules, now=old + 60 * DAY_MS)

        assert (first.threads, set(second.threads)) == ((), {"old", "young"})

    @pytest.mark.promise("B-07")
    async def test_what_is_held_stays_and_is_counted(self, db: Database) -> None:
        for owner in ("alice", "bob"):
            await db.create(f"{owner}-1", owner=owner)
        await db.retention.hold(owner="alice", reason="case 12")
        now = (await db.thread("bob-1").head()).updated + 2 * DAY_MS
        (result,) = await db.retention.apply([RetentionRule(name="all", days=1)], now=now)

        assert (result.threads, result.held) == (("bob-1",), 1)
        assert [t.id for t in (await db.threads()).threads] == ["alice-1"]

    async def test_a_preview_of_rules_removes_nothing(self, db: Database) -> None:
        await db.create("t")
        now = (await db.thread("t").head()).updated + 2 * DAY_MS
        (result,) = await db.retention.apply([RetentionRule(name="all", days=1)], now=now, dry_run=True)

        assert (result.threads, result.receipt) == (("t",), None)
        assert (await db.thread("t").head()).version == 0

    async def test_rules_are_kept_changed_and_taken_back(self, db: Database) -> None:
        await db.retention.add(RetentionRule(name="a", days=1))
        await db.retention.add(RetentionRule(name="b", days=2, label="x"))
        await db.retention.add(RetentionRule(name="a", days=3))
        await db.retention.drop("b")

        assert await db.retention.rules() == [RetentionRule(name="a", days=3)]
