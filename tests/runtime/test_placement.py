"""Modes: a request may step down to incognito, and then nothing of it is kept beyond this process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

import clew
from clew.core.errors import ModeRefused, ThreadExists, ThreadNotFound
from clew.core.values import Record
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.execution.stateless import run_agent
from clew.runtime.memory.memory import memory_of
from clew.runtime.model.messages import Message
from clew.runtime.placement import user_for_mode
from clew.runtime.records.episodes import ACTIVE_EPISODE, FEEDBACK, Episode, EpisodeResult
from clew.testing.clock import Clock
from clew.testing.faults import FailingStore
from tests.runtime.gated_agent import (
    SAFE,
    WORDS,
    Companion,
    answer,
    found,
    learn,
    logged,
    look_for_danger,
    talking,
)
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]

INCOGNITO, LOCAL, SYNCED = MemoryMode.INCOGNITO, MemoryMode.LOCAL, MemoryMode.SYNCED
MINUTE = 60_000


@pytest.mark.promise("R-14")
async def test_nothing_is_asked_of_the_database(db: Database) -> None:
    counted = FailingStore(db.store, fail_at=0)
    runtime = talking(Database(counted).scope(tenant=db.tenant), look_for_danger, answer, learn)
    await runtime.run_turn("a", f"1 {WORDS}", mode=INCOGNITO)
    async for _ in runtime.stream_turn("a", f"My cat is called {WORDS}.", mode=INCOGNITO):
        pass
    await runtime.history("a")
    await runtime.session_status("a")
    await runtime.fork("a", "b")
    await runtime.record_voice_turn("a", text=WORDS, reply="Yes.")
    await runtime.end_session("a", feedback="positive")
    await runtime.close()

    assert counted.calls == 0
    with pytest.raises(ThreadNotFound):
        await db.thread("a").head()


WATCHED = """
import asyncio, os, sys
opened = []
def watch(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)) and (
        (isinstance(args[1], str) and set(args[1]) & set("wax+"))
        or (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))):
        opened.append(os.fsdecode(args[0]))
    if event in ("os.mkdir", "os.rename", "tempfile.mkstemp", "subprocess.Popen", "socket.connect"):
        opened.append(event)

async def main(url, folder, *texts):
    import clew
    from pathlib import Path
    from clew.runtime.context import MemoryMode
    from tests.runtime.gated_agent import answer, learn, look_for_danger, seen, talking
    async with clew.open(url) as db, talking(db, look_for_danger, answer, learn) as runtime:
        await runtime.run_turn("open", "Hi", user="ada")
        await runtime.sweep()
        before = seen(Path(folder))
        sys.addaudithook(watch)
        for text in texts:
            await runtime.run_turn("a", text, mode=MemoryMode.INCOGNITO)
        await runtime.end_session("a", feedback="negative")
        await runtime.run_turn("b", texts[0], mode=MemoryMode.INCOGNITO)
        count = len(opened)
        after = seen(Path(folder))
    print("opened", [path for path in opened[:count] if not path.endswith(".pyc")])
    print("changed", [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)])

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.promise("R-14")
def test_nothing_is_written_to_the_file_system(tmp_path: Path) -> None:
    data, temporary = tmp_path / "data", tmp_path / "tmp"
    data.mkdir()
    temporary.mkdir()
    texts = [f"1 {WORDS}", f"My cat is called {WORDS}.", f"2 {WORDS}"]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, f"sqlite:///{data}/agent.db", str(tmp_path), *texts],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    leaks = [path.name for path in tmp_path.rglob("*") if path.is_file() and b"Zanzibar" in path.read_bytes()]

    assert (done.stdout.splitlines(), done.returncode) == (["opened []", "changed []"], 0), done.stderr
    assert (leaks, "Zanzibar" in done.stderr) == ([], False)


def rows_of(url: str) -> dict[str, list[str]]:
    """Every row of every table, with the transaction that wrote it."""
    every = sql.SQL("SELECT xmin::text, t::text FROM clew.{} t")
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'clew'")
        return {
            name: sorted(map(str, connection.execute(every.format(sql.Identifier(name)))))
            for (name,) in tables.fetchall()
        }


