"""Backups of every tenant: nothing is replaced before the new copy has been found whole."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import clew
import clew.sync
from clew.cli.app import run
from clew.cli.backup import files
from clew.cli.command import new_call
from clew.cli.commands import backup as commands_backup
from clew.core.values import Enqueue, Job, ProvisionalText, Put, Record, Scope
from clew.database.provisional import provisional_texts
from clew.stores.sqlite import store as sqlite_store
from clew.testing.contracts.provisional import provisional_text
from tests.support.shared_postgres import PostgresDatabase

Command = Callable[..., tuple[int, Any]]
TENANTS = ("acme", "other")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command, and reads what it answers in JSON."""

    def run_command(*words: object) -> tuple[int, Any]:
        code = run([*map(str, words), "--json"])
        output = capsys.readouterr()
        return code, json.loads(output.out or output.err)

    return run_command


class Medium:
    """A database to back up, and another to restore to."""

    def __init__(self, url: str, other: str) -> None:
        self.url = url
        self.other = other

    def fill(self, url: str, *texts: str) -> None:
        """A thread of each tenant, and none of the tenant that is the default one."""
        with clew.sync.open(url) as db:
            for tenant in TENANTS:
                thread = db.scope(tenant=tenant).create("s-1", owner="alice")
                for text in texts:
                    thread.append(items=[clew.user(text)])

    def alter(self, tenant: str) -> None:
        """Change what somebody of a tenant said, behind our back."""
        raise NotImplementedError

    def texts(self, url: str) -> dict[str, list[str]]:
        """What is said in each thread, by tenant."""
        with clew.sync.open(url) as db:
            return {
                tenant: [item.body["content"] for item in db.scope(tenant=tenant).thread("s-1").items()]
                for tenant in TENANTS
            }


class SqliteMedium(Medium):
    def alter(self, tenant: str) -> None:
        connection = apsw.Connection(self.url.removeprefix("sqlite:///"))
        connection.execute(
            "UPDATE items SET body = CAST(replace(body, 'Hi', 'Ho') AS BLOB) WHERE at >> 32 IN ("
            "SELECT logs.key FROM logs JOIN threads ON threads.key = logs.thread WHERE tenant = ?)",
            (tenant,),
        )
        connection.close()


class PostgresMedium(Medium):
    def alter(self, tenant: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "UPDATE clew.items SET body = replace(encode(body, 'escape'), 'Hi', 'Ho')::bytea"
                " WHERE tenant = %s",
                (tenant,),
            )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def medium(store_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Medium]:
    """Two tenants that said Hi, and a place that is empty."""
    if store_name == "sqlite":
        new_medium: Medium = SqliteMedium(f"sqlite:///{tmp_path}/agent.db", f"sqlite:///{tmp_path}/other.db")
        new_medium.fill(new_medium.url, "Hi.", "Hi again.")
        yield new_medium
        return
    database: PostgresDatabase = request.getfixturevalue("postgres_database")
    name = f"restored_{uuid.uuid4().hex}"
    database.server.create_database(name)
    new_medium = PostgresMedium(database.url, database.server.url(name))
    new_medium.fill(new_medium.url, "Hi.", "Hi again.")
    yield new_medium
    database.server.drop_database(name)


