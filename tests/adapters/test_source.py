"""The database of another program is read as it was when it was opened, and never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import apsw
import psycopg
import pytest

from clew.adapters.source import is_sqlite_file, milliseconds, open_source
from clew.core.errors import SourceUnreadable
from tests.support.shared_postgres import PostgresDatabase

NOON = 1_750_000_000_000
WORDS = "SELECT word FROM words ORDER BY word"


@pytest.fixture(params=["wal", "delete"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file with a word in it, closed, in both ways that SQLite writes."""
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute(f"PRAGMA journal_mode = {request.param}")
        connection.executescript("CREATE TABLE words (word TEXT); INSERT INTO words VALUES ('first');")
    return tmp_path / "other.db"


@pytest.fixture
def writer(file: Path) -> Iterator[sqlite3.Connection]:
    """Another program that has the file open."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=0)) as connection:
        connection.execute("INSERT INTO words VALUES ('second')")
        yield connection


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A folder with a file that is no database."""
    (tmp_path / "text.db").write_text("Dear diary, " * 100, encoding="utf-8")
    return tmp_path


def traces(folder: Path) -> dict[str, str]:
    """The files of a folder, by their contents."""
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


async def words_in(location: str) -> list[str]:
    """What a database holds."""
    async with open_source(location) as source:
        return [word async for (word,) in source.rows(WORDS)]


async def test_reading_leaves_no_trace(file: Path) -> None:
    before = traces(file.parent)
    words = await words_in(str(file))

    assert words == ["first"]
    assert traces(file.parent) == before


@pytest.mark.usefixtures("writer")
async def test_what_is_only_in_the_log_of_another_program_is_read(file: Path) -> None:
    assert await words_in(str(file)) == ["first", "second"]


@pytest.mark.parametrize("prefix", ["", "sqlite:///", "sqlite+aiosqlite:///"])
async def test_a_file_is_named_by_its_path_or_as_sqlalchemy_names_it(file: Path, prefix: str) -> None:
    assert await words_in(f"{prefix}{file}") == ["first"]


async def test_the_columns_of_tables_are_known(file: Path) -> None:
    async with open_source(str(file)) as source:
        columns = await source.columns()

    assert columns["words"] == {"word"}


async def test_a_file_cannot_be_written_through_it(file: Path) -> None:
    with pytest.raises(SourceUnreadable, match="readonly"):
        async with open_source(str(file)) as source:
            assert [row async for row in source.rows("DELETE FROM words")] == []
    assert await words_in(str(file)) == ["first"]


@pytest.mark.parametrize(
    ("file", "outcome"),
    [("wal", "another program changed it meanwhile"), ("delete", "the writer waits")],
    indirect=["file"],
)
async def test_a_file_that_is_written_meanwhile_is_never_half_read(file: Path, outcome: str) -> None:
    words: list[str] = []
    problems: list[str] = []
    with closing(apsw.Connection(str(file))) as writer:
        try:
            async with open_source(str(file)) as source:
                words += [word async for (word,) in source.rows(WORDS)]
                try:
                    writer.execute("INSERT INTO words VALUES ('late')")
                except apsw.BusyError:
                    problems.append("the writer waits")
        except SourceUnreadable as error:
            problems.append(error.problem)

    assert (words, problems) == (["first"], [outcome])


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("missing.db", "No such file"),
        ("text.db", "not a database"),
        ("", "directory"),
        ("mysql://root:geheim@host/agents", "only SQLite and PostgreSQL"),
        ("postgresql://root:geheim@127.0.0.1:1/agents", "connection"),
    ],
)
async def test_what_cannot_be_read_is_said_without_the_password(
    diary: Path, monkeypatch: pytest.MonkeyPatch, location: str, problem: str
) -> None:
    monkeypatch.chdir(diary)

    with pytest.raises(SourceUnreadable) as caught:
        await words_in(location)
    assert problem in caught.value.problem
    assert "geheim" not in str(caught.value)


@pytest.mark.postgres
async def test_postgresql_is_read_as_it_was_and_never_written(postgres_database: PostgresDatabase) -> None:
    with psycopg.connect(postgres_database.url, autocommit=True) as other:
        other.execute("CREATE TABLE words (word text)")
        other.execute("INSERT INTO words VALUES ('first')")
        other.execute("CREATE SEQUENCE numbers")
        async with open_source(postgres_database.url) as source:
            first = [word async for (word,) in source.rows(WORDS)]
            other.execute("INSERT INTO words VALUES ('late')")
            second = [word async for (word,) in source.rows(WORDS)]
            columns = await source.columns()
        with pytest.raises(SourceUnreadable, match="read-only"):
            async with open_source(postgres_database.url) as source:
                assert [row async for row in source.rows("SELECT nextval('numbers')")] == []

    assert (first, second, columns["words"]) == (["first"], ["first"], frozenset({"word"}))


@pytest.mark.parametrize(
    "value",
    ["2025-06-15 15:06:40", "2025-06-15T15:06:40.000", "2025-06-15T17:06:40+02:00", 1_750_000_000, 1.75e9],
)
def test_times_are_read_as_frameworks_store_them(value: object) -> None:
    assert milliseconds(value) == NOON


@pytest.mark.parametrize("value", ["yesterday", None, b"", float("inf"), float("nan")])
def test_what_is_no_time_is_none(value: object) -> None:
    assert milliseconds(value) is None


def test_a_file_of_sqlite_is_recognised_by_its_beginning(file: Path, tmp_path: Path) -> None:
    (tmp_path / "archive.jsonl").write_text('{"clew":"archive"}', encoding="utf-8")

    assert (is_sqlite_file(file), is_sqlite_file(tmp_path / "archive.jsonl")) == (True, False)