@pytest.mark.promise("R-14")
@pytest.mark.postgres
async def test_no_row_of_any_table_is_written(postgres_database: Any) -> None:
    url = str(postgres_database.url)
    async with clew.open(url) as db, talking(db, look_for_danger, answer, learn) as runtime:
        await runtime.run_turn("open", "Hi", user="ada")
        await runtime.sweep()
        before = await asyncio.to_thread(rows_of, url)
        await runtime.run_turn("a", f"1 {WORDS}", mode=INCOGNITO)
        await runtime.run_turn("a", f"My cat is called {WORDS}.", mode=INCOGNITO)
        await runtime.end_session("a", feedback="positive")
        await runtime.sweep()
        after = await asyncio.to_thread(rows_of, url)

    assert after == before
    assert len(before) > 5
    assert any(before.values())


@pytest.mark.promise("R-14", "R-22", "R-23")
async def test_retained_records_and_feedback_still_record_in_memory(db: Database) -> None:
    async with talking(db) as runtime:
        await runtime.run_turn("a", "3 help", mode=INCOGNITO)
        ended = await runtime.end_session("a", feedback="negative")
        incidents, felt = (
            await logged(runtime.incognito_records()),
            await found(runtime.incognito_records(), FEEDBACK),
        )

    assert ended is not None
    assert [(row.level, row.thread, row.episode) for row in incidents] == [(3, "a", ended.id)]
    assert [(record.id, record.body["label"]) for record in felt] == [(ended.id, "negative")]
    assert await logged(db) == []


@pytest.mark.promise("R-14")
async def test_what_a_stage_writes_beside_the_thread_is_not_kept(db: Database) -> None:
    async def write(state: Companion, ctx: clew.Context) -> None:
        assert ctx.turn.db is not None
        await ctx.memory_store.put(Record(kind="fact", id="1", body=WORDS))
        ctx.turn.record("note", {"said": WORDS})
        await ctx.turn.db.records.put(Record(kind="own", id="3", body=WORDS))
        assert ctx.session_memory_buffer is not None
        ctx.session_memory_buffer.add({"said": WORDS})

    async with talking(db, write) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        episode = (await runtime.session_status("a")).episode

    assert episode is not None
    assert [len(await found(db, kind)) for kind in ("fact", "note", "own", ACTIVE_EPISODE)] == [0, 0, 0, 0]


async def test_ending_the_session_ends_the_turn_under_way(db: Database) -> None:
    begun = asyncio.Event()

    async def wait(state: Companion, ctx: clew.Context) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with talking(db, wait) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi", mode=INCOGNITO))
        await begun.wait()
        queued = await runtime.run_turn("a", "And this", busy="queue")
        ended = await runtime.end_session("a")

        assert ended is not None
        assert ((await turn).termination, queued.termination) == ("cancelled", "queued")
        assert runtime.is_idle


@pytest.mark.promise("R-14")
async def test_memory_is_kept_for_the_session_and_not_beyond(db: Database) -> None:
    known: list[list[str]] = []

    async def recall(state: Companion, ctx: clew.Context) -> None:
        assert ctx.turn.db is not None
        facts = (await memory_of(ctx.turn.db, ctx.turn.thread, ctx.turn.user).page()).facts
        known.append([fact.object for fact in facts])

    async with talking(db, recall, learn) as runtime:
        for message in ("My cat is called Tom.", "Hi"):
            await runtime.run_turn("a", message, mode=INCOGNITO)
        await runtime.end_session("a")
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)

    assert known == [[], ["Tom"], []]


@pytest.mark.promise("R-14")
async def test_ending_the_session_forgets_what_was_said(db: Database) -> None:
    async with talking(db) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        said = [item.body["content"] for item in await runtime.history("a")]
        ended = await runtime.end_session("a")

        assert ended is not None
        assert (said, ended.status) == (["Hi", "I hear you."], "ended")
        with pytest.raises(ThreadNotFound):
            await runtime.history("a")


