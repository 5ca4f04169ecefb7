"""Files that are damaged, foreign, newer, read-only, full or shared: an error that says what to do."""

# ruff: noqa: ASYNC240 - nothing else runs while these tests look at their files

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import random
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import psutil
import pytest

import clew
from clew.core.errors import (
    ClewError,
    InvalidArgument,
    NewerFormat,
    StorageError,
    StorageFull,
    StoreBusy,
    StoreDamaged,
)
from clew.stores.sqlite import connection as opening
from clew.stores.sqlite.store import SqliteStore
from clew.testing.disk import NO_END, Fault, FaultyDisk
from tests.support.child_process import ChildProcess, pipe, run_in_child

ITEMS = 5
THREADS = 12
SHARED_LOCK = (510, 0x40000002)
"""Where SQLite's unix VFS keeps the lock that every open connection shares: length and offset."""


async def fill(path: Path, threads: int = 2) -> None:
    """A database with some threads of five items each, closed."""
    async with clew.open(f"sqlite:///{path}") as db:
        for number in range(threads):
            thread = await db.create(f"thread-{number}")
            for n in range(ITEMS):
                await thread.append(
                    items=[clew.user(f"said {n} in {number} " + "quietly " * 40)],
                    patches=[clew.set(["n"], n)],
                )


def change(path: Path, statement: str, *values: apsw.SQLiteValue) -> None:
    """Alter a closed database behind the store's back."""
    connection = apsw.Connection(str(path))
    connection.execute(statement, values)
    assert connection.changes() == 1
    connection.close()


def body_of(path: Path, text: str) -> int:
    """The row of the item that says this."""
    connection = apsw.Connection(str(path))
    [(row,)] = connection.execute("SELECT row FROM items WHERE instr(body, ?)", (text.encode(),)).fetchall()
    connection.close()
    assert isinstance(row, int)
    return row


async def refusal_of(path: Path | str, kind: type[ClewError]) -> ClewError:
    """The error with which a file is refused."""
    with pytest.raises(kind) as error:
        await SqliteStore.open(str(path))
    assert type(error.value) is kind
    return error.value


async def read_all(path: Path) -> dict[str, int]:
    """How many items each thread has."""
    async with clew.open(f"sqlite:///{quote(str(path))}") as db:
        return {one.id: len(await db.thread(one.id).items()) for one in (await db.threads()).threads}


@pytest.fixture
async def database_path(tmp_path: Path) -> Path:
    """A database of two threads, closed."""
    path = tmp_path / "agent.db"
    await fill(path)
    return path


class TestDamagedRows:
    store_name = "sqlite"

    @pytest.mark.promise("S-06")
    async def test_an_unreadable_item_hides_nothing_else(self, database_path: Path) -> None:
        change(
            database_path,
            "UPDATE items SET body = x'ff00fe22' WHERE row = ?",
            body_of(database_path, "said 2 in 0"),
        )
        async with clew.open(f"sqlite:///{database_path}") as db:
            window = await db.thread("thread-0").items(last=ITEMS)
            verdict = await db.thread("thread-0").verify()
            other = await db.thread("thread-1").verify()
            await db.thread("thread-0").append(items=[clew.user("and on")])
            after = await db.thread("thread-0").items(last=2)

        assert [item.body["content"][:6] for item in window] == ["said 0", "said 1", "said 3", "said 4"]
        assert [item.version for item in window.broken] == [3]
        assert any(f"item {window.broken[0].place} of" in problem for problem in verdict.problems)
        assert other.ok
        assert after[1].body == {"content": "and on"}

    @pytest.mark.promise("B-06", "T-13")
    async def test_an_altered_item_is_found_though_it_can_be_read(self, database_path: Path) -> None:
        row = body_of(database_path, "said 2 in 0")
        change(
            database_path,
            """UPDATE items SET body = CAST('{"content":"never said"}' AS BLOB) WHERE row = ?""",
            row,
        )
        async with clew.open(f"sqlite:///{database_path}") as db:
            window = await db.thread("thread-0").items()
            verdict = await db.thread("thread-0").verify()

        assert len(window) == ITEMS
        assert any("version 3" in problem for problem in verdict.problems)

    @pytest.mark.parametrize("column", ["counters", "envelope"])
    async def test_a_damaged_changeset_has_a_code_and_harms_no_other_thread(
        self, database_path: Path, column: str
    ) -> None:
        connection = apsw.Connection(str(database_path))
        [(row,)] = connection.execute(
            "SELECT max(at) FROM changesets WHERE at >> 32 = (SELECT key FROM threads WHERE id = 'thread-0')"
        ).fetchall()
        connection.close()
        change(database_path, f"UPDATE changesets SET {column} = x'fffefd' WHERE at = ?", row)
        codes: list[str] = []
        async with asyncio.timeout(20), clew.open(f"sqlite:///{database_path}") as db:
            bad, whole = db.thread("thread-0"), db.thread("thread-1")
            for call in (bad.items, bad.changesets, lambda: bad.append(items=[clew.user("x")])):
                try:
                    await call()
                except ClewError as error:
                    codes.append(error.code)
            verdict = await _verdict(bad)
            commit = await whole.append(items=[clew.user("x")])

        assert set(codes) <= {"store_damaged"}
        assert codes or column == "envelope"
        assert verdict
        assert commit.version == ITEMS + 1


