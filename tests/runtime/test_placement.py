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
from clew.runtime.records.episodes import ACTIVE_EPISODE, Episode, EpisodeResult
from clew.runtime.records.feedback import FEEDBACK
from clew.testing.clock import Clock
from clew.testing.faults import FailingStore
from tests.runtime.gated_agent import (
    SAFE,
    WORDS,
    Companion,
    answer,
    gated_runtime,
    incident_log,
    learn,
    look_for_danger,
    records_of,
)
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]

INCOGNITO, LOCAL, SYNCED = MemoryMode.INCOGNITO, MemoryMode.LOCAL, MemoryMode.SYNCED
MINUTE = 60_000


@pytest.mark.promise("R-14")
async def test_nothing_is_asked_of_the_database(db: Database) -> None:
    store = FailingStore(db.store, fail_at=0)
    runtime = gated_runtime(Database(store).scope(tenant=db.tenant), look_for_danger, answer, learn)
    await runtime.run_turn("a", f"1 {WORDS}", mode=INCOGNITO)
    async for _ in runtime.stream_turn("a", f"My cat is called {WORDS}.", mode=INCOGNITO):
        pass
    await runtime.history("a")
    await runtime.session_status("a")
    await runtime.fork("a", "b")
    await runtime.record_voice_turn("a", text=WORDS, reply="Yes.")
    await runtime.end_session("a", feedback="positive")
    await runtime.close()

    assert store.calls == 0
    with pytest.raises(ThreadNotFound):
        await db.thread("a").head()