@pytest.mark.promise("R-14")
async def test_a_thread_that_nobody_touches_is_forgotten(db: Database) -> None:
    clock = Clock()
    async with talking(db, clock=clock) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        clock.advance(19 * MINUTE)
        await runtime.sweep()
        kept = len(await runtime.history("a"))
        clock.advance(2 * MINUTE)
        await runtime.sweep()

        assert kept == 2
        with pytest.raises(ThreadNotFound):
            await runtime.history("a")


async def test_a_thread_with_a_turn_under_way_is_not_forgotten(db: Database) -> None:
    clock, begun, go_on = Clock(), asyncio.Event(), asyncio.Event()

    async def wait(state: Companion, ctx: clew.Context) -> None:
        begun.set()
        await go_on.wait()

    async with talking(db, wait, answer, clock=clock) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi", mode=INCOGNITO))
        await begun.wait()
        clock.advance(30 * MINUTE)
        await runtime.sweep()
        go_on.set()

        assert (await turn).text == "I hear you."


@pytest.mark.promise("R-14")
async def test_closing_the_runtime_forgets_everything(db: Database) -> None:
    runtime = talking(db)
    async with runtime:
        await runtime.run_turn("a", f"1 {WORDS}", mode=INCOGNITO)
        stores = [session.placement.db.store for session in runtime._placements._sessions.values()]

    assert [(await store.report()).healthy for store in stores] == [False]
    assert not runtime._placements.is_incognito("a")


@pytest.mark.promise("R-14")
async def test_no_incognito_session_is_summarised_whatever_ends_it(db: Database) -> None:
    clock, summarised = Clock(), list[str]()

    async def summarise(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        summarised.append(of.thread)
        return EpisodeResult(episode=of)

    async with talking(
        db, clock=clock, finalize=summarise, finalize_active_sessions_on_close=True
    ) as runtime:
        await runtime.run_turn("ended", "Hi", mode=INCOGNITO)
        await runtime.end_session("ended")
        await runtime.run_turn("idle", "Hi", mode=INCOGNITO)
        clock.advance(21 * MINUTE)
        await runtime.sweep()
        await runtime.run_turn("closed", "Hi", mode=INCOGNITO)
        await runtime.run_turn("kept", "Hi")

    assert summarised == ["kept"]


@pytest.mark.promise("R-15")
async def test_a_thread_that_began_incognito_stays_so(db: Database) -> None:
    async with talking(db) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        await runtime.run_turn("a", "And again")
        said = [item.body["content"] for item in await runtime.history("a")]
        with pytest.raises(ModeRefused):
            await runtime.run_turn("a", "Hi", mode=LOCAL)

    assert said == ["Hi", "I hear you.", "And again", "I hear you."]
    with pytest.raises(ThreadNotFound):
        await db.thread("a").head()


@pytest.mark.promise("R-15")
async def test_another_user_neither_sees_nor_joins_an_incognito_thread(db: Database) -> None:
    async with talking(db) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)

        with pytest.raises(ModeRefused):
            await runtime.history("a", user="eve")
        with pytest.raises(ModeRefused):
            await runtime.run_turn("a", "Hi", user="eve")
        assert (await runtime.threads()).threads == ()


@pytest.mark.promise("R-14")
async def test_a_runtime_that_is_always_incognito_lists_nothing_of_the_database(db: Database) -> None:
    await db.create("a")
    async with talking(db, memory_mode=INCOGNITO) as runtime:
        await runtime.run_turn("b", "Hi")

        assert (await runtime.threads()).threads == ()


@pytest.mark.promise("R-15")
@pytest.mark.parametrize(
    ("offered", "asked"), [(INCOGNITO, LOCAL), (INCOGNITO, SYNCED), (LOCAL, SYNCED)], ids=str
)
async def test_a_request_cannot_step_up(db: Database, offered: MemoryMode, asked: MemoryMode) -> None:
    async with talking(db, memory_mode=offered) as runtime:
        with pytest.raises(ModeRefused) as caught:
            await runtime.run_turn("a", "Hi", mode=asked)

    assert (caught.value.code, caught.value.asked, caught.value.offered) == (
        "mode_refused",
        asked.value,
        offered.value,
    )


