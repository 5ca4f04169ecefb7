"""Both stores: an append among a million other threads costs what it costs in an empty database."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import psycopg
from psycopg import sql

import clew
from bench import ours
from bench.clock import Timing, turn_by_turn
from bench.ground import Ground
from bench.verdict import Bound, Section, of_latency

THREADS = 1_000_000
BOUNDS = {
    backend: Bound(
        what=f"{backend}: append among 1,000,000 other threads, against an empty database",
        sign="≤",
        target=1.5,
    )
    for backend in ("SQLite", "PostgreSQL")
}


async def measure(ground: Ground) -> Section:
    """1,000 turns into each, turn by turn."""
    crowd = ground.count(THREADS, 20_000)
    full, empty = ground.folder() / "full.db", ground.folder() / "empty.db"
    await load_sqlite(full, crowd)
    sqlite = await _compare(ground, f"sqlite:///{full}", f"sqlite:///{empty}")
    full_url, empty_url = ground.database(), ground.database()
    await load_postgres(full_url, crowd)
    postgres = await _compare(ground, full_url, empty_url)
    return Section(
        title=f"Append among {crowd:,} other threads",
        timings=[*sqlite, *postgres],
        verdicts=[
            *of_latency(BOUNDS["SQLite"], sqlite, "crowded", "empty"),
            *of_latency(BOUNDS["PostgreSQL"], postgres, "crowded", "empty"),
        ],
    )


SQLITE = """
BEGIN;
INSERT INTO threads (key, tenant, id, owner, created, updated, version, hash, counters, segments, labels)
SELECT key + n, tenant, id || n, owner, created + n, updated, version, hash, counters, segments, labels
FROM threads, numbers WHERE id = 'crowd';
INSERT INTO logs (key, thread, name)
SELECT key + n, thread + n, name FROM logs, numbers WHERE key = 1;
INSERT INTO changesets (at, time, envelope, content, salt, hash, counters)
SELECT at + (n << 32), time, envelope, content, salt, hash, counters
FROM changesets, numbers WHERE at >> 32 = 1;
INSERT INTO items (at, version, time, meta, body, salt)
SELECT at + (n << 32), version, time, meta, body, salt FROM items, numbers WHERE at >> 32 = 1;
COMMIT;
"""

POSTGRES = """
CREATE TEMP TABLE crowd AS SELECT n, gen_random_uuid() AS new FROM generate_series(1, {threads}) AS n;
INSERT INTO clew.threads (tenant, key, id, owner, created, updated, version, hash, counters)
SELECT tenant, new, id || n, owner, created + n, updated, version, hash, counters
FROM clew.threads, crowd WHERE id = 'crowd';
INSERT INTO clew.thread_ids (tenant, id, key, owner)
SELECT tenant, id, key, owner FROM clew.threads WHERE id <> 'crowd';
INSERT INTO clew.listing (tenant, whose, created, id, key, owner)
SELECT tenant, whose, created, id, key, owner FROM clew.threads, unnest(ARRAY['', owner]) AS whose
WHERE id <> 'crowd' AND whose IS NOT NULL;
INSERT INTO clew.changesets (tenant, key, version, owner, time, envelope, content, salt, hash, counters)
SELECT tenant, new, version, owner, time, envelope, content, salt, hash, counters
FROM clew.changesets, crowd
WHERE key = (SELECT key FROM clew.threads WHERE id = 'crowd');
INSERT INTO clew.items (tenant, key, log, place, version, time, owner, meta, body, salt)
SELECT tenant, new, log, place, version, time, owner, meta, body, salt FROM clew.items, crowd
WHERE key = (SELECT key FROM clew.threads WHERE id = 'crowd');
"""


async def load_sqlite(path: Path, threads: int) -> None:
    """Copy a thread of one message so many times, straight in the tables of a new file."""
    await _first_of_crowd(f"sqlite:///{path}")
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("synchronous", "OFF")
        connection.execute(
            "CREATE TEMP TABLE numbers AS WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up"
            " WHERE n < ?) SELECT n FROM up",
            (threads,),
        )
        connection.execute(SQLITE)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


async def load_postgres(url: str, threads: int) -> None:
    """Copy a thread of one message so many times, straight in the tables of a new database."""
    await _first_of_crowd(url)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for statement in POSTGRES.split(";")[:-1]:
            await connection.execute(sql.SQL(statement).format(threads=sql.Literal(threads)))
        await connection.execute("VACUUM ANALYZE")


async def _first_of_crowd(url: str) -> None:
    async with clew.open(url) as db:
        thread = await db.create("crowd", owner="bench")
        await thread.append(items=[clew.user("Somebody said something here once.")])


async def _compare(ground: Ground, full: str, empty: str) -> tuple[Timing, Timing]:
    pace = ground.pace(rounds=20, block=50)
    async with ours.append(full, name="crowded") as busy, ours.append(empty, name="empty") as alone:
        return await turn_by_turn((busy, alone), pace)
