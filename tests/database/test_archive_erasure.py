"""Archives beside the database: an erased person is taken out, everybody else stays."""

# ruff: noqa: ASYNC240 - the files of a test are small

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

import clew
from clew.core.archive.format import encode_line, file_line
from clew.core.erasure.receipts import ARTIFACT_KIND, COMPLETE, DOCUMENT_KIND, PENDING
from clew.core.values import Record, Scope
from clew.database.archive import export_threads, import_threads
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.records.feedback import FEEDBACK
from clew.testing import ScriptedModel
from tests.database.people import WORDS, live, traces

pytestmark = [pytest.mark.usefixtures("long_lock_wait"), pytest.mark.parametrize("store_name", ["sqlite"])]


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[clew.Database]:
    async with clew.open(f"sqlite:///{tmp_path}/agent.db") as db:
        await live(db, "alice", items=5)
        await live(db, "bob", items=5)
        yield db


async def export(
    db: clew.Database, path: Path, ids: list[str] | None = None, kinds: Sequence[str] = ()
) -> None:
    archive = export_threads(db.store, Scope(), ids, kinds=kinds)
    path.write_bytes(b"".join([line async for line in archive]))


async def lines(path: Path) -> AsyncIterator[bytes]:
    for line in path.read_bytes().splitlines(keepends=True):
        yield line


@pytest.mark.promise("B-07")
async def test_a_person_is_taken_out_of_an_archive(
    db: clew.Database, tmp_path: Path, store_name: str
) -> None:
    archive = tmp_path / "threads.jsonl"
    await export(db, archive)
    words = traces(archive.read_bytes(), "alice")
    receipt = await db.erase(owner="alice")

    assert WORDS["alice"] in words
    assert traces(archive.read_bytes(), "alice") == []
    assert receipt.counts["archives"] == 1


@pytest.mark.promise("B-07")
async def test_everybody_else_can_still_be_imported(
    db: clew.Database, tmp_path: Path, store_name: str
) -> None:
    archive = tmp_path / "threads.jsonl"
    await export(db, archive)
    await db.erase(owner="alice")
    async with clew.open("memory://") as other:
        result = await import_threads(other.store, Scope(), lines(archive))
        verdicts = [await other.thread(entry.thread).verify() for entry in result.threads]

    assert {entry.thread for entry in result.threads} == {"bob-1", "bob-2", "bob-talk", "memory/bob"}
    assert all(verdict.ok for verdict in verdicts)


@pytest.mark.promise("B-07")
async def test_an_archive_of_one_person_goes_whole(
    db: clew.Database, tmp_path: Path, store_name: str
) -> None:
    archive = tmp_path / "alice.jsonl"
    await export(db, archive, ["alice-1", "alice-2"])
    await db.erase(owner="alice")

    assert not archive.exists()
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


@pytest.mark.promise("B-07")
@pytest.mark.parametrize("ids", [None, ["alice-1"]], ids=["rewritten", "removed"])
async def test_zeros_are_written_over_what_an_archive_held(
    db: clew.Database, tmp_path: Path, store_name: str, ids: list[str] | None
) -> None:
    archive, blocks = tmp_path / "threads.jsonl", tmp_path / "below" / "blocks"
    await export(db, archive, ids)
    blocks.parent.mkdir()
    blocks.hardlink_to(archive)  # another name for the blocks that the archive lay in
    words = traces(blocks.read_bytes(), "alice")
    await db.erase(owner="alice")

    assert WORDS["alice"] in words
    assert set(blocks.read_bytes()) == {0}


@pytest.mark.promise("B-07")
async def test_a_thread_goes_with_its_fork_and_all_that_is_about_the_two(
    tmp_path: Path, store_name: str
) -> None:
    archive = tmp_path / "threads.jsonl"
    async with clew.open(f"sqlite:///{tmp_path}/agent.db") as db:
        runtime = clew.Runtime(db, model=ScriptedModel("Hi", "Hi", "Hi"), finalize=Finalizer())
        await runtime.run_turn("one", "My dog is called Rex.")
        await runtime.fork("one", "two")
        await runtime.run_turn("two", "My cat is called Tom.")
        await runtime.run_turn("other", "Hello")
        await runtime.end_session("two", feedback="positive")
        await export(db, archive, kinds=["run", "episode", FEEDBACK])
        before = archive.read_bytes()
        await db.erase(thread="one")
        after = archive.read_bytes()
        async with clew.open("memory://") as empty:
            result = await import_threads(empty.store, Scope(), lines(archive))

    assert all(word in before for word in (b"Rex", b"Tom", b"memory/@two", b"positive"))
    assert not any(word in after for word in (b"Rex", b"Tom", b"memory/@two", b"positive", b"thread:two"))
    assert [entry.thread for entry in result.threads] == ["other"]