@pytest.mark.promise("R-15")
async def test_only_a_store_that_machines_share_is_synced(db: Database) -> None:
    if db.store.name == "postgres":
        async with talking(db, memory_mode=SYNCED) as runtime:
            done = await runtime.run_turn("a", "Hi", mode=SYNCED)
            with pytest.raises(ModeRefused):
                await runtime.run_turn("a", "Hi", mode=LOCAL)

        assert done.text == "I hear you."
        return
    with pytest.raises(ModeRefused) as caught:
        talking(db, memory_mode=SYNCED)
    assert "not shared between machines" in str(caught.value)


@pytest.mark.promise("R-15")
async def test_stages_are_told_the_mode_of_their_turn(db: Database) -> None:
    told: list[MemoryMode] = []

    async def look(state: Companion, ctx: clew.Context) -> None:
        told.append(ctx.memory_mode)

    async with talking(db, look) as runtime:
        await runtime.run_turn("a", "Hi")
        await runtime.run_turn("b", "Hi", mode=INCOGNITO)
        await runtime.run_turn("c", "Hi", mode=LOCAL)
    await run_agent("Hi", schema=Companion, stages=[look])

    assert told == [LOCAL, INCOGNITO, LOCAL, INCOGNITO]


@pytest.mark.promise("R-14")
async def test_where_requests_may_reach_another_process_incognito_is_refused(db: Database) -> None:
    async with talking(db, pinned=False) as runtime:
        with pytest.raises(ModeRefused) as caught:
            await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        done = await runtime.run_turn("a", "Hi")

    assert "lives in one process" in str(caught.value)
    assert done.text == "I hear you."


async def test_a_durable_thread_is_untouched_by_an_incognito_one_of_its_id(db: Database) -> None:
    async with talking(db) as runtime:
        await runtime.run_turn("a", "For good")
        await runtime.run_turn("a", "In passing", mode=INCOGNITO)
        passing = [item.body["content"] for item in await runtime.history("a")]
        await runtime.end_session("a")
        durable = [item.body["content"] for item in await runtime.history("a")]

    assert (passing, durable) == (["In passing", "I hear you."], ["For good", "I hear you."])


async def test_a_fork_is_incognito_and_takes_no_id_that_is_taken(db: Database) -> None:
    async with talking(db) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        await runtime.run_turn("c", "Hi", mode=INCOGNITO)
        await runtime.fork("a", "b")
        await runtime.end_session("a")
        said = [item.body["content"] for item in await runtime.history("b")]
        with pytest.raises(ThreadExists):
            await runtime.fork("b", "c")

        assert said == ["Hi", "I hear you."]
    with pytest.raises(ThreadNotFound):
        await db.thread("b").head()


async def test_a_turn_with_a_key_is_repeated_within_the_session(db: Database) -> None:
    async with talking(db) as runtime:
        first = await runtime.run_turn("a", "Hi", mode=INCOGNITO, key="k")
        again = await runtime.run_turn("a", "Hi", key="k")
        queued = await runtime.run_turn("a", "Later", busy="queue")

        assert (again, queued.text, len(await runtime.history("a"))) == (first, "I hear you.", 4)


@pytest.mark.promise("R-14")
def test_the_edges_clear_the_user_id() -> None:
    assert [user_for_mode(mode, "ada") for mode in (INCOGNITO, LOCAL, SYNCED, None)] == [
        None,
        "ada",
        "ada",
        "ada",
    ]


async def test_a_crisis_is_answered_incognito_too(db: Database) -> None:
    async with talking(db) as runtime:
        done = await runtime.run_turn("a", "3 help", mode=INCOGNITO)

    assert (done.text, done.output.crisis) == (SAFE, 3)
