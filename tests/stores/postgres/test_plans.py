"""What PostgreSQL reads for a call depends on the call alone, however much the tables have grown since."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

import clew
from clew.core.values import Put, Record
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.postgres

CROWD = 20_000
CALM = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'clew' LOOP
        EXECUTE format('ALTER TABLE clew.%I SET (autovacuum_enabled = false)', name);
    END LOOP;
END $$
"""
GROW = f"""
INSERT INTO clew.threads (tenant, key, id, owner, created, updated, version, hash, counters)
    SELECT tenant, gen_random_uuid(), 'crowd ' || n, owner, created + n, updated, version, hash, counters
    FROM clew.threads, generate_series(1, {CROWD}) AS n WHERE id = 'mine';
INSERT INTO clew.thread_ids (tenant, id, key, owner)
    SELECT tenant, id, key, owner FROM clew.threads WHERE id <> 'mine';
INSERT INTO clew.listing (tenant, whose, created, id, key, owner)
    SELECT tenant, '', created, id, key, owner FROM clew.threads WHERE id <> 'mine';
INSERT INTO clew.records (tenant, kind, id, tags, sort, revision, body)
    SELECT tenant, kind, 'crowd ' || n, tags, n, 1, body
    FROM clew.records, generate_series(1, {CROWD}) AS n WHERE id = 'mine';
INSERT INTO clew.record_tags (tenant, kind, tag, sort, id)
    SELECT tenant, kind, '', sort, id FROM clew.records WHERE id LIKE 'crowd %';
"""
READ = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'clew'"
OTHERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
SEQUENTIAL_READS = (
    "SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'clew' AND relname <> 'meta'"
)


async def use(db: clew.Database) -> None:
    """Everything that is done all the time."""
    thread = db.thread("mine")
    await thread.append(items=[clew.user("Hi", id="an id")], patches=[clew.increment(["n"])], key=None)
    await thread.head()
    await thread.items(last=5)
    await thread.items_by_id(["an id"])
    await db.threads(limit=3)
    await db.commit(
        [Put(record=Record(kind="k", id="mine", body={})), Put(record=Record(kind="k", id="2", body={}))]
    )
    await db.records.get("k", "mine")


def grow(database: PostgresDatabase, admin: psycopg.Connection[Any]) -> None:
    """Fill the tables by a connection that has then ended: what it scanned itself is counted by then."""
    with psycopg.connect(database.url, autocommit=True) as filling:
        pid = filling.info.backend_pid
        filling.execute(GROW)
    wait_for_end(admin, pid)


def wait_for_end(admin: psycopg.Connection[Any], *pids: int) -> None:
    """Wait for backends whose connections were closed: each hands in its counts as it ends."""
    while admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)", (list(pids),)).fetchall():
        time.sleep(0.002)


def store_pids(admin: psycopg.Connection[Any]) -> list[int]:
    """Return the backends of everybody else who is connected to the database."""
    rows = admin.execute(OTHERS).fetchall()
    return [pid for (pid,) in rows]


class TestPlans:
    store_name = "postgres"

    @pytest.mark.promise("S-01")
    async def test_a_plan_made_for_one_thread_is_right_for_many(
        self, postgres_database: PostgresDatabase
    ) -> None:
        with psycopg.connect(postgres_database.url, autocommit=True) as admin:
            admin.execute(CALM)
            async with clew.open(f"{postgres_database.url}?pool_max=1") as db:
                await db.create("mine")
                for _ in range(3):
                    await use(db)
                admin.execute("ANALYZE")
                for _ in range(10):
                    await use(db)
                grow(postgres_database, admin)
                admin.execute("SELECT pg_stat_reset()")
                for _ in range(10):
                    await use(db)
                pids = store_pids(admin)
            wait_for_end(admin, *pids)
            admin.execute("SELECT pg_stat_clear_snapshot()")
            (read,), (scans,) = *admin.execute(READ).fetchall(), *admin.execute(SEQUENTIAL_READS).fetchall()

        assert 0 < read < CROWD / 10
        assert scans == 0
