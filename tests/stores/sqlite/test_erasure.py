"""After erasing, neither words nor the index's tokens are anywhere in the file or its write-ahead log."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import clew
from clew.core.erasure.receipts import COMPLETE, PENDING
from clew.stores.sqlite import vacuum
from tests.database.people import WORDS, live, raw, traces

pytestmark = [pytest.mark.usefixtures("long_lock_wait"), pytest.mark.parametrize("store_name", ["sqlite"])]
DYING = [sys.executable, "-m", "tests.database.killed_erasure"]


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file with two people in it."""
    path = tmp_path / "agent.db"
    async with clew.open(f"sqlite:///{path}") as db:
        await live(db, "alice")
        await live(db, "bob")
    return path


def index_of(path: Path) -> bytes:
    """What the tables behind the search index hold."""
    with apsw.Connection(str(path)) as connection:
        blocks = [bytes(row[0]) for row in connection.execute("SELECT block FROM texts_data")]
        terms = [str(row[0]).encode() for row in connection.execute("SELECT term FROM texts_idx")]
    connection.close()
    return b"".join([*blocks, *terms])


@pytest.mark.promise("B-07")
async def test_no_word_and_no_token_is_left_in_the_file_or_the_wal(file: Path, store_name: str) -> None:
    words, index_words = traces(raw(file), "alice"), traces(index_of(file), "alice")
    async with clew.open(f"sqlite:///{file}") as db:
        receipt = await db.erase(owner="alice")
        remains = traces(raw(file), "alice")

    assert len(words) == 5
    assert WORDS["alice"][:6] in index_words
    assert (receipt.status, remains) == (COMPLETE, [])
    assert traces(raw(file), "alice") == []
    assert free_pages(file) == 0


def free_pages(path: Path) -> int:
    """How many pages of a file hold nothing that is still there."""
    connection = apsw.Connection(str(path))
    free = int(connection.pragma("freelist_count"))
    connection.close()
    return free


@pytest.mark.promise("B-07")
async def test_the_other_persons_bytes_are_all_still_there(file: Path, store_name: str) -> None:
    async with clew.open(f"sqlite:///{file}") as db:
        ids = [thread.id for thread in (await db.threads(owner="bob", system=True)).threads]
        before = [await db.thread(id).changesets(limit=500) for id in ids]
        records = traces(raw(file), "bob")
        await db.erase(owner="alice")
        after = [await db.thread(id).changesets(limit=500) for id in ids]
        verdicts = [await db.thread(id).verify() for id in ids]
        hits = await db.search(f"{WORDS['bob']}77", owner="bob")

    assert after == before
    assert traces(raw(file), "bob") == records
    assert all(verdict.ok for verdict in verdicts)
    assert len(hits) == 1


def leading(path: Path) -> set[str]:
    """The beginnings of words that lead to the pages of the index."""
    with apsw.Connection(str(path)) as connection:
        terms = [bytes(row[0]).decode()[1:] for row in connection.execute("SELECT term FROM texts_idx")]
    connection.close()
    return {term for term in terms if term.startswith("m")}


@pytest.mark.promise("B-07")
@pytest.mark.parametrize("parts", ["many", "one"])
async def test_what_leads_to_the_pages_of_the_index_keeps_no_word(
    tmp_path: Path, store_name: str, parts: str
) -> None:
    path = tmp_path / "agent.db"
    vocabulary = {who: [f"m{n * 2 + first:05}{who}" for n in range(1500)] for first, who in enumerate(WORDS)}
    async with clew.open(f"sqlite:///{path}") as db:
        for who, words in vocabulary.items():
            thread = await db.create(who, owner=who)
            for start in range(0, 1500, 50):
                await thread.append(items=[clew.user(" ".join(words[start : start + 50]))])
                await db.index()
        if parts == "one":
            with apsw.Connection(str(path)) as connection:
                connection.execute("INSERT INTO texts (texts) VALUES ('optimize')")
            connection.close()
        before = leading(path)
        await db.erase(owner="alice")

    bob = " ".join(vocabulary["bob"])
    assert [term for term in before if f" {term}" not in bob] != []
    assert [term for term in leading(path) if f" {term}" not in bob] == []


@pytest.mark.promise("B-07")
async def test_a_part_leaves_no_bytes_either(file: Path, store_name: str) -> None:
    async with clew.open(f"sqlite:///{file}") as db:
        thread = db.thread("bob-1")
        secret = "popocatepetl"
        patches = [clew.set(["note", "said"], secret)]
        await thread.append(items=[clew.user(f"{secret} it is", id="x")], patches=patches, key="said")
        await thread.append(patches=[clew.delete(["note", "said"])])
        await thread.fork("bob-3")
        await db.index()
        count = raw(file).count(secret.encode())
        receipt = await thread.erase(["x"])
        verdicts = [await db.thread(id).verify() for id in ("bob-1", "bob-2", "bob-3")]

    assert count > 3
    assert secret[:6].encode() not in raw(file)
    assert receipt.status == COMPLETE
    assert all(verdict.ok for verdict in verdicts)