async def _verdict(thread: clew.Thread) -> tuple[str, ...]:
    """What verifying a thread says is wrong, if only by an error."""
    try:
        return (await thread.verify()).problems
    except StoreDamaged as error:
        return (str(error),)


class TestDamagedFiles:
    store_name = "sqlite"

    @pytest.mark.parametrize("length", ["half", "less than a page", "all but its last bytes"])
    async def test_a_truncated_file_is_refused_and_left_as_it_is(
        self, database_path: Path, length: str
    ) -> None:
        size = database_path.stat().st_size
        cut = {"half": size // 2, "less than a page": 700, "all but its last bytes": size - 100}[length]
        with database_path.open("rb+") as file:
            file.truncate(cut)
        before = database_path.read_bytes()
        error = await refusal_of(database_path, StoreDamaged)

        assert error.code == "store_damaged"
        assert str(database_path) in str(error)
        assert "restore a backup" in str(error)
        assert database_path.read_bytes() == before

    @pytest.mark.parametrize("what", ["random bytes", "text", "another program's", "another program's empty"])
    async def test_a_file_of_something_else_is_refused_and_left_as_it_is(
        self, tmp_path: Path, what: str
    ) -> None:
        path = tmp_path / "agent.db"
        if what == "random bytes":
            path.write_bytes(random.Random(1).randbytes(50_000))
        elif what == "text":
            path.write_text("Dear diary, today I wrote no database. " * 200)
        else:
            connection = apsw.Connection(str(path))
            connection.pragma("application_id", 4711)
            if what == "another program's":
                connection.execute("CREATE TABLE threads (id TEXT); INSERT INTO threads VALUES ('mine')")
            connection.close()
        before = path.read_bytes()
        error = await refusal_of(path, StoreDamaged)

        assert error.code == "store_damaged"
        assert "not a Clew database" in str(error)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["agent.db"]

    async def test_a_file_that_was_refused_is_not_kept_open_by_the_error(self, tmp_path: Path) -> None:
        path = tmp_path / "agent.db"
        path.write_text("Dear diary, today I wrote no database. " * 200)
        error = await refusal_of(path, StoreDamaged)
        still_open = [file.path for file in psutil.Process().open_files()]

        assert str(path) not in still_open, error

    async def test_damaged_pages_have_a_code_and_never_hang_a_call(self, tmp_path: Path) -> None:
        path = tmp_path / "agent.db"
        await fill(path, THREADS)
        size, chance = path.stat().st_size, random.Random(3)
        whole = path.read_bytes()
        codes: set[str] = set()
        for _ in range(12):
            path.write_bytes(whole)
            for name in ("agent.db-wal", "agent.db-shm"):
                (tmp_path / name).unlink(missing_ok=True)
            with path.open("rb+") as file:
                for page in chance.sample(range(1, size // 4096), 4):
                    file.seek(page * 4096)
                    file.write(chance.randbytes(4096))
            async with asyncio.timeout(20):
                codes |= await _codes(path)

        assert codes == {"store_damaged"}

    @pytest.mark.parametrize("cut", [0.6, 0.9])
    async def test_a_wal_that_is_cut_short_gives_whole_commits_only(self, tmp_path: Path, cut: float) -> None:
        copy = tmp_path / "copy" / "agent.db"
        copy.parent.mkdir()
        async with clew.open(f"sqlite:///{tmp_path}/agent.db") as db:
            thread = await db.create("thread-0")
            for n in range(30):
                await thread.append(items=[clew.user(f"said {n}")])
            run_in_child(copy_files, str(tmp_path), str(copy.parent))
        with (copy.parent / "agent.db-wal").open("rb+") as file:
            file.truncate(int(file.seek(0, os.SEEK_END) * cut))
        async with clew.open(f"sqlite:///{copy}") as db:
            verdict = await db.thread("thread-0").verify()

        assert verdict.ok
        assert 0 < verdict.version < 30


async def _codes(path: Path) -> set[str]:
    """The codes of every error that using a file gives."""
    codes: set[str] = set()
    try:
        async with clew.open(f"sqlite:///{path}") as db:
            for number in range(THREADS):
                thread = db.thread(f"thread-{number}")
                for call in (thread.items, thread.verify, lambda t=thread: t.append(items=[clew.user("x")])):
                    try:
                        await call()
                    except ClewError as error:
                        codes.add("store_damaged" if error.code == "thread_not_found" else error.code)
    except ClewError as error:
        codes.add(error.code)
    return codes


def copy_files(source: str, target: str) -> None:
    """Copy a database with its WAL; in its own process, since closing a file drops all locks on it."""
    for file in Path(source).glob("agent.db*"):
        shutil.copy(file, target)


class TestVersions:
    store_name = "sqlite"

    async def test_a_database_of_a_newer_release_is_refused_and_left_as_it_is(
        self, database_path: Path
    ) -> None:
        connection = apsw.Connection(str(database_path))
        connection.pragma("user_version", opening.FORMAT + 1)
        connection.close()
        before = database_path.read_bytes()
        error = await refusal_of(database_path, NewerFormat)

        assert isinstance(error, NewerFormat)
        assert (error.code, error.found, error.known) == ("newer_format", opening.FORMAT + 1, opening.FORMAT)
        assert "upgrade Clew" in str(error)
        assert database_path.read_bytes() == before
        assert [file.name for file in database_path.parent.iterdir()] == ["agent.db"]

    async def test_an_index_of_an_older_format_is_made_anew(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'agent.db'}"
        async with clew.open(url) as db:
            thread = await db.create("thread", owner="alice")
            await thread.append(items=[clew.user("a fox"), clew.user("a hen")])
            await db.index()
        connection = apsw.Connection(str(tmp_path / "agent.db"))
        connection.execute("UPDATE texts SET scope = 'x' || lower(hex('default'))")
        connection.execute("DROP TABLE vector_blocks; DROP INDEX records_by_place")
        connection.execute("ALTER TABLE records DROP COLUMN place")
        connection.pragma("user_version", 1)
        connection.close()
        async with clew.open(url) as db:
            hits = await db.search("fox", any=True, thread="thread")

        assert [hit.text for hit in hits] == ["a fox"]


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every account can reach."""
    with tempfile.TemporaryDirectory(prefix="clew-files-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory
        directory.chmod(0o755)


def as_nobody(path: str) -> tuple[str, str, bool]:
    """The code and the words of the error that an account without rights gets, and whether it could read."""
    asyncio.run(asyncio.to_thread(os.getpid))  # imports what that account may not be able to read
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    return asyncio.run(_try(path))


async def _try(path: str) -> tuple[str, str, bool]:
    read = False
    try:
        async with clew.open(f"sqlite:///{path}") as db:
            read = len(await db.thread("thread-0").items()) == ITEMS
            await db.thread("thread-0").append(items=[clew.user("x")])
    except ClewError as error:
        return error.code, str(error), read
    return "", "", read


class TestPermissions:
    store_name = "sqlite"

    async def test_a_read_only_directory_without_the_file_is_said_to_be_so(
        self, open_directory: Path
    ) -> None:
        open_directory.chmod(0o555)
        code, words, _ = run_in_child(as_nobody, str(open_directory / "agent.db"))

        assert code == "store_read_only"
        assert "Check the permissions of the file and its directory" in words

    @pytest.mark.parametrize(("file", "directory"), [(0o444, 0o555), (0o444, 0o777), (0o666, 0o555)])
    async def test_a_read_only_file_or_directory_is_said_to_be_so(
        self, open_directory: Path, file: int, directory: int
    ) -> None:
        path = open_directory / "agent.db"
        await fill(path)
        path.chmod(file)
        open_directory.chmod(directory)
        before = path.read_bytes()
        code, words, _ = run_in_child(as_nobody, str(path))

        assert code == "store_read_only"
        assert "Check the permissions of the file and its directory" in words
        assert path.read_bytes() == before


class TestFullDisk:
    store_name = "sqlite"

    @pytest.mark.promise("S-02")
    async def test_a_full_disk_is_said_to_be_so_until_there_is_room(self, tmp_path: Path) -> None:
        disk = FaultyDisk("full")
        store = SqliteStore(str(tmp_path / "agent.db"), vfs=disk.name)
        await store.start()
        thread = await clew.Database(store).create("thread-0")
        await thread.append(items=[clew.user("before")])
        disk.arm(Fault("enospc", at=disk.points + 1, until=NO_END))
        errors = await asyncio.gather(
            *(thread.append(items=[clew.user(f"meanwhile {n}")]) for n in range(4)), return_exceptions=True
        )
        read = [item.body["content"] for item in await thread.items()]
        disk.arm()
        commit = await thread.append(items=[clew.user("after")])
        verdict = await thread.verify()
        await store.close()
        disk.unregister()

        assert [type(error) for error in errors] == [StorageFull] * 4
        assert "make room and try again" in str(errors[0])
        assert read == ["before"]
        assert (commit.version, verdict.ok) == (2, True)
        assert await read_all(tmp_path / "agent.db") == {"thread-0": 2}

    async def test_a_disk_too_full_to_begin_is_said_to_be_so(self, tmp_path: Path) -> None:
        disk = FaultyDisk("full-from-the-start")
        disk.arm(Fault("enospc", at=1, until=NO_END))
        with pytest.raises(StorageFull):
            await SqliteStore(str(tmp_path / "agent.db"), vfs=disk.name).start()
        disk.arm()
        store = SqliteStore(str(tmp_path / "agent.db"), vfs=disk.name)
        await store.start()
        await store.close()
        disk.unregister()

        assert await read_all(tmp_path / "agent.db") == {}


class TestPaths:
    store_name = "sqlite"

    @pytest.mark.parametrize(
        "name", ["my agent.db", "naïve ☕ 記憶.db", "what?.db", "100%.db", "a#b&c=d.db", "'\".db"]
    )
    async def test_any_name_can_be_a_file(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        await fill(Path(quote(str(path))))

        assert await read_all(path) == {"thread-0": ITEMS, "thread-1": ITEMS}
        assert [file.name for file in tmp_path.iterdir()] == [name]

    async def test_a_missing_directory_is_named(self, tmp_path: Path) -> None:
        error = await refusal_of(tmp_path / "nowhere" / "agent.db", StorageError)

        assert error.code == "storage_error"
        assert "its directory does not exist" in str(error)
        assert not (tmp_path / "nowhere").exists()

    async def test_a_directory_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(ClewError) as error:
            await SqliteStore.open(str(tmp_path))

        assert error.value.code in {"storage_error", "store_read_only"}
        assert str(tmp_path) in str(error.value)

    @pytest.mark.parametrize("path", [":memory:", ""])
    async def test_a_database_without_a_file_is_refused(self, path: str) -> None:
        error = await refusal_of(path, InvalidArgument)

        assert "memory://" in str(error)


def lock_exclusively(path: str) -> bool:
    """Whether a process can have the whole file to itself, which is to say that nobody else has it open."""
    with Path(path).open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *SHARED_LOCK)
        except OSError:
            return False
    return True


def hold_write_lock(path: str, line: Connection) -> None:
    """Keep others from writing until told to let them."""
    connection = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE")
    line.send("locked")
    line.recv()
    connection.execute("ROLLBACK")
    connection.close()


def write_and_die(path: str, items: int) -> None:
    """Append some, and end without closing anything."""
    asyncio.run(_write_and_die(path, items))


async def _write_and_die(path: str, items: int) -> None:
    async with clew.open(f"sqlite:///{path}") as db:
        thread = await db.create("thread-0")
        for n in range(items):
            await thread.append(items=[clew.user(f"said {n}")])
        os.kill(os.getpid(), signal.SIGKILL)


class TestSharing:
    store_name = "sqlite"

    @pytest.mark.promise("T-02")
    async def test_two_stores_on_one_file_in_one_process_see_each_other(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/agent.db"
        async with clew.open(url) as first:
            await first.create("thread-0")
            async with clew.open(url) as second:
                for n in range(10):
                    await first.thread("thread-0").append(items=[clew.user(f"first {n}")])
                    await second.thread("thread-0").append(
                        items=[clew.user(f"second {n}")], expect=clew.Exact(2 * n + 1)
                    )
                many = [
                    db.thread("thread-0").append(items=[clew.user("x")])
                    for db in (first, second)
                    for _ in range(20)
                ]
                commits = await asyncio.gather(*many)
            await first.thread("thread-0").append(items=[clew.user("alone again")])
            verdict = await first.thread("thread-0").verify()

        assert sorted(one.version for one in commits) == list(range(21, 61))
        assert (verdict.ok, verdict.version) == (True, 61)

    @pytest.mark.promise("T-02")
    @pytest.mark.parametrize("use", ["opened", "opened twice and closed once", "reported on"])
    async def test_a_file_in_use_stays_locked_against_others(self, database_path: Path, use: str) -> None:
        async with clew.open(f"sqlite:///{database_path}") as db:
            if use == "opened twice and closed once":
                await (await clew.open(f"sqlite:///{database_path}")).close()
            elif use == "reported on":
                await db.report()
            before = await asyncio.to_thread(run_in_child, lock_exclusively, str(database_path))
        after = run_in_child(lock_exclusively, str(database_path))

        assert (before, after) == (False, True)

    async def test_a_file_that_another_process_keeps_locked_is_said_to_be_busy(
        self, database_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(opening, "BUSY_SECONDS", 0.3)
        async with clew.open(f"sqlite:///{database_path}") as db:
            ours, theirs = pipe()
            holder = ChildProcess(hold_write_lock, str(database_path), theirs)
            assert ours.recv() == "locked"
            with pytest.raises(StoreBusy) as error:
                await db.thread("thread-0").append(items=[clew.user("x")])
            read = len(await db.thread("thread-0").items())
            ours.send("enough")
            holder.result()
            commit = await db.thread("thread-0").append(items=[clew.user("x")])

        assert error.value.code == "store_busy"
        assert "try again" in str(error.value)
        assert (read, commit.version) == (ITEMS, ITEMS + 1)

    @pytest.mark.crash
    @pytest.mark.promise("T-02", "S-02")
    async def test_a_wal_left_by_a_killed_process_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "agent.db"
        writer: ChildProcess[None] = ChildProcess(write_and_die, str(path), 20)
        await asyncio.to_thread(writer.process.join, 30)
        writer.end()
        size = (tmp_path / "agent.db-wal").stat().st_size
        async with clew.open(f"sqlite:///{path}") as db:
            report = await db.report()
            verdict = await db.thread("thread-0").verify()

        assert size > 0
        assert report.healthy
        assert (verdict.ok, verdict.version) == (True, 20)


@pytest.mark.promise("S-04")
def test_a_file_that_somebody_makes_just_now_is_no_file_of_another_program(tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")

    def make_file() -> None:
        connection = opening.connect(path)
        opening.prepare_file(connection, path)
        connection.close()

    class RacingConnection(apsw.Connection):
        """Somebody else makes the file while this one looks at it."""

        maker = threading.Thread(target=make_file)

        def pragma(self, name: str, *values: Any, **rest: Any) -> Any:
            value = super().pragma(name, *values, **rest)
            if name == "application_id":
                self.maker.start()
                self.maker.join(0.3)
            return value

    looking = RacingConnection(path)
    version = opening.check_file(looking, path)
    looking.close()
    looking.maker.join()

    assert (version, opening.schema_of_file(path)) == (0, opening.FORMAT)
