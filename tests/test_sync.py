"""The blocking façade: the same answers and errors, from any thread, and nothing left behind."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import clew
import clew.sync
from clew.core.errors import StoreClosed, ThreadNotFound, UnknownUrl
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.database.jobs import Jobs
from clew.database.log import Log
from clew.database.records import Records
from clew.database.search import SearchIndex
from clew.database.thread import Thread

if TYPE_CHECKING:
    from collections.abc import Iterator

TWINS = [
    (Thread, clew.sync.Thread),
    (Database, clew.sync.OwnedDatabase),
    (Log, clew.sync.Log),
    (Records, clew.sync.Records),
    (Jobs, clew.sync.Jobs),
    (SearchIndex, clew.sync.SearchIndex),
]


@pytest.fixture
def db() -> Iterator[clew.sync.OwnedDatabase]:
    with clew.sync.open("memory://") as database:
        yield database


def test_a_thread_is_written_and_read(db: clew.sync.OwnedDatabase) -> None:
    thread = db.create("t", owner="alice")
    thread.append(items=[clew.user("Hi")], patches=[clew.set(["mood"], "calm")], expect=clew.Exact(0))

    assert (thread.head().version, thread.state(), len(thread.items())) == (1, {"mood": "calm"}, 1)
    assert thread.verify().ok


def test_what_is_made_blocks_too(db: clew.sync.OwnedDatabase) -> None:
    thread = db.create("t")
    thread.append(items=[clew.user("Hi"), clew.user("there")])
    item = thread.log().pop()
    branch = thread.fork("b", at=1)

    assert item is not None
    assert item.body == {"content": "there"}
    assert [len(branch.items()), len(thread.items())] == [2, 1]


def test_watching_gives_changesets_one_by_one(db: clew.sync.OwnedDatabase) -> None:
    thread = db.create("t")
    watching = thread.watch(after=0)
    threading.Timer(0.05, lambda: thread.append(items=[clew.user("Hi")])).start()

    assert next(watching).version == 1


def test_records_and_jobs_are_there(db: clew.sync.OwnedDatabase) -> None:
    db.records.put(clew.Record(kind="fact", id="1", body={"a": 1}))
    db.jobs.enqueue(clew.Job(id="j", kind="sweep"))

    assert [record.id for record in db.records.find(RecordQuery(kind="fact"))] == ["1"]
    assert [job.id for job in db.jobs.claim(["sweep"])] == ["j"]


def test_errors_come_through(db: clew.sync.OwnedDatabase) -> None:
    with pytest.raises(ThreadNotFound):
        db.thread("nobody").head()


def test_another_tenant_sees_nothing(db: clew.sync.OwnedDatabase) -> None:
    db.create("t")

    assert db.scope(tenant="other").threads().threads == ()


def test_several_threads_write_at_once(db: clew.sync.OwnedDatabase) -> None:
    thread = db.create("t")
    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(lambda n: thread.append(items=[clew.user(str(n))]).version, range(100)))

    assert sorted(versions) == list(range(1, 101))


async def test_it_works_beside_a_running_loop() -> None:
    with clew.sync.open("memory://") as db:
        db.create("t")

        assert db.thread("t").head().version == 0


def loops() -> int:
    return sum(thread.name == "clew" for thread in threading.enumerate())


def test_closing_ends_the_loop_and_its_thread() -> None:
    db = clew.sync.open("memory://")
    db.close()

    assert loops() == 0
    with pytest.raises(StoreClosed):
        db.threads()


def test_closing_ends_a_watch_in_another_thread() -> None:
    db = clew.sync.open("memory://")
    watching = db.create("t").watch(after=0)
    closing = threading.Timer(0.05, db.close)
    closing.start()

    with pytest.raises(StoreClosed):
        next(watching)
    closing.join()


def test_a_database_that_cannot_be_opened_leaves_no_thread() -> None:
    with pytest.raises(UnknownUrl):
        clew.sync.open("nothing://")

    assert loops() == 0


@pytest.mark.parametrize(("source", "front"), TWINS)
def test_every_public_name_is_there_with_its_signature(source: type, front: type) -> None:
    names = [name for name in vars(source) if not name.startswith("_")]
    missing = [name for name in names if not hasattr(front, name)]
    different = [
        name
        for name in names
        if inspect.isfunction(getattr(source, name))
        and list(inspect.signature(getattr(source, name)).parameters)
        != list(inspect.signature(getattr(front, name)).parameters)
    ]

    assert (missing, different) == ([], [])
