"""After erasing, nothing is left in any column of any table of PostgreSQL, and vacuum was asked for."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

import clew
from clew.core.erasure.receipts import COMPLETE, PENDING
from clew.stores.postgres import vacuum
from tests.database.people import WORDS, live
from tests.support.shared_postgres import PostgresDatabase

pytestmark = [pytest.mark.postgres, pytest.mark.parametrize("store_name", ["postgres"])]
Raw = psycopg.Connection[Any]
COLUMNS = """
SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = 'clew' ORDER BY 1, 2
"""
VACUUMS = """
SELECT relname FROM pg_stat_user_tables
WHERE schemaname = 'clew' AND relname <> 'meta' AND last_vacuum >= %s
"""


@pytest.fixture
async def people_database(postgres_database: PostgresDatabase) -> PostgresDatabase:
    """A database with two people in it."""
    async with clew.open(postgres_database.url) as db:
        await live(db, "alice", items=20)
        await live(db, "bob", items=20)
    return postgres_database


@pytest.fixture
def admin(postgres_database: PostgresDatabase) -> Iterator[Raw]:
    """A connection of the superuser's, whom no policy holds back."""
    with psycopg.connect(postgres_database.url, autocommit=True) as connection:
        yield connection


def where(admin: Raw, who: str) -> list[str]:
    """Every column that holds a person's word or name, in whatever form."""
    places = []
    for table, column, kind in admin.execute(COLUMNS).fetchall():
        text = "encode({}, 'escape')" if kind == "bytea" else "{}::text"
        query = sql.SQL(f"SELECT count(*) FROM clew.{{}} WHERE {text} ~* %s").format(
            sql.Identifier(table), sql.Identifier(column)
        )
        row = admin.execute(query, [f"{WORDS[who]}|{who}"]).fetchone()
        places += [f"{table}.{column}"] if row and row[0] else []
    return places


def count_vacuums(admin: Raw, since: object) -> int:
    """How many tables were vacuumed by hand since a moment; the server says so a little later."""
    deadline = time.monotonic() + 10
    while len(tables := admin.execute(VACUUMS, [since]).fetchall()) < 14 and time.monotonic() < deadline:
        time.sleep(0.05)
        admin.execute("SELECT pg_stat_clear_snapshot()")
    return len(tables)


@pytest.mark.promise("B-07")
async def test_nothing_is_left_in_any_column_and_vacuum_was_asked_for(
    people_database: PostgresDatabase, admin: Raw, store_name: str
) -> None:
    columns, (start,) = where(admin, "alice"), admin.execute("SELECT now()").fetchall()[0]
    async with clew.open(people_database.url) as db:
        receipt = await db.erase(owner="alice")

    assert {"items.body", "texts.words", "texts.text", "changesets.content", "threads.about"} <= set(columns)
    assert {"records.body", "record_tags.tag", "jobs.body", "anchors.state", "keys.name"} <= set(columns)
    assert where(admin, "alice") == []
    assert count_vacuums(admin, start) == 16
    assert receipt.status == COMPLETE
    assert any("write-ahead log" in place for place in receipt.beyond)
    assert any("backups" in place for place in receipt.beyond)


@pytest.mark.promise("B-07")
async def test_the_other_person_is_still_there(
    people_database: PostgresDatabase, admin: Raw, store_name: str
) -> None:
    before = where(admin, "bob")
    async with clew.open(people_database.url) as db:
        await db.erase(owner="alice")
        ids = [thread.id for thread in (await db.threads(owner="bob", system=True)).threads]
        verdicts = [await db.thread(id).verify() for id in ids]

    assert where(admin, "bob") == before
    assert len(verdicts) == 4
    assert all(verdict.ok for verdict in verdicts)


@pytest.mark.promise("B-07")
async def test_an_older_transaction_makes_the_receipt_wait(
    people_database: PostgresDatabase, admin: Raw, store_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "LOOKS", 2)
    async with clew.open(people_database.url) as db:
        with psycopg.connect(people_database.url) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM clew.items")
            waiting = await db.erase(owner="alice")
        receipts = await db.retention.settle()

    assert (waiting.status, waiting.waiting) == (PENDING, (vacuum.TRANSACTION_OPEN,))
    assert [(receipt.id, receipt.status) for receipt in receipts] == [(waiting.id, COMPLETE)]


@pytest.mark.promise("B-07", "F-10")
async def test_a_role_that_may_not_vacuum_leaves_that_to_the_owner(
    people_database: PostgresDatabase, admin: Raw, store_name: str
) -> None:
    name = f"login_{uuid4().hex}"
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE clew_app").format(sql.Identifier(name)))
    async with clew.open(people_database.url_for(name)) as db:
        waiting = await db.erase(owner="alice")
    async with clew.open(people_database.url) as db:
        receipts = await db.retention.settle()
    admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))

    assert (waiting.status, waiting.waiting) == (PENDING, (vacuum.NOT_ALLOWED,))
    assert [receipt.status for receipt in receipts] == [COMPLETE]
    assert where(admin, "alice") == []


@pytest.mark.crash
@pytest.mark.promise("B-07")
async def test_killed_in_the_middle_it_goes_on_and_ends(
    people_database: PostgresDatabase, admin: Raw, store_name: str
) -> None:
    command = [sys.executable, "-m", "tests.database.killed_erasure", people_database.url, "3"]
    process = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True)
    async with clew.open(people_database.url) as db:
        receipt = await db.erase(owner="alice")
        every = await db.retention.receipts()

    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    assert (receipt.counts["threads"], receipt.status) == (4, COMPLETE)
    assert every == [receipt]
    assert where(admin, "alice") == []
