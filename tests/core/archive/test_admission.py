"""What an archive may bring: for a user what is theirs, for an operator more, never what does not fit."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clew.core.archive.admission import IMPORTABLE
from clew.core.archive.format import FORMAT, HeaderLine, TotalLine, encode_line, record_line
from clew.core.encoding import JSON
from clew.core.erasure.receipts import ARTIFACT_KIND, DOCUMENT_KIND
from clew.core.errors import ArchiveInvalid, InvalidArgument
from clew.core.log.owners import memory_thread_id
from clew.core.values import Absent, AppendTo, Changeset, Record, Scope
from clew.database.archive import ImportResult, import_threads
from clew.database.database import Database
from clew.runtime.records.episodes import (
    ACTIVE,
    ACTIVE_EPISODE,
    ENDED,
    ENDING,
    EPISODE,
    Episode,
    episode_record,
)
from clew.runtime.records.feedback import FEEDBACK
from clew.runtime.records.runs import DONE, KIND, RUNNING, WAITING, Run, record_of
from clew.stores.memory import MemoryStore

pytestmark = pytest.mark.promise("F-10")
OPERATOR, BOB = Scope(), Scope(user="bob")


@pytest.fixture
async def db() -> Database:
    """A database in which bob has a thread, and alice."""
    database = Database(MemoryStore())
    await database.create("his", owner="bob")
    await database.create("hers", owner="alice")
    return database


async def import_record(db: Database, scope: Scope, record: Record) -> ImportResult:
    """What comes of an archive of one record."""

    async def lines() -> AsyncIterator[bytes]:
        for line in (HeaderLine(format=FORMAT), record_line(record), TotalLine(records=1)):
            yield encode_line(line)

    return await import_threads(db.store, scope, lines())


def episode(thread: str = "his", status: str = ACTIVE, user: str | None = "bob") -> Record:
    return episode_record(
        Episode(id="e", thread=thread, user=user, status=status, started=1, touched=1), "bob"
    )


def run(thread: str = "his", status: str = DONE) -> Record:
    return record_of(Run(id="r", thread=thread, user="bob", status=status, started=1), "bob")


def own(kind: str, body: JSON, *tags: str) -> Record:
    return Record(kind=kind, id="x", owner="bob", tags=tags, body=body)


WELCOME = {
    "an active episode": episode(),
    "an episode that is ending": episode(status=ENDING),
    "an episode that ended": episode(status=ENDED),
    "a run that ended": run(),
    "a run that waits": run(status=WAITING),
    "feedback": own(FEEDBACK, {"thread": "his"}, "thread:his"),
    "an artifact": own(ARTIFACT_KIND, {"id": "x", "thread": "his"}, "his"),
    "a document": own(DOCUMENT_KIND, {"path": "p"}, "his"),
}


async def test_the_kinds_are_those_of_the_runtime() -> None:
    assert set(IMPORTABLE) == {ACTIVE_EPISODE, EPISODE, KIND, FEEDBACK, ARTIFACT_KIND, DOCUMENT_KIND}


@pytest.mark.parametrize("record", WELCOME.values(), ids=WELCOME)
@pytest.mark.parametrize("scope", [OPERATOR, BOB], ids=["operator", "user"])
async def test_what_is_the_users_own_is_taken_in(db: Database, scope: Scope, record: Record) -> None:
    assert (await import_record(db, scope, record)).records == 1


IRRELEVANT_RECORDS = {
    "a run at work": run(status=RUNNING),
    "an episode without its thread": episode("gone", ENDED),
    "a run without its thread": run("gone"),
    "a run of anothers thread": run("hers"),
    "feedback without its thread": own(FEEDBACK, {"thread": "gone"}, "thread:gone"),
    "a kind of an application": own("note", {"thread": "his"}),
    "a queued turn": own("queued turn", {"thread": "his"}),
    "an active episode that is over": Record(
        kind=ACTIVE_EPISODE, id="his", owner="bob", body={"thread": "his", "status": ENDED}
    ),
}


@pytest.mark.parametrize("record", IRRELEVANT_RECORDS.values(), ids=IRRELEVANT_RECORDS)
async def test_what_a_user_cannot_bring_is_passed_over_and_counted(db: Database, record: Record) -> None:
    result = await import_record(db, BOB, record)

    assert (result.records, result.total.records) == (0, 1)


INVALID_RECORDS = {
    "of another user": episode(user="alice"),
    "under another id": Record(kind=ACTIVE_EPISODE, id="his", owner="bob", body={"thread": "other"}),
    "of two threads": Record(
        kind=KIND, id="r", owner="bob", tags=("thread:hers",), body={"id": "r", "thread": "his"}
    ),
    "of no thread": Record(kind=KIND, id="r", owner="bob", body={"id": "r"}),
    "of what is no thread": Record(kind=KIND, id="r", owner="bob", body={"id": "r", "thread": ["his"]}),
    "of nothing": Record(kind=KIND, id="r", owner="bob", body=None),
}


@pytest.mark.parametrize("record", INVALID_RECORDS.values(), ids=INVALID_RECORDS)
@pytest.mark.parametrize("scope", [OPERATOR, BOB], ids=["operator", "user"])
async def test_what_does_not_fit_is_refused(db: Database, scope: Scope, record: Record) -> None:
    with pytest.raises(ArchiveInvalid):
        await import_record(db, scope, record)


async def test_an_operator_cannot_bring_an_episode_of_anothers_thread(db: Database) -> None:
    with pytest.raises(ArchiveInvalid, match="has another owner"):
        await import_record(db, OPERATOR, episode("hers"))


async def test_an_operator_brings_any_kind(db: Database) -> None:
    result = await import_record(db, OPERATOR, own("note", {"thread": "hers"}))

    assert result.records == 1


@pytest.mark.promise("R-16")
@pytest.mark.parametrize("owner", [None, "bob"])
async def test_a_memory_belongs_to_the_user_that_it_is_of(db: Database, owner: str | None) -> None:
    carol = memory_thread_id("carol")
    append = AppendTo(thread=carol, change=Changeset(), expect=Absent(owner))
    for making in (db.create(carol, owner=owner), db.commit([append]), db.thread("his").fork(carol)):
        with pytest.raises(InvalidArgument, match="is the memory of a user"):
            await making
    await db.create(carol, owner="carol")

    assert (await db.thread(carol).head()).owner == "carol"


LONG = "u" * 300 + "/" * 60
"""A user whose name is hashed in the id of a memory."""


@pytest.mark.parametrize("owner", ["carol", "a/b%2F", "~x", "@x", LONG])
async def test_a_user_owns_their_memory_whatever_their_name(db: Database, owner: str) -> None:
    thread = await db.scope(tenant=db.tenant, user=owner).create(memory_thread_id(owner))

    assert (await thread.head()).owner == owner


async def test_no_name_makes_the_memory_of_a_hashed_one(db: Database) -> None:
    id = memory_thread_id(LONG)

    with pytest.raises(InvalidArgument, match="is the memory of a user"):
        await db.create(id, owner=id.removeprefix("memory/"))
