"""Everything about one person as one archive: whole, of nobody else, and the same when it comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

import clew
from clew.cli.app import run
from clew.core.encoding import JSON
from clew.core.errors import ArchiveInvalid, RevisionConflict, ThreadExists
from clew.core.ports import Store
from clew.core.values import Record, Scope
from clew.database.archive import ImportResult, import_threads
from clew.database.database import Database
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.memory import Memory
from clew.runtime.person_export import export_person
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.stores.memory import MemoryStore
from clew.testing.scripted_model import ScriptedModel

INCIDENT = Record(kind="retained", id="c1", owner="alice", body={"level": 2})


async def a_life(db: Database) -> None:
    """Two people talk, end their sessions, and one of them begins another; an operator notes something."""
    async with clew.Runtime(
        db,
        model=ScriptedModel(*["I see."] * 9),
        finalize=Finalizer(),
        config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False)),
    ) as runtime:
        for user in ("alice", "bob"):
            await runtime.run_turn(f"{user}-1", f"My sister is called {user.title()}ina.", user=user)
            await runtime.end_session(f"{user}-1", feedback="positive", user=user)
        await runtime.run_turn("alice-2", "Me again", user="alice")
        await runtime.run_turn("nobody", "I have no name.")
    await db.records.put(INCIDENT)


async def lines_of(db: Database, owner: str = "alice") -> list[bytes]:
    return [line async for line in export_person(db, owner)]


async def each(lines: Sequence[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def import_lines(lines: Sequence[bytes], store: Store, *, skip_existing: bool = False) -> ImportResult:
    return await import_threads(store, Scope(), each(lines), skip_existing=skip_existing)


def records(lines: Sequence[bytes]) -> list[JSON]:
    return [line for line in map(msgspec.json.decode, lines) if line["clew"] == "record"]


@pytest.mark.promise("B-11")
async def test_an_archive_of_a_person_has_all_that_is_theirs_and_nothing_else(db: Database) -> None:
    await a_life(db)
    lines = await lines_of(db)
    entries = [msgspec.json.decode(line) for line in lines]

    assert sorted(line["id"] for line in entries if line["clew"] == "thread") == [
        "alice-1",
        "alice-2",
        "memory/alice",
    ]
    assert sorted({line["kind"] for line in records(lines)}) == [
        "active episode",
        "episode",
        "feedback",
        "run",
    ]
    assert {line["owner"] for line in records(lines)} == {"alice"}
    assert b"Bobina" not in b"".join(lines)


@pytest.mark.promise("B-11")
async def test_it_comes_back_elsewhere_and_is_the_same_to_the_byte(db: Database) -> None:
    await a_life(db)
    lines, store = await lines_of(db), MemoryStore()
    result = await import_lines(lines, store)
    other = Database(store)
    (fact,) = (await Memory(other, "alice").page()).facts

    assert await lines_of(other) == lines
    assert (len(result.threads), result.records) == (3, len(records(lines)))
    assert fact.object == "Aliceina"


@pytest.mark.promise("R-13")
async def test_a_session_goes_on_where_it_was_imported(db: Database) -> None:
    await a_life(db)
    other = Database(MemoryStore())
    await import_lines(await lines_of(db), other.store)
    async with clew.Runtime(other, model=ScriptedModel("Hello"), finalize=Finalizer()) as runtime:
        await runtime.run_turn("alice-2", "And on we go", user="alice")
        episode = await runtime.end_session("alice-2", user="alice")

    assert episode is not None
    assert episode.turns == 2


async def test_an_altered_record_is_refused(db: Database) -> None:
    await a_life(db)
    lines = [line.replace(b'"positive"', b'"negative"') for line in await lines_of(db)]

    with pytest.raises(ArchiveInvalid, match="the record was altered"):
        await import_lines(lines, MemoryStore())


async def test_what_is_there_already_is_refused_or_passed_over(db: Database) -> None:
    await a_life(db)
    lines, store = await lines_of(db), MemoryStore()
    await import_lines(lines, store)
    only_records = [lines[0], *(line for line in lines if b'"clew":"record"' in line)]
    with pytest.raises(ThreadExists):
        await import_lines(lines, store)
    with pytest.raises(RevisionConflict):
        await import_lines(only_records, store)
    again = await import_lines(lines, store, skip_existing=True)

    assert (again.threads, len(again.skipped), again.records) == ((), 3, 0)


async def test_a_user_takes_in_only_what_is_their_own(db: Database) -> None:
    await a_life(db)
    lines = await lines_of(db)
    only_records = [lines[0], *(line for line in lines if b'"clew":"record"' in line)]

    with pytest.raises(ArchiveInvalid, match="another owner"):
        await import_threads(MemoryStore(), Scope(user="bob"), each(lines))
    with pytest.raises(ArchiveInvalid, match="owned by 'alice'"):
        await import_threads(MemoryStore(), Scope(user="bob"), each(only_records))


def test_the_command_writes_a_person_and_another_database_takes_them_in(
    shared_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def prepare() -> None:
        async with clew.open(shared_url) as db:
            await a_life(db)

    asyncio.run(prepare())
    first, second = str(tmp_path / "first.jsonl"), str(tmp_path / "second.jsonl")
    other = f"sqlite:///{tmp_path / 'other.db'}"
    codes = [
        run(["export", "--owner", "alice", "--db", shared_url, "-o", first]),
        run(["import", first, "--db", other]),
        run(["export", "--owner", "alice", "--db", other, "-o", second]),
        run(["export", "--owner", "alice", "--user", "bob", "--db", other, "-o", "-"]),
    ]
    output = capsys.readouterr()
    capsys.readouterr()
    run(["memory", "list", "--owner", "alice", "--db", other, "--json"])
    export = json.loads(capsys.readouterr().out)

    assert codes == [0, 0, 0, 1]
    assert Path(first).read_bytes() == Path(second).read_bytes()
    assert "3 threads and" in output.out
    assert [fact["object"] for fact in export["facts"]] == ["Aliceina"]


async def test_erasing_a_person_takes_their_records_out_of_an_archive_too(tmp_path: Path) -> None:
    async with clew.open(f"sqlite:///{tmp_path / 'test.db'}") as db:
        await a_life(db)
        theirs, everyone = tmp_path / "alice.jsonl", tmp_path / "both.jsonl"
        alice, bob = await lines_of(db), await lines_of(db, "bob")
        theirs.write_bytes(b"".join(alice))
        everyone.write_bytes(b"".join(archive_of(alice, bob)))
        before = everyone.read_bytes().count(b'"owner":"alice"')
        await db.erase(owner="alice")
    lines = everyone.read_bytes().splitlines(keepends=True)

    assert before > 0
    assert not theirs.exists()
    assert b"alice" not in b"".join(lines)
    assert lines == bob


def archive_of(*archives: Sequence[bytes]) -> list[bytes]:
    """One archive of several: all of their threads, then all of their records, and the sums."""
    totals = [msgspec.json.decode(lines[-1]) for lines in archives]
    sums: dict[str, JSON] = {
        name: sum(total.get(name, 0) for total in totals)
        for name in ("threads", "changesets", "items", "records")
    }
    inner = [line for lines in archives for line in lines[1:-1]]
    beside = [line for line in inner if b'"clew":"record"' in line]
    threads = [line for line in inner if line not in beside]
    return [archives[0][0], *threads, *beside, msgspec.json.encode({"clew": "total", **sums}) + b"\n"]