WATCHER = """
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
    from tests.runtime.gated_agent import answer, learn, look_for_danger, file_stats, gated_runtime
    async with clew.open(url) as db, gated_runtime(db, look_for_danger, answer, learn) as runtime:
        await runtime.run_turn("open", "Hi", user="ada")
        await runtime.sweep()
        before = file_stats(Path(folder))
        sys.addaudithook(watch)
        for text in texts:
            await runtime.run_turn("a", text, mode=MemoryMode.INCOGNITO)
        await runtime.end_session("a", feedback="negative")
        await runtime.run_turn("b", texts[0], mode=MemoryMode.INCOGNITO)
        count = len(opened)
        after = file_stats(Path(folder))
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
    process = subprocess.run(
        [sys.executable, "-c", WATCHER, f"sqlite:///{data}/agent.db", str(tmp_path), *texts],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    leaks = [path.name for path in tmp_path.rglob("*") if path.is_file() and b"Zanzibar" in path.read_bytes()]

    assert (process.stdout.splitlines(), process.returncode) == (["opened []", "changed []"], 0), (
        process.stderr
    )
    assert (leaks, "Zanzibar" in process.stderr) == ([], False)


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
    async with clew.open(url) as db, gated_runtime(db, look_for_danger, answer, learn) as runtime:
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
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", "3 help", mode=INCOGNITO)
        episode = await runtime.end_session("a", feedback="negative")
        incidents, feedback = (
            await incident_log(runtime.incognito_records()),
            await records_of(runtime.incognito_records(), FEEDBACK),
        )

    assert episode is not None
    assert [(row.level, row.thread, row.episode) for row in incidents] == [(3, "a", episode.id)]
    assert [(record.id, record.body["label"]) for record in feedback] == [(episode.id, "negative")]
    assert await incident_log(db) == []


@pytest.mark.promise("R-14")
async def test_what_a_stage_writes_beside_the_thread_is_not_kept(db: Database) -> None:
    async def write(state: Companion, ctx: clew.Context) -> None:
        assert ctx.turn.db is not None
        await ctx.memory_store.put(Record(kind="fact", id="1", body=WORDS))
        ctx.turn.record("note", {"said": WORDS})
        await ctx.turn.db.records.put(Record(kind="own", id="3", body=WORDS))
        assert ctx.session_memory_buffer is not None
        ctx.session_memory_buffer.add({"said": WORDS})

    async with gated_runtime(db, write) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        episode = (await runtime.session_status("a")).episode

    assert episode is not None
    assert [len(await records_of(db, kind)) for kind in ("fact", "note", "own", ACTIVE_EPISODE)] == [
        0,
        0,
        0,
        0,
    ]


async def test_ending_the_session_ends_the_turn_under_way(db: Database) -> None:
    start = asyncio.Event()

    async def wait(state: Companion, ctx: clew.Context) -> None:
        start.set()
        await asyncio.Event().wait()

    async with gated_runtime(db, wait) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi", mode=INCOGNITO))
        await start.wait()
        queue_result = await runtime.run_turn("a", "And this", busy="queue")
        episode = await runtime.end_session("a")

        assert episode is not None
        assert ((await turn).termination, queue_result.termination) == ("cancelled", "queued")
        assert runtime.is_idle


@pytest.mark.promise("R-14")
async def test_memory_is_kept_for_the_session_and_not_beyond(db: Database) -> None:
    memories: list[list[str]] = []

    async def recall(state: Companion, ctx: clew.Context) -> None:
        assert ctx.turn.db is not None
        facts = (await memory_of(ctx.turn.db, ctx.turn.thread, ctx.turn.user).page()).facts
        memories.append([fact.object for fact in facts])

    async with gated_runtime(db, recall, learn) as runtime:
        for message in ("My cat is called Tom.", "Hi"):
            await runtime.run_turn("a", message, mode=INCOGNITO)
        await runtime.end_session("a")
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)

    assert memories == [[], ["Tom"], []]


@pytest.mark.promise("R-14")
async def test_ending_the_session_forgets_what_was_said(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        texts = [item.body["content"] for item in await runtime.history("a")]
        episode = await runtime.end_session("a")

        assert episode is not None
        assert (texts, episode.status) == (["Hi", "I hear you."], "ended")
        with pytest.raises(ThreadNotFound):
            await runtime.history("a")


@pytest.mark.promise("R-14")
async def test_a_thread_that_nobody_touches_is_forgotten(db: Database) -> None:
    clock = Clock()
    async with gated_runtime(db, clock=clock) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        clock.advance(19 * MINUTE)
        await runtime.sweep()
        count = len(await runtime.history("a"))
        clock.advance(2 * MINUTE)
        await runtime.sweep()

        assert count == 2
        with pytest.raises(ThreadNotFound):
            await runtime.history("a")


async def test_a_thread_with_a_turn_under_way_is_not_forgotten(db: Database) -> None:
    clock, start, go_on = Clock(), asyncio.Event(), asyncio.Event()

    async def wait(state: Companion, ctx: clew.Context) -> None:
        start.set()
        await go_on.wait()

    async with gated_runtime(db, wait, answer, clock=clock) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi", mode=INCOGNITO))
        await start.wait()
        clock.advance(30 * MINUTE)
        await runtime.sweep()
        go_on.set()

        assert (await turn).text == "I hear you."


@pytest.mark.promise("R-14")
async def test_closing_the_runtime_forgets_everything(db: Database) -> None:
    runtime = gated_runtime(db)
    async with runtime:
        await runtime.run_turn("a", f"1 {WORDS}", mode=INCOGNITO)
        stores = [session.placement.db.store for session in runtime._placements._sessions.values()]

    assert [(await store.report()).healthy for store in stores] == [False]
    assert not runtime._placements.is_incognito("a")


@pytest.mark.promise("R-14")
async def test_no_incognito_session_is_summarised_whatever_ends_it(db: Database) -> None:
    clock, threads = Clock(), list[str]()

    async def summarise(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        threads.append(of.thread)
        return EpisodeResult(episode=of)

    async with gated_runtime(
        db, clock=clock, finalize=summarise, finalize_active_sessions_on_close=True
    ) as runtime:
        await runtime.run_turn("ended", "Hi", mode=INCOGNITO)
        await runtime.end_session("ended")
        await runtime.run_turn("idle", "Hi", mode=INCOGNITO)
        clock.advance(21 * MINUTE)
        await runtime.sweep()
        await runtime.run_turn("closed", "Hi", mode=INCOGNITO)
        await runtime.run_turn("kept", "Hi")

    assert threads == ["kept"]


@pytest.mark.promise("R-15")
async def test_a_thread_that_began_incognito_stays_so(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        await runtime.run_turn("a", "And again")
        texts = [item.body["content"] for item in await runtime.history("a")]
        with pytest.raises(ModeRefused) as error:
            await runtime.run_turn("a", "Hi", mode=LOCAL)

    assert (error.value.asked, error.value.offered) == ("local", "incognito")
    assert texts == ["Hi", "I hear you.", "And again", "I hear you."]
    with pytest.raises(ThreadNotFound):
        await db.thread("a").head()


@pytest.mark.promise("R-15")
async def test_another_user_neither_sees_nor_joins_an_incognito_thread(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)

        with pytest.raises(ModeRefused):
            await runtime.history("a", user="eve")
        with pytest.raises(ModeRefused) as error:
            await runtime.run_turn("a", "Hi", user="eve")
        mode = "synced" if db.store.name == "postgres" else "local"
        assert (error.value.asked, error.value.offered) == (mode, "incognito")
        assert (await runtime.threads()).threads == ()


@pytest.mark.promise("R-14")
async def test_a_runtime_that_is_always_incognito_lists_nothing_of_the_database(db: Database) -> None:
    await db.create("a")
    async with gated_runtime(db, memory_mode=INCOGNITO) as runtime:
        await runtime.run_turn("b", "Hi")

        assert (await runtime.threads()).threads == ()


@pytest.mark.promise("R-15")
@pytest.mark.parametrize(
    ("ceiling", "mode"), [(INCOGNITO, LOCAL), (INCOGNITO, SYNCED), (LOCAL, SYNCED)], ids=str
)
async def test_a_request_cannot_step_up(db: Database, ceiling: MemoryMode, mode: MemoryMode) -> None:
    async with gated_runtime(db, memory_mode=ceiling) as runtime:
        with pytest.raises(ModeRefused) as error:
            await runtime.run_turn("a", "Hi", mode=mode)

    assert (error.value.code, error.value.asked, error.value.offered) == (
        "mode_refused",
        mode.value,
        ceiling.value,
    )


@pytest.mark.promise("R-15")
async def test_only_a_store_that_machines_share_is_synced(db: Database) -> None:
    if db.store.name == "postgres":
        async with gated_runtime(db, memory_mode=SYNCED) as runtime:
            result = await runtime.run_turn("a", "Hi", mode=SYNCED)
            with pytest.raises(ModeRefused):
                await runtime.run_turn("a", "Hi", mode=LOCAL)

        assert result.text == "I hear you."
        return
    with pytest.raises(ModeRefused) as error:
        gated_runtime(db, memory_mode=SYNCED)
    assert str(error.value).startswith("Mode 'synced' cannot be had where 'local' is offered: ")
    assert "not shared between machines" in str(error.value)


@pytest.mark.promise("R-15")
async def test_the_store_decides_on_the_mode_of_a_runtime_that_is_given_none(db: Database) -> None:
    modes: list[MemoryMode] = []

    async def look(state: Companion, ctx: clew.Context) -> None:
        modes.append(ctx.memory_mode)

    async with clew.Runtime(db, schema=Companion, stages=[look]) as runtime:
        await runtime.run_turn("a", "Hi")
        await runtime.run_turn("b", "Hi", mode=INCOGNITO)

    mode = SYNCED if db.store.name == "postgres" else LOCAL
    assert (runtime.memory_mode, modes) == (mode, [mode, INCOGNITO])


@pytest.mark.promise("R-15")
async def test_stages_are_told_the_mode_of_their_turn(db: Database) -> None:
    modes: list[MemoryMode] = []

    async def look(state: Companion, ctx: clew.Context) -> None:
        modes.append(ctx.memory_mode)

    async with gated_runtime(db, look, memory_mode=LOCAL) as runtime:
        await runtime.run_turn("a", "Hi")
        await runtime.run_turn("b", "Hi", mode=INCOGNITO)
        await runtime.run_turn("c", "Hi", mode=LOCAL)
    await run_agent("Hi", schema=Companion, stages=[look])

    assert modes == [LOCAL, INCOGNITO, LOCAL, INCOGNITO]


@pytest.mark.promise("R-14")
async def test_where_requests_may_reach_another_process_incognito_is_refused(db: Database) -> None:
    async with gated_runtime(db, pinned=False) as runtime:
        with pytest.raises(ModeRefused) as error:
            await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        result = await runtime.run_turn("a", "Hi")

    assert "lives in one process" in str(error.value)
    assert result.text == "I hear you."


@pytest.mark.promise("R-14")
async def test_a_runtime_cannot_be_incognito_where_requests_may_reach_another_process(db: Database) -> None:
    with pytest.raises(ModeRefused) as error:
        gated_runtime(db, memory_mode=INCOGNITO, pinned=False)

    assert (error.value.asked, error.value.offered) == ("incognito", "local")


async def test_a_durable_thread_is_untouched_by_an_incognito_one_of_its_id(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", "For good")
        await runtime.run_turn("a", "In passing", mode=INCOGNITO)
        passing = [item.body["content"] for item in await runtime.history("a")]
        await runtime.end_session("a")
        durable = [item.body["content"] for item in await runtime.history("a")]

    assert (passing, durable) == (["In passing", "I hear you."], ["For good", "I hear you."])


async def test_a_fork_is_incognito_and_takes_no_id_that_is_taken(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", "Hi", mode=INCOGNITO)
        await runtime.run_turn("c", "Hi", mode=INCOGNITO)
        await runtime.fork("a", "b")
        await runtime.end_session("a")
        texts = [item.body["content"] for item in await runtime.history("b")]
        with pytest.raises(ThreadExists):
            await runtime.fork("b", "c")

        assert texts == ["Hi", "I hear you."]
    with pytest.raises(ThreadNotFound):
        await db.thread("b").head()


async def test_a_turn_with_a_key_is_repeated_within_the_session(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        first = await runtime.run_turn("a", "Hi", mode=INCOGNITO, key="k")
        again = await runtime.run_turn("a", "Hi", key="k")
        queue_result = await runtime.run_turn("a", "Later", busy="queue")

        assert (again, queue_result.text, len(await runtime.history("a"))) == (first, "I hear you.", 4)


@pytest.mark.promise("R-14")
def test_the_edges_clear_the_user_id() -> None:
    assert [user_for_mode(mode, "ada") for mode in (INCOGNITO, LOCAL, SYNCED, None)] == [
        None,
        "ada",
        "ada",
        "ada",
    ]


async def test_a_crisis_is_answered_incognito_too(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        result = await runtime.run_turn("a", "3 help", mode=INCOGNITO)

    assert (result.text, result.output.crisis) == (SAFE, 3)
