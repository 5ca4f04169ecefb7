"""A thread of another program's database is taken in whole, once, at the times it had."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

import clew
from clew import Item
from clew.core import patch
from clew.core.values import MEMORY_PREFIX, Changeset
from clew.database.transfer import ThreadHistory, ThreadTransfer, TransferOptions, transfer_thread
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]

NOON = 1_750_000_000_000
WRITE = TransferOptions()


def history(*texts: str, thread: str = "trip", owner: str | None = "alice") -> ThreadHistory:
    """A thread with one changeset for each text, a second apart."""
    changes = (
        Changeset(items=(Item(body=text, format="guest"),), time=NOON + 1000 * number)
        for number, text in enumerate(texts)
    )
    return ThreadHistory(thread=thread, owner=owner, changesets=tuple(changes))


async def outcome(db: clew.Database, history: ThreadHistory, options: TransferOptions = WRITE) -> str:
    """How the transfer of a thread ended."""
    return (await transfer_thread(db, history, options)).outcome


@pytest.mark.promise("B-10")
async def test_a_thread_comes_with_its_owner_and_its_times(db: clew.Database) -> None:
    transfer = await transfer_thread(db, history("a", "b"), WRITE)
    head = await db.thread("trip").head()
    items = await db.thread("trip").items()

    assert transfer == ThreadTransfer(thread="trip", outcome=transfer.outcome, version=2, items=2)
    assert (head.owner, head.created, head.updated) == ("alice", NOON, NOON + 1000)
    assert [(item.body, item.version, item.time) for item in items] == [("a", 1, NOON), ("b", 2, NOON + 1000)]
    assert (await db.thread("trip").verify()).ok


async def test_a_time_to_come_is_now(db: clew.Database) -> None:
    change = Changeset(items=(Item(body="a"),), time=1 << 60)
    await transfer_thread(db, ThreadHistory(thread="trip", changesets=(change,)), WRITE)

    assert (await db.thread("trip").head()).created < 1 << 50


async def test_a_second_transfer_adds_nothing(db: clew.Database) -> None:
    first = await outcome(db, history("a", "b"))
    second = await outcome(db, history("a", "b"))

    assert (first, second) == ("imported", "present")
    assert (await db.thread("trip").head()).version == 2


async def test_a_thread_that_went_on_is_present(db: clew.Database) -> None:
    await transfer_thread(db, history("a", "b"), WRITE)
    await db.thread("trip").append(items=[Item(body="c", format="guest")])

    assert await outcome(db, history("a", "b")) == "present"
    assert (await db.thread("trip").head()).version == 3


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        (history("a", "x"), "A thread of that id is there already, and differs from version 2 on."),
        (history("a"), "A thread of that id is there already, and ends with version 1; the source goes on."),
        (
            ThreadHistory(thread="trip", changesets=(Changeset(patches=(patch.set(["n"], 1),)),)),
            "A thread of that id is there already, and differs from version 1 on.",
        ),
    ],
    ids=["other", "shorter", "state"],
)
async def test_another_thread_of_that_id_is_left_alone(
    db: clew.Database, stored: ThreadHistory, problem: str
) -> None:
    await transfer_thread(db, stored, WRITE)
    before = await db.thread("trip").head()
    transfer = await transfer_thread(db, history("a", "b"), WRITE)

    assert (transfer.outcome, transfer.problem) == ("conflict", problem)
    assert await db.thread("trip").head() == before


async def test_a_long_thread_is_compared_to_its_end(db: clew.Database) -> None:
    texts = [str(number) for number in range(600)]
    await transfer_thread(db, history(*texts), WRITE)

    assert await outcome(db, history(*texts)) == "present"
    assert await outcome(db, history(*texts[:-1], "x")) == "conflict"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda h: msgspec.structs.replace(h, thread=""),
        lambda h: msgspec.structs.replace(h, thread="a\nb"),
        lambda h: msgspec.structs.replace(h, thread=f"{MEMORY_PREFIX}bob"),
        lambda h: msgspec.structs.replace(h, changesets=()),
        lambda h: msgspec.structs.replace(
            h, changesets=(*h.changesets, Changeset(items=(Item(body=float("nan")),)))
        ),
    ],
    ids=["empty id", "control", "memory", "nothing", "nan"],
)
async def test_what_cannot_be_stored_is_refused_whole(
    db: clew.Database, spoil: Callable[[ThreadHistory], ThreadHistory]
) -> None:
    transfer = await transfer_thread(db, spoil(history("a")), WRITE)

    assert (transfer.outcome, bool(transfer.problem)) == ("refused", True)
    assert (await db.threads()).threads == ()


async def test_a_dry_run_says_the_same_and_writes_nothing(db: clew.Database) -> None:
    dry_run = TransferOptions(dry_run=True)
    first = await outcome(db, history("a"), dry_run)
    is_empty = (await db.threads()).threads == ()
    await transfer_thread(db, history("a"), WRITE)

    assert (first, is_empty) == ("imported", True)
    assert await outcome(db, history("a"), dry_run) == "present"
    assert await outcome(db, history("b"), dry_run) == "conflict"


async def test_a_user_takes_in_their_own_threads_alone(db: clew.Database) -> None:
    alice = db.scope(tenant=db.tenant, user="alice")
    await transfer_thread(db, history("a", thread="bobs", owner="bob"), WRITE)

    assert await outcome(alice, history("a", owner="alice")) == "imported"
    assert await outcome(alice, history("a", thread="other", owner="bob")) == "refused"
    assert await outcome(alice, history("a", thread="bobs", owner="alice")) == "conflict"