def names_in(folder: Path) -> set[str]:
    """What is in a folder, but for what SQLite keeps beside a file."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}


# Every tenant.


@pytest.mark.promise("F-14", "B-06")
def test_a_database_without_a_default_tenant_is_backed_up_and_restored(
    medium: Medium, tmp_path: Path, command: Command
) -> None:
    code, backup_result = command("backup", tmp_path / "b", "--db", medium.url)
    restore_code, restore_result = command("restore", tmp_path / "b", "--db", medium.other)

    assert (code, restore_code, restore_result["ok"]) == (0, 0, True)
    assert [(head["tenant"], head["thread"], head["version"]) for head in backup_result["threads"]] == [
        ("acme", "s-1", 2),
        ("other", "s-1", 2),
    ]
    assert [(v["tenant"], v["hash"]) for v in restore_result["threads"]] == [
        (head["tenant"], head["hash"]) for head in backup_result["threads"]
    ]
    assert medium.texts(medium.other) == medium.texts(medium.url)


@pytest.mark.promise("B-17", "F-14")
def test_a_backup_holds_no_text_of_a_running_answer(medium: Medium, tmp_path: Path, command: Command) -> None:
    async def texts_at(url: str, *, begin: bool) -> list[ProvisionalText]:
        async with clew.open(url) as db:
            texts = provisional_texts(db.store)
            assert texts is not None
            if begin:
                await texts.begin(Scope(), provisional_text(b"not whole yet"), 10)
            return await texts.headers(Scope())

    before = asyncio.run(texts_at(medium.url, begin=True))
    command("backup", tmp_path / "backup", "--db", medium.url)
    command("restore", tmp_path / "backup", "--db", medium.other)

    assert len(before) == 1
    assert asyncio.run(texts_at(medium.other, begin=False)) == []


@pytest.mark.promise("B-06")
def test_heads_of_every_tenant_are_compared(medium: Medium, tmp_path: Path, command: Command) -> None:
    _, backup_result = command("backup", tmp_path / "b", "--db", medium.url)
    backup_result["threads"][1]["hash"] = "00" * 32
    (tmp_path / "heads.json").write_text(json.dumps(backup_result))

    code, report = command("verify", "--heads", tmp_path / "heads.json", "--db", medium.url)
    code_of_tenant, _ = command(
        "verify", "--heads", tmp_path / "heads.json", "--db", medium.url, "--tenant", "acme"
    )

    assert (code, code_of_tenant, len(report["missing"])) == (1, 0, 1)
    assert "'other'" in report["missing"][0]


@pytest.mark.promise("F-14", "B-06")
def test_a_backup_with_an_altered_message_of_any_tenant_replaces_nothing(
    medium: Medium, tmp_path: Path, command: Command
) -> None:
    medium.alter("other")
    command("backup", tmp_path / "b", "--db", medium.url)
    medium.fill(medium.other, "Old.")

    code, answer = command("restore", tmp_path / "b", "--force", "--db", medium.other)

    assert (code, [v["tenant"] for v in answer["threads"] if v["problems"]]) == (1, ["other"])
    assert medium.texts(medium.other) == {"acme": ["Old."], "other": ["Old."]}


@pytest.mark.promise("B-06")
@pytest.mark.parametrize(("tenant", "expected"), [(None, 1), ("other", 1), ("acme", 0)])
def test_verify_looks_at_every_tenant_unless_one_is_named(
    medium: Medium, command: Command, tenant: str | None, expected: int
) -> None:
    medium.alter("other")

    code, report = command("verify", "--db", medium.url, *(["--tenant", tenant] if tenant else []))

    assert code == expected
    assert len(report["threads"]) == (1 if tenant else 2)


@pytest.mark.promise("B-06")
def test_the_doctor_finds_an_altered_message_of_any_tenant(medium: Medium, command: Command) -> None:
    before = command("doctor", "--db", medium.url)[1]["problems"]
    medium.alter("other")

    code, report = command("doctor", "--db", medium.url)

    assert code == 1
    assert not any("s-1" in problem for problem in before)
    assert any("s-1 of tenant 'other'" in problem for problem in report["problems"])


async def test_the_doctor_tells_of_jobs_given_up_by_any_tenant(medium: Medium, command: Command) -> None:
    async with clew.open(medium.url) as db:
        jobs = db.scope(tenant="idle")
        await jobs.commit([Enqueue(job=Job(id="j", kind="k", limit=1))])
        (job,) = await jobs.jobs.claim(["k"])
        await jobs.jobs.fail(job, "broken")

    _, report = await asyncio.to_thread(command, "doctor", "--db", medium.url)

    assert any("given up" in problem for problem in report["problems"])


# What is no backup.


@pytest.fixture
def backup(medium: Medium, tmp_path: Path, command: Command) -> Path:
    """A backup, and a database with something else in the place it could be restored to."""
    command("backup", tmp_path / "b", "--db", medium.url)
    medium.fill(medium.other, "Old.")
    return tmp_path / "b"


def spoil(content: bytes, how: str) -> bytes:
    """What a backup holds once something happened to it."""
    half = len(content) // 2
    match how:
        case "empty":
            return b""
        case "half":
            return content[:half]
        case "altered":
            return (
                content[:half]
                + bytes(byte ^ 0xFF for byte in content[half : half + 4096])
                + content[half + 4096 :]
            )
        case "zeros":
            return bytes(len(content))
        case _:
            return b"Just some text."


@pytest.mark.promise("F-14")
@pytest.mark.parametrize("how", ["empty", "half", "altered", "zeros", "text"])
def test_a_file_that_is_no_whole_backup_replaces_nothing(
    medium: Medium, backup: Path, command: Command, how: str
) -> None:
    backup.write_bytes(spoil(backup.read_bytes(), how))
    there = names_in(backup.parent)

    code, answer = command("restore", backup, "--force", "--db", medium.other)

    assert (code, answer.get("error", {"code": "store_damaged"})["code"]) == (1, "store_damaged")
    assert medium.texts(medium.other) == {"acme": ["Old."], "other": ["Old."]}
    assert names_in(backup.parent) == there


@pytest.mark.promise("F-14")
def test_what_is_there_is_replaced_by_force_only(medium: Medium, backup: Path, command: Command) -> None:
    code, answer = command("restore", backup, "--db", medium.other)
    code_with_force, _ = command("restore", backup, "--force", "--db", medium.other)

    assert (code, answer["error"]["code"], code_with_force) == (1, "invalid_argument", 0)
    assert medium.texts(medium.other) == medium.texts(medium.url)


@pytest.mark.promise("F-14")
def test_a_database_of_another_program_is_no_backup(tmp_path: Path, command: Command) -> None:
    for name, statement in (("b", "CREATE TABLE t (x)"), ("empty", "PRAGMA user_version = 0; VACUUM")):
        connection = apsw.Connection(str(tmp_path / name))
        connection.execute(statement)
        connection.close()

    codes = [command("restore", tmp_path / name, "--db", tmp_path / "new.db") for name in ("b", "empty")]

    assert [(code, answer["error"]["code"]) for code, answer in codes] == [(1, "store_damaged")] * 2
    assert not (tmp_path / "new.db").exists()


# Files.


@pytest.mark.promise("F-14")
def test_a_database_that_is_in_use_is_not_replaced(tmp_path: Path, command: Command) -> None:
    medium = SqliteMedium(f"sqlite:///{tmp_path}/agent.db", f"sqlite:///{tmp_path}/other.db")
    medium.fill(medium.url, "Hi.")
    command("backup", tmp_path / "b", "--db", medium.url)
    medium.fill(medium.other, "Old.")
    with clew.sync.open(medium.other) as db:
        code, answer = command("restore", tmp_path / "b", "--force", "--db", medium.other)
        db.scope(tenant="acme").thread("s-1").append(items=[clew.user("More.")])

    assert (code, answer["error"]["code"]) == (1, "store_busy")
    assert medium.texts(medium.other)["acme"] == ["Old.", "More."]


@pytest.mark.promise("F-14")
def test_a_damaged_database_is_replaced_and_kept(tmp_path: Path, command: Command) -> None:
    medium = SqliteMedium(f"sqlite:///{tmp_path}/agent.db", f"sqlite:///{tmp_path}/other.db")
    medium.fill(medium.url, "Hi.")
    command("backup", tmp_path / "b", "--db", medium.url)
    (tmp_path / "other.db").write_bytes(b"damaged" * 1000)

    code, _ = command("restore", tmp_path / "b", "--force", "--db", medium.other)

    assert (code, medium.texts(medium.other)["acme"]) == (0, ["Hi."])
    assert (tmp_path / "other.db.damaged").read_bytes() == b"damaged" * 1000


def test_a_second_damaged_database_is_kept_beside_the_first(tmp_path: Path, command: Command) -> None:
    medium = SqliteMedium(f"sqlite:///{tmp_path}/agent.db", f"sqlite:///{tmp_path}/other.db")
    medium.fill(medium.url, "Hi.")
    command("backup", tmp_path / "b", "--db", medium.url)
    for word in (b"first", b"second"):
        (tmp_path / "other.db").write_bytes(word * 1000)
        command("restore", tmp_path / "b", "--force", "--db", medium.other)

    copies = sorted(path.read_bytes() for path in tmp_path.glob("other.db.damaged*"))
    assert copies == [b"first" * 1000, b"second" * 1000]


def test_a_backup_is_for_its_owner_only(medium: Medium, tmp_path: Path, command: Command) -> None:
    command("backup", tmp_path / "b", "--db", medium.url)

    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600


@pytest.mark.promise("F-14")
def test_what_a_killed_backup_left_is_no_obstacle(medium: Medium, tmp_path: Path, command: Command) -> None:
    for name in ("b.part", "b.part-wal", "b.part-journal"):
        (tmp_path / name).write_bytes(b"half")

    code, _ = command("backup", tmp_path / "b", "--db", medium.url)
    restore_code, _ = command("restore", tmp_path / "b", "--db", medium.other)

    assert (code, restore_code) == (0, 0)
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_two_backups_do_not_write_the_same_file(medium: Medium, tmp_path: Path, command: Command) -> None:
    with files.reserve_file(tmp_path / "b.part"):
        code, answer = command("backup", tmp_path / "b", "--db", medium.url)

    assert (code, answer["error"]["code"]) == (1, "store_busy")


@pytest.mark.promise("F-14")
async def test_a_backup_that_is_stopped_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    medium = SqliteMedium(f"sqlite:///{tmp_path}/agent.db", "")
    await asyncio.to_thread(medium.fill, medium.url, *(["Hi." * 10_000] * 20))
    (tmp_path / "agent.db.volume").mkdir()
    (tmp_path / "agent.db.volume" / "file").write_bytes(b"x")
    monkeypatch.setattr(sqlite_store, "BACKUP_PAGES", 1)
    loop, steps = asyncio.get_running_loop(), 0

    def step(pages: int, total: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            loop.call_soon_threadsafe(task.cancel)

    monkeypatch.setattr(files, "_percent_progress", lambda advance: step)
    call = new_call(medium.url, None, None, as_json=False)
    there = names_in(tmp_path)
    task = asyncio.ensure_future(commands_backup.backup(call, tmp_path / "b"))
    with pytest.raises(asyncio.CancelledError):
        await task

    assert names_in(tmp_path) == there


# The file of a database that is damaged.


@pytest.mark.promise("B-06")
@pytest.mark.parametrize("level", [[], ["--quick"]])
def test_the_doctor_finds_a_damaged_page(tmp_path: Path, command: Command, level: list[str]) -> None:
    file = tmp_path / "agent.db"
    with clew.sync.open(f"sqlite:///{file}") as db:
        for number in range(30):
            db.create(f"s-{number}").append(items=[clew.user("Hi." * 2000)])
        db.commit([Put(record=Record(kind="note", id="n", body={"text": "x" * 20_000}))])
    content = bytearray(file.read_bytes())
    pages = range(4096, len(content) - 4096, 4096)
    healthy, _ = command("doctor", *level, "--db", file)
    for page in pages[len(pages) // 2 :]:
        content[page : page + 100] = os.urandom(100)
    file.write_bytes(content)

    code, report = command("doctor", *level, "--db", file)

    assert (healthy, code) == (0, 1)
    assert report.get("problems") or report["error"]["code"] == "store_damaged"