@pytest.mark.promise("B-07")
async def test_a_state_that_was_kept_whole_leaves_no_bytes_when_a_part_goes(
    file: Path, store_name: str
) -> None:
    async with clew.open(f"sqlite:///{file}") as db:
        thread = await db.create("anchored", owner="bob")
        await thread.append(items=[clew.user("Hi", id="x")], patches=[clew.set(["said"], "popocatepetl")])
        for number in range(40):
            await thread.append(patches=[clew.set(["note"], f"{number} " * 400)])
        await thread.append(patches=[clew.delete(["said"])])
        with closing(apsw.Connection(str(file))) as reader:
            states = [bytes(state) for (state,) in reader.execute("SELECT state FROM anchors")]
        await thread.erase(["x"])

    assert any(b"popocat" in state for state in states)
    assert b"popocat" not in raw(file)


@pytest.mark.promise("B-07")
async def test_a_reader_that_holds_the_log_makes_the_receipt_wait(
    file: Path, store_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "LOCK_WAIT_SECONDS", 0.1)
    reader = apsw.Connection(str(file))
    async with clew.open(f"sqlite:///{file}") as db:
        reader.execute("BEGIN; SELECT count(*) FROM items").fetchall()
        waiting = await db.erase(owner="alice")
        still = await db.retention.settle()
        reader.execute("END")
        reader.close()
        receipts = await db.retention.settle()

    assert (waiting.status, waiting.waiting) == (PENDING, (vacuum.STILL_READING,))
    assert still == []
    assert [(receipt.id, receipt.status) for receipt in receipts] == [(waiting.id, COMPLETE)]
    assert traces(raw(file), "alice") == []


@pytest.mark.promise("B-07")
async def test_erasing_again_completes_what_waited(
    file: Path, store_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "LOCK_WAIT_SECONDS", 0.1)
    writer = apsw.Connection(str(file))
    async with clew.open(f"sqlite:///{file}") as db:
        real = vacuum._rewrite_file

        def rewrite_beside_writer(connection: apsw.Connection) -> tuple[str, ...]:
            writer.execute("BEGIN IMMEDIATE")
            try:
                return real(connection)
            finally:
                writer.execute("ROLLBACK")

        monkeypatch.setattr(vacuum, "_rewrite_file", rewrite_beside_writer)
        waiting = await db.erase(owner="alice")
        monkeypatch.setattr(vacuum, "_rewrite_file", real)
        again = await db.erase(owner="alice")
    writer.close()

    assert (waiting.status, waiting.waiting) == (PENDING, (vacuum.STILL_WRITING,))
    assert (again.id, again.status, again.counts) == (waiting.id, COMPLETE, waiting.counts)
    assert traces(raw(file), "alice") == []


@pytest.mark.parametrize("tries", [0, 1, 3])
async def test_a_log_that_is_being_moved_to_the_file_is_waited_for(
    file: Path, store_name: str, monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    busy = iter(range(tries))

    class Moving(apsw.Connection):
        """Says for a while that somebody else is at it, without asking whether to wait, as SQLite does."""

        def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]:
            if next(busy, None) is not None:
                raise apsw.BusyError
            return super().wal_checkpoint(dbname, mode)

    waiting = await asyncio.to_thread(vacuum.scrub, lambda: Moving(str(file)), str(file))

    assert waiting == ()
    assert next(busy, None) is None


@pytest.mark.crash
@pytest.mark.promise("B-07")
@pytest.mark.parametrize("commits", [1, 2, 3, 4])
async def test_killed_in_the_middle_it_goes_on_and_ends(file: Path, store_name: str, commits: int) -> None:
    command = [*DYING, f"sqlite:///{file}", str(commits)]
    process = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True)
    async with clew.open(f"sqlite:///{file}") as db:
        receipts = await db.retention.receipts()
        receipt = await db.erase(owner="alice")
        every = await db.retention.receipts()

    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    assert [r.status for r in receipts] == (["unfinished"] if commits > 1 else [])
    assert (receipt.counts["threads"], receipt.status, receipt.waiting) == (4, COMPLETE, ())
    assert every == [receipt]
    assert traces(raw(file), "alice") == []


@pytest.mark.race
@pytest.mark.promise("B-07")
async def test_what_another_process_writes_meanwhile_goes_too(file: Path, store_name: str) -> None:
    command = [*DYING, f"sqlite:///{file}", "write"]
    async with clew.open(f"sqlite:///{file}") as db:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:  # noqa: ASYNC220 - it takes no time
            assert writer.stdout is not None
            await asyncio.to_thread(writer.stdout.readline)
            receipt = await db.erase(owner="alice")
            output = await asyncio.to_thread(writer.stdout.read)
        final_receipt = receipt if receipt.status == COMPLETE else (await db.retention.settle())[0]

    assert (writer.returncode, output.strip()) == (0, "thread_not_found")
    assert final_receipt.status == COMPLETE
    assert traces(raw(file), "alice") == []
