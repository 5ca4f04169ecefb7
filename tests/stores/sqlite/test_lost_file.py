"""A SQLite file that others touch while it is open: noticed, and nothing that holds commits is deleted."""

# ruff: noqa: ASYNC240 - nothing else runs while these tests look at their files

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import apsw
import pytest

import clew
from clew.core.errors import NewerFormat, NotMigrated, StoreDamaged, StoreFileLost, WalOrphaned
from clew.stores.sqlite import connection as opening
from clew.stores.sqlite import file_lock, open_file, writer
from clew.stores.sqlite.file_watch import FileWatch
from clew.stores.sqlite.store import SqliteStore
from clew.stores.sqlite.wal import has_frames
from tests.stores.sqlite.file_accidents import read_elsewhere
from tests.support.child_process import ChildProcess, pipe, run_in_child

SMALL_WAL = 64 << 10
APPENDS_EACH = 200


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database is."""
    return tmp_path / "agent.db"


async def open_with_thread(path: Path, appends: int = 3) -> clew.Database:
    """A database with one thread, open."""
    db = await clew.open(f"sqlite:///{path}")
    thread = await db.create("thread", exist_ok=True)
    for number in range(appends):
        await thread.append(items=[clew.user(f"said {number}")])
    return db


def leave_wal(path: str, format: int, line: Connection) -> None:
    """Leave a file with a write-ahead log, as a process that is killed does."""
    asyncio.run(_leave_wal(path, format, line))


async def _leave_wal(path: str, format: int, line: Connection) -> None:
    await open_with_thread(Path(path))
    migrating = apsw.Connection(path)
    migrating.pragma("user_version", format)
    line.send("written")
    os.kill(os.getpid(), 9)


def make_wal(path: Path, format: int = opening.FORMAT) -> None:
    """A file with a write-ahead log that holds commits, and nobody who has it open."""
    line, theirs = pipe()
    process: ChildProcess[None] = ChildProcess(leave_wal, str(path), format, theirs)
    assert line.recv() == "written"
    process.end()
    assert has_frames(f"{path}-wal")


class TestOrphanedLog:
    store_name = "sqlite"

    @pytest.mark.promise("B-13")
    @pytest.mark.parametrize("leaves", ["nothing", "an empty file"])
    async def test_a_log_whose_database_is_gone_is_left_alone(self, path: Path, leaves: str) -> None:
        make_wal(path)
        path.rename(f"{path}.moved")
        if leaves == "an empty file":
            path.touch()
        log = Path(f"{path}-wal").read_bytes()
        with pytest.raises(WalOrphaned) as error:
            await SqliteStore.open(str(path))

        assert error.value.code == "wal_orphaned"
        assert Path(f"{path}-wal").read_bytes() == log

    @pytest.mark.promise("B-13")
    async def test_with_its_database_put_back_the_log_is_read(self, path: Path) -> None:
        make_wal(path)
        elsewhere = path.rename(f"{path}.moved")
        with pytest.raises(WalOrphaned):
            await SqliteStore.open(str(path))
        elsewhere.rename(path)
        async with clew.open(f"sqlite:///{path}") as db:
            verdict = await db.thread("thread").verify()

        assert (verdict.ok, verdict.version) == (True, 3)

    @pytest.mark.promise("B-13")
    async def test_a_log_beside_a_file_that_is_refused_is_left_alone(self, path: Path) -> None:
        make_wal(path, opening.FORMAT + 1)
        before = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        with pytest.raises(NewerFormat):
            await SqliteStore.open(str(path))
        with pytest.raises(NewerFormat):
            opening.schema_of_file(str(path))

        assert (path.read_bytes(), Path(f"{path}-wal").read_bytes()) == before

    @pytest.mark.promise("B-13")
    async def test_a_copy_without_its_log_that_is_too_short_is_said_to_be_one(self, path: Path) -> None:
        db = await open_with_thread(path, appends=50)
        await db.close()
        os.truncate(path, path.stat().st_size - 4096)
        with pytest.raises(StoreDamaged) as error:
            await SqliteStore.open(str(path))

        assert "copied without its write-ahead log" in str(error.value)


class BlindWatch(FileWatch):
    """A watch on a system that tells nothing."""

    def __init__(self, masks: Mapping[str, int]) -> None:
        super().__init__({})


class TestLostFile:
    store_name = "sqlite"

    @pytest.mark.promise("B-13")
    async def test_a_reader_does_not_answer_from_a_file_that_is_gone(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_file, "LOOK_SECONDS", 0)
        db = await open_with_thread(path)
        path.rename(f"{path}.moved")
        with pytest.raises(StoreFileLost):
            await db.thread("thread").items()
        with pytest.raises(StoreFileLost):
            await db.report()
        await db.close()

        assert not path.exists()

    @pytest.mark.promise("B-13")
    async def test_readers_know_at_once_what_the_writer_knows(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_file, "LOOK_SECONDS", 3600)
        db = await open_with_thread(path)
        await db.thread("thread").items()
        path.rename(f"{path}.moved")
        with pytest.raises(StoreFileLost):
            await db.thread("thread").append(items=[clew.user("into nowhere")])
        with pytest.raises(StoreFileLost):
            await db.thread("thread").items()
        await db.close()

    @pytest.mark.promise("B-13")
    async def test_the_writer_looks_itself_where_the_system_tells_nothing(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_file, "FileWatch", BlindWatch)
        monkeypatch.setattr(open_file, "LOOK_SECONDS", 3600)
        db = await open_with_thread(path)
        path.rename(f"{path}.moved")
        with pytest.raises(StoreFileLost):
            await db.thread("thread").append(items=[clew.user("into nowhere")])
        await db.close()

    @pytest.mark.promise("B-13")
    async def test_news_of_a_file_that_is_still_there_does_no_harm(self, path: Path) -> None:
        db = await open_with_thread(path)
        path.touch()
        path.chmod(0o600)
        (path.parent / "another.txt").touch()
        commit = await db.thread("thread").append(items=[clew.user("as before")])
        await db.close()

        assert commit.version == 4

    @pytest.mark.promise("B-13")
    async def test_shared_memory_that_is_deleted_is_noticed(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_file, "LOOK_SECONDS", 0)
        db = await open_with_thread(path)
        Path(f"{path}-shm").unlink()
        with pytest.raises(StoreFileLost):
            await db.thread("thread").append(items=[clew.user("with locks that nobody sees")])
        await db.close()

    @pytest.mark.promise("B-13")
    async def test_one_who_waits_for_a_thread_is_told(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(open_file, "LOOK_SECONDS", 0)
        db = await open_with_thread(path)
        await db.thread("thread").items()
        change = asyncio.ensure_future(db.store.wait_for_change(clew.Scope(), "thread", 3, 60))
        for _ in range(5):  # it looks whether the thread has changed already, and waits then
            await asyncio.sleep(0)
        path.rename(f"{path}.moved")
        async with asyncio.timeout(20):
            await change
        with pytest.raises(StoreFileLost):
            await db.thread("thread").head()
        await db.close()

    @pytest.mark.promise("B-13")
    async def test_every_commit_of_a_group_is_refused(self, path: Path) -> None:
        db = await open_with_thread(path)
        path.unlink()
        thread = db.thread("thread")
        errors = await asyncio.gather(
            *(thread.append(items=[clew.user(f"{number}")]) for number in range(20)), return_exceptions=True
        )
        await db.close()

        assert {type(error) for error in errors} == {StoreFileLost}
        assert len({id(error) for error in errors}) == 20

    @pytest.mark.promise("B-13")
    async def test_closing_a_lost_file_leaves_the_log_of_its_successor(self, path: Path) -> None:
        db = await open_with_thread(path)
        for side in ("-wal", "-shm"):
            Path(f"{path}{side}").unlink()
        make_wal(path)
        log = Path(f"{path}-wal").read_bytes()
        await db.close()

        assert Path(f"{path}-wal").read_bytes() == log

    @pytest.mark.promise("B-13")
    async def test_the_log_is_saved_once_and_beside_the_file(self, path: Path) -> None:
        db = await open_with_thread(path)
        log = Path(f"{path}-wal").read_bytes()
        Path(f"{path}-wal").unlink()
        errors = [
            await asyncio.gather(db.thread("thread").append(items=[clew.user("x")]), return_exceptions=True)
            for _ in range(2)
        ]
        await db.close()
        logs = [file for file in path.parent.iterdir() if "saved" in file.name]

        assert {error.saved for (error,) in errors if isinstance(error, StoreFileLost)} == {str(logs[0])}
        assert len(logs) == 1
        assert logs[0].read_bytes().startswith(log)

    @pytest.mark.promise("B-13")
    async def test_a_file_that_is_vacuumed_is_not_lost(self, path: Path) -> None:
        db = await open_with_thread(path)
        for number in range(40):
            thread = await db.create(f"gone-{number}")
            await thread.append(items=[clew.user("x" * 20_000)])
        checkpoint(path)
        await db.thread("thread").append(items=[clew.user("while it is large")])
        before = path.stat().st_size
        for number in range(40):
            await db.thread(f"gone-{number}").delete()
        await db.store.scrub()
        commit = await db.thread("thread").append(items=[clew.user("and small")])
        after = path.stat().st_size
        await db.close()

        assert after < before
        assert commit.version == 5

    @pytest.mark.promise("B-13")
    async def test_a_working_directory_that_changes_is_no_other_file(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()

        assert run_in_child(count_after_moving, str(tmp_path)) == [3, 4]
        assert list((tmp_path / "elsewhere").iterdir()) == []


def checkpoint(path: Path) -> None:
    """Move the write-ahead log into the file, from a connection of the same library."""
    connection = apsw.Connection(str(path))
    connection.execute("SELECT count(*) FROM threads").fetchall()
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    connection.close()


def count_after_moving(directory: str) -> list[int]:
    """How many changesets there are for a process that goes elsewhere, before and after an append."""
    os.chdir(directory)
    return asyncio.run(_count_after_moving())


async def _count_after_moving() -> list[int]:
    db = await open_with_thread(Path("agent.db"))
    os.chdir("elsewhere")
    counts = [len(await db.thread("thread").changesets())]
    await db.thread("thread").append(items=[clew.user("from elsewhere")])
    counts.append(len(await db.thread("thread").changesets()))
    await db.close()
    return counts


def append_some(path: str) -> int:
    """Append in a process of its own; the version after that."""
    return asyncio.run(_append_some(path))


async def _append_some(path: str) -> int:
    db = await open_with_thread(Path(path), appends=10)
    version = (await db.thread("thread").head()).version
    await db.close()
    return version


def append_beside(path: str, appends: int, line: Connection) -> list[int]:
    """Append while another library opens and closes the file all the time; the versions."""
    return asyncio.run(_append_beside(path, appends, line))


async def _append_beside(path: str, appends: int, line: Connection) -> list[int]:
    async with clew.open(f"sqlite:///{path}") as db:
        thread = db.thread("thread")
        line.send("open")
        line.recv()
        versions = [(await thread.append(items=[clew.user("the first")])).version]  # it learns of the other
        with reading_elsewhere(Path(path)):
            rest = [await thread.append(items=[clew.user(f"{number}")]) for number in range(1, appends)]
        return versions + [commit.version for commit in rest]


@contextmanager
def reading_elsewhere(path: Path) -> Iterator[None]:
    """Have another library in this process open and close a file, again and again."""
    over = threading.Event()

    def read_again_and_again() -> None:
        while not over.wait(0.001):
            read_elsewhere(path)

    reader = threading.Thread(target=read_again_and_again)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()


class TestOtherLibrary:
    store_name = "sqlite"

    @pytest.mark.promise("B-13", "T-02")
    async def test_two_processes_and_another_library_keep_one_chain(self, path: Path) -> None:
        db = await open_with_thread(path, appends=10)
        count = read_elsewhere(path)
        version = await asyncio.to_thread(run_in_child, append_some, str(path))
        commit = await db.thread("thread").append(items=[clew.user("after both")])
        verdict = await db.thread("thread").verify()
        await db.close()

        assert (count, version, commit.version) == (10, 20, 21)
        assert (verdict.ok, verdict.version) == (True, 21)

    @pytest.mark.race
    @pytest.mark.promise("B-13", "T-02")
    async def test_processes_write_one_after_another_though_another_library_drops_their_locks(
        self, path: Path
    ) -> None:
        await (await open_with_thread(path, appends=0)).close()
        lines = [pipe() for _ in range(2)]
        writers = [ChildProcess(append_beside, str(path), APPENDS_EACH, theirs) for _, theirs in lines]
        assert [line.recv() for line, _ in lines] == ["open", "open"]
        for line, _ in lines:
            line.send("go on")
        versions = [await asyncio.to_thread(writer.result) for writer in writers]
        async with clew.open(f"sqlite:///{path}") as db:
            verdict = await db.thread("thread").verify()

        assert (verdict.ok, verdict.problems) == (True, ())
        assert sorted(versions[0] + versions[1]) == list(range(1, 2 * APPENDS_EACH + 1))

    @pytest.mark.promise("B-13")
    async def test_a_clean_close_still_leaves_one_file(self, path: Path) -> None:
        db = await open_with_thread(path)
        again = await clew.open(f"sqlite:///{path}")
        read_elsewhere(path)
        await again.close()
        await db.close()

        assert [file.name for file in path.parent.iterdir()] == [path.name]

    @pytest.mark.promise("B-13")
    async def test_a_system_without_such_locks_opens_files_too(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(file_lock, "_SETLK", None)
        db = await open_with_thread(path)
        verdict = await db.thread("thread").verify()
        await db.close()

        assert verdict.ok
        assert [file.name for file in path.parent.iterdir()] == [path.name]


class TestFormatWhileOpen:
    store_name = "sqlite"

    @pytest.mark.promise("B-13")
    @pytest.mark.parametrize(("difference", "error"), [(1, NewerFormat), (-1, NotMigrated)])
    async def test_a_file_that_has_another_format_by_now_is_not_written(
        self, path: Path, difference: int, error: type[Exception]
    ) -> None:
        db = await open_with_thread(path)
        migrating = apsw.Connection(str(path))
        migrating.pragma("user_version", opening.FORMAT + difference)
        thread = db.thread("thread")
        errors = await asyncio.gather(
            *(thread.append(items=[clew.user(f"{number}")]) for number in range(3)), return_exceptions=True
        )
        changesets = migrating.execute("SELECT count(*) FROM changesets").fetchall()
        migrating.close()
        await db.close()

        assert [type(each) for each in errors] == [error] * 3
        assert changesets == [(3,)]


class TestLongReader:
    store_name = "sqlite"

    @pytest.mark.promise("B-13")
    async def test_a_log_that_grew_beside_a_long_reader_is_cut_when_it_is_gone(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(opening, "WAL_BYTES", SMALL_WAL)
        monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 5)
        db = await open_with_thread(path)
        reading = apsw.Connection(str(path))
        reading.execute("BEGIN; SELECT count(*) FROM threads").fetchall()
        for number in range(30):
            await db.thread("thread").append(items=[clew.user(f"{number} " + "x" * 20_000)])
        peak = Path(f"{path}-wal").stat().st_size
        reading.close()
        for number in range(5):
            await db.thread("thread").append(items=[clew.user(f"{number}")])
        size = Path(f"{path}-wal").stat().st_size
        await db.close()

        assert peak > 10 * SMALL_WAL
        assert size <= SMALL_WAL