@pytest.mark.promise("B-07")
async def test_other_files_are_left_alone(db: clew.Database, tmp_path: Path, store_name: str) -> None:
    (tmp_path / "notes.jsonl").write_text('{"note": "alice"}\n', encoding="utf-8")
    await db.erase(owner="alice")

    assert (tmp_path / "notes.jsonl").read_text(encoding="utf-8") == '{"note": "alice"}\n'


@pytest.mark.promise("B-07")
async def test_a_damaged_archive_makes_the_receipt_wait(
    db: clew.Database, tmp_path: Path, store_name: str
) -> None:
    archive = tmp_path / "threads.jsonl"
    await export(db, archive)
    archive.write_bytes(archive.read_bytes()[:-40])
    waiting = await db.erase(owner="alice")
    archive.unlink()
    receipts = await db.retention.settle()

    assert waiting.status == PENDING
    assert "threads.jsonl could not be rewritten" in waiting.waiting[0]
    assert [receipt.status for receipt in receipts] == [COMPLETE]


@pytest.mark.promise("B-07")
async def test_a_part_waits_until_an_archive_of_its_thread_is_gone(
    db: clew.Database, tmp_path: Path, store_name: str
) -> None:
    archive = tmp_path / "threads.jsonl"
    await export(db, archive, ["bob-1"])
    waiting = await db.thread("bob-1").erase(["bob-item-1"])
    still = await db.retention.settle()
    archive.unlink()
    receipts = await db.retention.settle()

    assert (waiting.status, still) == (PENDING, [])
    assert [(receipt.id, receipt.status) for receipt in receipts] == [(waiting.id, COMPLETE)]


@pytest.mark.promise("B-07")
async def test_a_part_waits_for_a_damaged_archive_too(
    db: clew.Database, tmp_path: Path, store_name: str
) -> None:
    archive = tmp_path / "threads.jsonl"
    await export(db, archive, ["bob-1"])
    archive.write_bytes(archive.read_bytes()[:-40])
    waiting = await db.thread("bob-1").erase(["bob-item-1"])
    archive.unlink()
    settled = await db.retention.settle()

    assert waiting.status == PENDING
    assert "threads.jsonl could not be read" in waiting.waiting[0]
    assert [receipt.status for receipt in settled] == [COMPLETE]


@pytest.mark.promise("B-07")
@pytest.mark.parametrize("kind", [ARTIFACT_KIND, DOCUMENT_KIND])
async def test_a_file_of_a_thread_goes_with_the_record_that_names_it(
    db: clew.Database, tmp_path: Path, store_name: str, kind: str
) -> None:
    archive = tmp_path / "threads.jsonl"
    record = Record(kind=kind, id="r", owner="bob", tags=("bob-1",), body={"path": "copies/plan.txt"})
    await db.records.put(record)
    await export(db, archive, kinds=[kind])
    total = archive.read_bytes().splitlines(keepends=True)
    files = [file_line("bob", path, path.encode()) for path in ("copies/plan.txt", "copies/other.txt")]
    archive.write_bytes(b"".join([*total[:-1], *map(encode_line, files), total[-1]]))
    await db.erase(thread="bob-1")
    left = archive.read_bytes()

    assert b"copies/other.txt" in left
    assert b"copies/plan.txt" not in left


@pytest.mark.promise("T-13", "B-06")
async def test_a_thread_with_erased_parts_can_be_moved(
    db: clew.Database, tmp_path: Path, store_name: str
) -> None:
    thread = db.thread("bob-1")
    await thread.erase(["bob-item-1"])
    state, verdict = await thread.state(), await thread.verify()
    await export(db, tmp_path / "bob.jsonl", ["bob-1"])
    async with clew.open("memory://") as other:
        await import_threads(other.store, Scope(), lines(tmp_path / "bob.jsonl"))
        copy = other.thread("bob-1")

        assert await copy.verify() == verdict
        assert await copy.state() == state
        assert await copy.state(at=2) == {"$erased": True}
    assert verdict.ok
