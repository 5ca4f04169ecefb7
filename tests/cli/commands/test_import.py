"""clew import takes the databases of other frameworks, and says what came of each thread."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from agents.extensions.memory import SQLAlchemySession
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from langgraph.checkpoint.memory import InMemorySaver

import clew
from clew.adapters.openai_agents import Session
from clew.cli.app import run
from clew.database.transfer import transfer_thread
from tests.adapters.langgraph.samples import chat, config, say
from tests.adapters.langgraph.saver_tables import write_tables
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.promise("B-10")


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """A file of the OpenAI Agents SDK with three sessions."""
    path = tmp_path / "sessions.db"
    for name in ("a", "b", "c"):
        asyncio.run(add_items(path, name, f"Hello from {name}"))
    return path


async def add_items(path: Path, session: str, *texts: str) -> None:
    theirs = SQLiteSession(session, path)
    await theirs.add_items([{"role": "user", "content": text} for text in texts])
    theirs.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agent.db"


def import_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of an import."""
    capsys.readouterr()
    code = run(["import", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {thread["thread"]: thread["outcome"] for thread in report["threads"]}


def test_a_database_is_recognised_by_its_tables(
    sessions: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["import", str(sessions), "--db", url])

    assert (code, capsys.readouterr().out) == (
        0,
        "3 threads of openai-agents imported, 0 there already, 0 skipped.\n",
    )


def test_a_second_import_adds_nothing(sessions: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    import_json(capsys, str(sessions), "--db", url)
    code, report = import_json(capsys, str(sessions), "--db", url)

    assert (code, report["from"]) == (0, "openai-agents")
    assert outcomes(report) == {"a": "present", "b": "present", "c": "present"}


def test_a_thread_that_differs_is_reported_and_the_others_are_taken_in(
    sessions: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(write_other(url))
    code = run(["import", str(sessions), "--db", url])
    output = capsys.readouterr().out

    assert code == 1
    assert "2 threads of openai-agents imported, 0 there already, 1 skipped." in output
    assert "b: A thread of that id is there already, and differs from version 1 on." in output
    assert asyncio.run(texts_of(url, "b")) == ["Something else"]


def test_existing_threads_are_no_trouble_if_they_are_to_be_skipped(
    sessions: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(write_other(url))
    code, report = import_json(capsys, str(sessions), "--db", url, "--skip-existing")

    assert (code, outcomes(report)["b"]) == (0, "conflict")


async def write_other(url: str) -> None:
    async with clew.open(url) as db:
        await Session("b", db).add_items([{"role": "user", "content": "Something else"}])


async def texts_of(url: str, thread: str) -> list[object]:
    async with clew.open(url) as db:
        return [item.body["content"] for item in await db.thread(thread).items()]


def test_a_row_that_was_left_out_is_reported(
    sessions: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(sessions, isolation_level=None)) as connection:
        connection.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('c', 'broken')")
    code = run(["import", str(sessions), "--db", url])
    output = capsys.readouterr().out

    assert (code, "c: Left out: row 4 of agent_messages" in output) == (1, True)
    assert asyncio.run(texts_of(url, "c")) == ["Hello from c"]


def test_a_dry_run_makes_no_database(
    sessions: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["import", str(sessions), "--db", url, "--dry-run"])

    assert (code, (tmp_path / "agent.db").exists()) == (0, False)
    assert "3 threads of openai-agents would be imported" in capsys.readouterr().out


def test_threads_get_a_prefix_and_an_owner(
    sessions: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["import", str(sessions), "--db", url, "--prefix", "old/", "--owner", "alice"])
    capsys.readouterr()
    run(["threads", "--db", url, "--json", "--user", "alice"])

    assert sorted(thread["id"] for thread in json.loads(capsys.readouterr().out)["threads"]) == [
        "old/a",
        "old/b",
        "old/c",
    ]


@pytest.mark.parametrize(
    ("tables", "arguments", "problem"),
    [
        ("CREATE TABLE notes (text)", [], "has tables of none of these: openai-agents, adk"),
        ("CREATE TABLE notes (text)", ["--from", "adk"], "has no tables of adk"),
        ("", ["--prefix", "old/"], "this is an archive"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(
    tmp_path: Path,
    url: str,
    capsys: pytest.CaptureFixture[str],
    tables: str,
    arguments: list[str],
    problem: str,
) -> None:
    path = tmp_path / "other.db"
    path.write_text("")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(tables)
    code = run(["import", str(path), "--db", url, *arguments])

    assert (code, problem in " ".join(capsys.readouterr().err.split())) == (1, True)


def test_a_database_of_two_frameworks_asks_which(
    sessions: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service = SqliteSessionService(str(sessions))
    asyncio.run(service.create_session(app_name="weather", user_id="alice", session_id="s1"))
    code = run(["import", str(sessions), "--db", url])
    error = " ".join(capsys.readouterr().err.split())
    chosen_code, report = import_json(capsys, str(sessions), "--db", url, "--from", "adk")

    assert (code, "has tables of openai-agents and of adk. Choose one of them with --from." in error) == (
        1,
        True,
    )
    assert (chosen_code, outcomes(report)) == (0, {"adk/weather/alice/s1": "imported"})


@pytest.mark.postgres
def test_a_database_on_postgresql_is_named_by_its_url(
    url: str, postgres_database: PostgresDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(add_items_on_postgresql(postgres_database.url))
    code, report = import_json(capsys, postgres_database.url, "--db", url)
    unknown = postgres_database.url.replace(postgres_database.name, "nowhere")
    code_of_unknown = run(["import", unknown, "--db", url])
    error = capsys.readouterr().err

    assert (code, outcomes(report)) == (0, {"a": "imported"})
    assert (code_of_unknown, "source_unreadable" in error, postgres_database.server.password in error) == (
        1,
        True,
        False,
    )


async def add_items_on_postgresql(url: str) -> None:
    address = url.replace("postgresql://", "postgresql+asyncpg://")
    theirs = SQLAlchemySession.from_url("a", url=address, create_tables=True)
    await theirs.add_items([{"role": "user", "content": "Hello."}])
    await theirs.engine.dispose()


def test_a_database_of_our_own_is_exported_first(
    sessions: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["import", str(sessions), "--db", url])
    code = run(["import", str(tmp_path / "agent.db"), "--db", f"sqlite:///{tmp_path}/second.db"])

    assert (code, "a database of Clew's own" in " ".join(capsys.readouterr().err.split())) == (1, True)


def test_an_import_that_was_interrupted_goes_on(
    sessions: Path, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    async def stop_at_b(db: clew.Database, history: Any, options: Any) -> Any:
        threads.append(history.thread)
        if history.thread == "b":
            raise KeyboardInterrupt
        return await transfer_thread(db, history, options)

    with monkeypatch.context() as patch:
        patch.setattr("clew.adapters.openai_agents.transfer.transfer_thread", stop_at_b)
        code = run(["import", str(sessions), "--db", url])
    code_again, report = import_json(capsys, str(sessions), "--db", url)

    assert (code, threads) == (130, ["a", "b"])
    assert (code_again, outcomes(report)) == (0, {"a": "present", "b": "imported", "c": "imported"})


def test_threads_of_a_langgraph_database_are_taken_in(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    saver = InMemorySaver()
    chat(saver).invoke(say("Hello."), config("alice"))
    write_tables(f"{tmp_path}/langgraph.db", saver)
    code, report = import_json(capsys, f"{tmp_path}/langgraph.db", "--db", url)

    assert (code, report["from"], outcomes(report)) == (0, "langgraph", {"alice": "imported"})
